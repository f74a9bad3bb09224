"""Base class of all configuration."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

VARIABLE_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
"""Pattern for the name of an environment variable. A secret in its place would be quoted by messages and records."""


def expand_home(path: str | None) -> str | None:
    """Returns a path with a leading `~` expanded, and None for None; shells do not expand it in `--out=~/x`."""
    return None if path is None else str(Path(path).expanduser()) if path.startswith("~") else path


def describe_faults(error: ValidationError, whole: str = "") -> str:
    """Returns the errors of a validation in one line, each as `FIELD: MESSAGE`, separated by semicolons.

    Args:
        whole: name used in place of the field for an error that belongs to no single field; empty: no name.
    """
    faults = [each for each in error.errors() if each["type"] != "default_factory_not_called"]  # of another fault
    pairs = [(".".join(map(str, each["loc"])) or whole, each["msg"].removeprefix("Value error, ")) for each in faults]
    return "; ".join(f"{field}: {message}" if field else message for field, message in pairs)


class Config(BaseModel):
    """Base of all configuration: immutable, strictly typed, unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
