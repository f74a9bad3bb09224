"""YAML in which 1e-5 is a number, which YAML 1.1 reads as a string."""

import re
from typing import Any

import yaml


class _TypedLoader(yaml.SafeLoader):  # type: ignore[misc]  # yaml ships no types
    """The safe loader, with numbers in scientific notation as in Python, JSON and YAML 1.2."""


_TypedLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def load_typed_yaml(text: str) -> Any:
    """Parses YAML safely; 1e-5 becomes a float, not a string as in YAML 1.1.

    Raises:
        yaml.YAMLError: if the text is not valid YAML.
    """
    return yaml.load(text, _TypedLoader)  # noqa: S506 - a safe loader
