"""YAML as people type it: 1e-5 is a number, which YAML 1.1 takes for a text."""

import re
from typing import Any

import yaml


class _TypedLoader(yaml.SafeLoader):  # type: ignore[misc]  # yaml ships no types
    """The safe loader, with numbers in powers of ten as Python, JSON and YAML 1.2 write them."""


_TypedLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def load_typed_yaml(text: str) -> Any:
    """The value that a text stands for.

    Raises:
        yaml.YAMLError: it is no YAML.
    """
    return yaml.load(text, _TypedLoader)  # noqa: S506 - a safe loader
