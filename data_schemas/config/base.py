"""Base class of all configuration."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict


def expand_home(path: str | None) -> str | None:
    """Returns a path with `~` expanded, which shells do not do in `--out=~/x`, and YAML never does."""
    return None if path is None else str(Path(path).expanduser()) if path.startswith("~") else path


class Config(BaseModel):
    """Base of all configuration: immutable, strictly typed, unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
