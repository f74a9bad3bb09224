"""Records evaluations on test items in the checkpoint registry, before they start, for every kind of evaluation."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from data_schemas import ids
from data_schemas.errors import ConfigError
from kame_model.checkpoint.registry import EvaluationOnTestItems, add_test_evaluation


def record_test_evaluation(
    run: Mapping[str, Any],
    asked: Mapping[str, Any],
    data: str,
    checkpoint: Path | None,
    *,
    register: str | None,
    again: bool,
) -> int:
    """Records an evaluation on test items, and returns how many these weights have had, including this one.

    An evaluation that is recorded already, with equal `run` and `asked`, is being resumed: it is neither refused nor
    counted again.

    Args:
        run: as for `EvaluationFolder`; its kind and its system's checkpoint are recorded.
        asked: settings that affect the result and are not in `run`.
        data: fingerprint of the test items.
        checkpoint: the checkpoint's folder; None: it is on the Hub.
        register: the checkpoint registry; None: the parent folder of `checkpoint`.
        again: allow it even if these weights have been evaluated on test items before.

    Raises:
        ConfigError: this would be a second evaluation and `again` is false, or there is no registry.
        StoreError: the list cannot be read or written.
    """
    if register is None and checkpoint is None:
        raise ConfigError(
            "Evaluations on the test split are recorded in a checkpoint registry, but this checkpoint is on the Hub.",
            "Choose the registry's folder with --register FOLDER.",
        )
    folder = register or str(Path(str(checkpoint)).expanduser().resolve().parent)
    evaluation = EvaluationOnTestItems(
        checkpoint=run["system"]["checkpoint"],
        evaluation=ids.digest("look", json.dumps([run, asked], sort_keys=True)),
        kind=run["kind"],
        data=data,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return add_test_evaluation(folder, evaluation, again=again)


def format_test_evaluations(n: int) -> str:
    """Returns a sentence for reports on the number of evaluations on test items."""
    times = f"{n} time{'s' if n > 1 else ''}"
    return f"**Test items: these weights were evaluated on them {times}**, according to the checkpoint registry."
