"""Base class of all configuration."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError


def expand_home(path: str | None) -> str | None:
    """Returns a path with `~` expanded, which shells do not do in `--out=~/x`, and YAML never does."""
    return None if path is None else str(Path(path).expanduser()) if path.startswith("~") else path


def describe_faults(error: ValidationError, whole: str = "") -> str:
    """Returns what is wrong with which field, in one line.

    Args:
        whole: stands for the field of a fault that no single field has.
    """
    faults = [each for each in error.errors() if each["type"] != "default_factory_not_called"]  # of another fault
    told = [(".".join(map(str, each["loc"])) or whole, each["msg"].removeprefix("Value error, ")) for each in faults]
    return "; ".join(f"{field}: {message}" if field else message for field, message in told)


class Config(BaseModel):
    """Base of all configuration: immutable, strictly typed, unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
