"""Looks at test items, counted before they are taken, whichever kind of evaluation takes them."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from data_schemas import ids
from data_schemas.errors import ConfigError
from kame_model.checkpoint.registry import Look, note_look


def note_look_at_test(
    run: Mapping[str, Any],
    asked: Mapping[str, Any],
    data: str,
    checkpoint: Path | None,
    *,
    register: str | None,
    again: bool,
) -> int:
    """How often test items have been looked at with these weights, this time among them.

    Args:
        run: as of `EvaluationFolder`; its kind and its system's checkpoint are noted.
        asked: what else decides what is looked at; with the same as before it is the same look.
        data: fingerprint of the test items.
        checkpoint: its folder; None: it is on the Hub.
        register: the folder of checkpoints where looks are counted; None: the one in which `checkpoint` lies.
        again: look though somebody has looked before.

    Raises:
        ConfigError: this would be a second look, and `again` is false; or no folder counts it.
        StoreError: the list cannot be read or written.
    """
    if register is None and checkpoint is None:
        raise ConfigError(
            "Looks at the split test are counted in a folder of checkpoints, and this checkpoint is on the Hub.",
            "Name the folder: --register FOLDER.",
        )
    folder = register or str(Path(str(checkpoint)).expanduser().resolve().parent)
    look = Look(
        checkpoint=run["system"]["checkpoint"],
        evaluation=ids.digest("look", json.dumps([run, asked], sort_keys=True)),
        kind=run["kind"],
        data=data,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return note_look(folder, look, again=again)


def tell_looks(n: int) -> str:
    """A sentence for reports."""
    times = f"{n} time{'s' if n > 1 else ''}"
    return f"**Test items: these weights were evaluated on them {times}**, as far as the register of checkpoints knows."
