"""Base classes of back-ends' options, and lists written as comma-separated text."""

from collections import Counter
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from data_schemas.config import Config

OptionValue = str | int | float | bool
"""The plain values that an option may have."""


class Options(Config):
    """Base class of a back-end's options; values are plain (text, number, yes or no), as in YAML and forms."""


def _expand_path(path: str) -> str:
    """Returns a path with `~` expanded; an empty one stays empty."""
    return str(Path(path).expanduser()) if path else ""


FilePath = Annotated[str, AfterValidator(_expand_path)]
"""A path on this machine; `~` is expanded. Empty: none."""


class WorkerOptions(Options):
    """Options of every engine in a worker environment."""

    threads: int = Field(default=1, ge=1, le=64, description="Threads of the engine's process.")
    timeout_s: float = Field(
        default=600.0, gt=0, description="Longest wait for one answer, seconds; the first also loads the model."
    )


def split_list(text: str) -> list[str]:
    """Splits comma-separated text into its parts, without spaces around them and without empty ones."""
    return [part.strip() for part in text.split(",") if part.strip()]


def split_paths(text: str) -> list[str]:
    """Splits comma-separated paths as `split_list` does, and expands `~` in each."""
    return [_expand_path(path) for path in split_list(text)]


def _check_voice_names(text: str) -> str:
    """Returns comma-separated paths if the names of the files, without their endings, differ."""
    names = Counter(Path(path).stem for path in split_paths(text))
    if same := [name for name, n_files in names.items() if n_files > 1]:
        raise ValueError(f"voices are named after their files, and several are named {', '.join(same)}: rename them")
    return text


VoicePaths = Annotated[str, AfterValidator(_check_voice_names)]
"""Comma-separated paths of files after which voices are named."""
