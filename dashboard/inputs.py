"""Checks that what a form names as input exists here: question sets, files and folders.

A worker on another machine may have what this machine lacks, so a page shows these separately from invalid values.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from data_schemas.config.base import expand_home
from data_schemas.config.front_end import parse_dataset_share
from data_schemas.config.serving import NO_CHECKPOINT
from data_schemas.hub import REPOSITORY

_FILE, _FOLDER, _EITHER = "file", "folder", "file or folder"

_SOURCES: Final = {"sources.path": _FILE, "sources.pictures": _FOLDER}
_PATHS: Final[Mapping[str, Mapping[str, str]]] = {
    "refresh": {**_SOURCES, "evaluation_sets": _FILE, "script.lexicon": _FILE},
    "speech": {**_SOURCES, "without": _FOLDER, "lexicon": _FILE, "tokenizer": _FILE},
    "train": {"datasets": _FOLDER, "held_out": _FOLDER, "speech": _FOLDER, "tokenizer": _FILE, "init_from": _EITHER},
    "evaluate": {"checkpoint": _FOLDER, "path": _EITHER, "voices": _FOLDER, "register_folder": _FOLDER},
    "serve": {"checkpoint": _FOLDER},
}
"""Expected inputs of each kind of run, by dotted path without numbers."""

_MAYBE_HUB: Final = ("checkpoint", "init_from")
"""Inputs that may also be `owner/name` on the Hub."""


def find_missing_inputs(kind: str, settings: Mapping[str, Any], question_sets: Sequence[str]) -> dict[str, str]:
    """Returns what is wrong with each input that a run would not find on this machine, by dotted path of the field.

    Args:
        settings: settings as returned by `read_form`.
        question_sets: names of those that need no columns; if empty, names are not checked.
    """
    missing = _find_unknown_sources(settings, question_sets)
    wanted = _PATHS[kind]
    for path, text in _list_texts(settings):
        name = re.sub(r"\.\d+(?=\.|$)", "", path)
        if name in wanted and (fault := _check_path(name, wanted[name], text)):
            missing[path] = fault
    return missing


def _find_unknown_sources(settings: Mapping[str, Any], known: Sequence[str]) -> dict[str, str]:
    """Returns an error for each unknown question set without columns, by dotted path; none if `known` is empty."""
    missing: dict[str, str] = {}
    for number, source in enumerate(settings.get("sources") or ()):
        name = source.get("name")
        if known and name and name not in known and not source.get("columns"):
            missing[f"sources.{number}.name"] = (
                f"There is no question set {name!r}. Choose one of: {', '.join(known)}; or, for your own questions, "
                "write into Columns which of them hold question and answer."
            )
    return missing


def _list_texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yields dotted path and value of each text in nested settings."""
    if isinstance(value, str):
        yield path, value
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for name, each in pairs:
        yield from _list_texts(each, f"{path}.{name}" if path else str(name))


def _check_path(name: str, kind: str, text: str) -> str:
    """Returns why a file or folder is not there, or an empty text if it is, is a URL, or may be a name on the Hub."""
    if name in ("datasets", "held_out"):
        text = parse_dataset_share(text).folder
    if not text or "://" in text or (name == "checkpoint" and text == NO_CHECKPOINT):
        return ""
    is_hub_name = REPOSITORY.fullmatch(text.partition("@")[0]) is not None
    if name in _MAYBE_HUB and is_hub_name and not _passes_test(text.partition("/")[0], Path.is_dir):
        return ""
    exists = {_FILE: Path.is_file, _FOLDER: Path.is_dir, _EITHER: Path.exists}[kind]
    if _passes_test(text, exists):
        return ""
    if _passes_test(text, Path.exists):
        return f"{text!r} is not a {kind}."
    where = "" if text.startswith(("/", "~")) else f" Relative paths start in {Path.cwd()}."
    return f"There is no {kind} {text!r} on this machine.{where}"


def _passes_test(text: str, test: Callable[[Path], bool]) -> bool:
    """Returns whether a path passes a test such as `Path.is_dir`; False for a text that is not a path."""
    try:
        return test(Path(expand_home(text) or ""))
    except (OSError, RuntimeError, ValueError):  # no path at all
        return False
