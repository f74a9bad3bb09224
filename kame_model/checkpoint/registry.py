"""The checkpoint registry: a folder of checkpoints with two lists.

index.json   the registered checkpoints with their metrics
looks.json   every evaluation on test items, because a second one is no longer an unbiased test
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from filelock import FileLock
from pydantic import Field, TypeAdapter, ValidationError

from data_schemas.config.base import Config
from data_schemas.errors import ConfigError, StoreError
from data_schemas.store import Store
from kame_model.checkpoint.files import FACTS
from kame_model.checkpoint.kame_json import FreeShare, KameJson, read_kame_json

INDEX = "index.json"
LOOKS = "looks.json"


class RegisteredCheckpoint(Config):
    """A registered checkpoint."""

    name: str = Field(description="Name of its folder, beside the index.")
    preset: str
    step: int = Field(description="Number of optimiser steps of its last stage.")
    data: list[str] = Field(description="Fingerprints of the token rows trained on.")
    registered_at: str = Field(description="Time of registration, UTC.")
    figures: dict[str, float] = Field(
        default_factory=dict, description="Validation losses in nats, and shares from free running."
    )


class EvaluationOnTestItems(Config):
    """One evaluation of a checkpoint on test items; repeating or resuming the same one does not count again."""

    checkpoint: str = Field(description="Digest of the weights, independent of the folder's path and name.")
    evaluation: str = Field(description="Digest of all settings that affect the result.")
    kind: str = Field(description="Kind of evaluation, for example recall.")
    data: str = Field(description="Fingerprint of the test items.")
    at: str = Field(description="Time at which it started, UTC.")


_T = TypeVar("_T")
_ENTRIES = TypeAdapter(list[RegisteredCheckpoint])
_LOOKS = TypeAdapter(list[EvaluationOnTestItems])


def read_registry(folder: str) -> list[RegisteredCheckpoint]:
    """Returns the registered checkpoints in order of registration; none if there is no index.

    Raises:
        StoreError: the index cannot be read.
    """
    return _read_list(folder, INDEX, _ENTRIES, "Remove it and register the checkpoints again.")


def register(folder: str, entry: RegisteredCheckpoint) -> None:
    """Adds a checkpoint, which is in the registry's folder, to its index; an older entry of the same name is removed.

    Raises:
        StoreError: the checkpoint is not in the folder, or the index cannot be read or written.
    """
    if not (Path(folder) / entry.name).is_dir():
        raise StoreError(f"{folder} has no checkpoint {entry.name}.", "Export it into that folder first.")
    with _lock_list(folder, INDEX):
        kept = [each for each in read_registry(folder) if each.name != entry.name]
        _write_list(folder, INDEX, [*kept, entry])


def register_export(folder: str, name: str, shares: list[FreeShare]) -> KameJson:
    """Registers an export with its losses and results of free running, and records the latter in its facts and card.

    Returns the facts, with these results.

    Args:
        folder: the registry's folder.
        name: name of the export in it.
        shares: results of free running; empty: earlier results are kept.

    Raises:
        StoreError: as `register`; or files of the export cannot be read or written.
    """
    from kame_model.checkpoint.export import record_free_running  # imports torch, which readers do not need

    place = Path(folder) / name
    facts = record_free_running(place, shares) if shares else read_kame_json(place / FACTS)
    entry = RegisteredCheckpoint(
        name=name,
        preset=facts.preset,
        step=facts.training.step,
        data=facts.training.data,
        registered_at=datetime.now(UTC).isoformat(timespec="seconds"),
        figures=facts.training.figures | {each.name: round(each.value, 4) for each in facts.free_running},
    )
    register(folder, entry)
    return facts


def add_test_evaluation(folder: str, evaluation: EvaluationOnTestItems, *, again: bool) -> int:
    """Records an evaluation on test items before it starts; one that is recorded already is resumed, and counts once.

    Args:
        folder: the registry's folder; it is created if necessary.
        evaluation: the evaluation.
        again: allow it even if these weights have been evaluated on test items before.

    Returns:
        The number of evaluations of these weights on test items, including this one.

    Raises:
        ConfigError: these weights have been evaluated on test items before, and `again` is false.
        StoreError: the list cannot be read or written.
    """
    with _lock_list(folder, LOOKS):
        evaluations = read_test_evaluations(folder)
        own = [each for each in evaluations if each.checkpoint == evaluation.checkpoint]
        if evaluation.evaluation in [each.evaluation for each in own]:
            return len(own)
        if own and not again:
            raise ConfigError(
                f"These weights have been evaluated on test items before: {own[-1].kind}, {own[-1].at}"
                f"{f', and {len(own) - 1} times more' if len(own) > 1 else ''}.",
                "Use the validation split while you choose between models, or pass --again to evaluate anyway.",
            )
        _write_list(folder, LOOKS, [*evaluations, evaluation])
    return len(own) + 1


def read_test_evaluations(folder: str) -> list[EvaluationOnTestItems]:
    """Returns all evaluations on test items in order; none if there is no list.

    Raises:
        StoreError: the list cannot be read.
    """
    return _read_list(folder, LOOKS, _LOOKS, "Repair it by hand: it records all evaluations on test items.")


@contextmanager
def _lock_list(folder: str, name: str) -> Iterator[None]:
    """Locks a list against other processes during the `with` block; its folder is created if necessary.

    Raises a StoreError if the folder cannot be written.
    """
    lock = FileLock(Path(folder) / f".{name}.lock")
    with Store(folder).translate_errors(name, "write"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _read_list(folder: str, name: str, adapter: TypeAdapter[list[_T]], remedy: str) -> list[_T]:
    """Reads the rows of a list; none if the file does not exist. Raises a StoreError if it is damaged."""
    store = Store(folder)
    if not store.exists(name):
        return []
    try:
        return adapter.validate_json(store.read_bytes(name), strict=False)
    except ValidationError as error:
        raise StoreError(f"{store.resolve_path(name)} is damaged: {str(error).splitlines()[0]}.", remedy) from error


def _write_list(folder: str, name: str, rows: Sequence[Config]) -> None:
    """Writes the rows of a list as JSON, which replaces the file."""
    values = [each.model_dump(mode="json") for each in rows]
    Store(folder).write_bytes(name, (json.dumps(values, indent=1) + "\n").encode())
