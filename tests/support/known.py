"""Values that may be None by their type and are not in a test."""

from typing import TypeVar

T = TypeVar("T")


def known(value: T | None) -> T:
    """Returns a value; asserts that it is one."""
    assert value is not None
    return value
