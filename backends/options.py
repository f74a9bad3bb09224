"""What the options of back-ends have in common: a strict class each, and lists written as one text."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from data_schemas.config import Config

OptionValue = str | int | float | bool
"""What an option may be: a plain value."""


class Options(Config):
    """Base of a back-end's own options; values are plain (text, number, yes or no), as YAML and forms give them."""


def _expand_path(path: str) -> str:
    return str(Path(path).expanduser()) if path else ""


FilePath = Annotated[str, AfterValidator(_expand_path)]
"""A path on this machine; `~` is written out. Empty: none."""


class WorkerOptions(Options):
    """What every engine in a worker environment takes."""

    threads: int = Field(default=1, ge=1, le=64, description="Threads of the engine's process.")
    timeout_s: float = Field(
        default=600.0, gt=0, description="Longest wait for one answer, seconds; the first also loads the model."
    )


def split_list(text: str) -> list[str]:
    """The parts of a text separated by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def split_paths(text: str) -> list[str]:
    """As `listed`, for paths on this machine."""
    return [_expand_path(path) for path in split_list(text)]
