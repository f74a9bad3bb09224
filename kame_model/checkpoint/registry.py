"""The register of checkpoints: a folder of them, and two lists.

index.json   what each checkpoint is
looks.json   who was evaluated on test items, and when: a second look is no longer a test
"""

import json
from collections.abc import Sequence
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


class Entry(Config):
    """A checkpoint of the register."""

    name: str = Field(description="Its folder, beside the index.")
    preset: str
    step: int = Field(description="Optimiser steps of its last stage.")
    data: list[str] = Field(description="Fingerprints of the token rows trained on.")
    registered_at: str = Field(description="When it was registered, UTC.")
    figures: dict[str, float] = Field(
        default_factory=dict, description="Losses on validation in nats, and shares of free running."
    )


class Look(Config):
    """One evaluation of a checkpoint on test items; the same one again, or gone on with, is the same look."""

    checkpoint: str = Field(description="Digest of the weights: the same wherever the folder lies, and by any name.")
    evaluation: str = Field(description="Digest of all that decides what comes of it.")
    kind: str = Field(description="Which evaluation it was.")
    data: str = Field(description="Fingerprint of the test items.")
    at: str = Field(description="When it began, UTC.")


_T = TypeVar("_T")
_ENTRIES = TypeAdapter(list[Entry])
_LOOKS = TypeAdapter(list[Look])


def read_registry(folder: str) -> list[Entry]:
    """The registered checkpoints, in the order of their registration; none where there is no index.

    Raises:
        StoreError: the index cannot be read.
    """
    return _read_list(folder, INDEX, _ENTRIES, "Remove it, and register again.")


def register(folder: str, entry: Entry) -> None:
    """Adds a checkpoint, or puts its entry in the place of an older one of its name.

    Raises:
        StoreError: there is no such checkpoint beside the index, or the index cannot be read or written.
    """
    if not (Path(folder) / entry.name).is_dir():
        raise StoreError(f"{folder} has no checkpoint {entry.name}.", "Export it there first.")
    with FileLock(Path(folder) / f".{INDEX}.lock"):
        kept = [each for each in read_registry(folder) if each.name != entry.name]
        _write_list(folder, INDEX, [*kept, entry])


def register_export(folder: str, name: str, shares: list[FreeShare]) -> KameJson:
    """Puts an export into the index, with its losses and what free runs came to; its facts and card have these too.

    Args:
        shares: none where nothing was run freely this time; those of an earlier time stand then.

    Raises:
        StoreError: as `register`, and where the export's own files cannot be read or written.
    """
    from kame_model.checkpoint.export import record_free_running  # with it comes torch, which readers need not

    place = Path(folder) / name
    facts = record_free_running(place, shares) if shares else read_kame_json(place / FACTS)
    entry = Entry(
        name=name,
        preset=facts.preset,
        step=facts.training.step,
        data=facts.training.data,
        registered_at=datetime.now(UTC).isoformat(timespec="seconds"),
        figures=facts.training.figures | {each.name: round(each.value, 4) for each in facts.free_running},
    )
    register(folder, entry)
    return facts


def note_look(folder: str, look: Look, *, again: bool) -> int:
    """Counts a look at test items, before it is taken.

    Args:
        folder: of the register; it is made.
        again: look though these weights have been evaluated on test items before.

    Returns:
        How many looks these weights have had, this one among them.

    Raises:
        ConfigError: this would be a second one, and `again` is false.
        StoreError: the list cannot be read or written.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    with FileLock(Path(folder) / f".{LOOKS}.lock"):
        looks = read_looks(folder)
        own = [each for each in looks if each.checkpoint == look.checkpoint]
        if look.evaluation in [each.evaluation for each in own]:
            return len(own)
        if own and not again:
            raise ConfigError(
                f"These weights have been evaluated on test items before: {own[-1].kind}, {own[-1].at}"
                f"{f', and {len(own) - 1} times more' if len(own) > 1 else ''}.",
                "Use the split validation while you choose between models; say --again to look all the same.",
            )
        _write_list(folder, LOOKS, [*looks, look])
    return len(own) + 1


def read_looks(folder: str) -> list[Look]:
    """All looks at test items, in their order; none where there is no list.

    Raises:
        StoreError: the list cannot be read.
    """
    return _read_list(folder, LOOKS, _LOOKS, "Mend it: it says which checkpoints have been tested.")


def _read_list(folder: str, name: str, adapter: TypeAdapter[list[_T]], remedy: str) -> list[_T]:
    store = Store(folder)
    if not store.exists(name):
        return []
    try:
        return adapter.validate_json(store.read_bytes(name), strict=False)
    except ValidationError as error:
        raise StoreError(f"{store.at(name)} is damaged: {str(error).splitlines()[0]}.", remedy) from error


def _write_list(folder: str, name: str, rows: Sequence[Config]) -> None:
    told = [each.model_dump(mode="json") for each in rows]
    Store(folder).write_bytes(name, (json.dumps(told, indent=1) + "\n").encode())
