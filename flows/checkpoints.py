"""Reads checkpoints, training runs and evaluations for the dashboard (`dashboard.checkpoints.CheckpointReader`)."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from dashboard.checkpoints import COMPARISON, CheckpointFacts, EvaluationFacts, EvaluationRow, MeasuredFigure
from data_schemas import ids
from data_schemas.errors import DatasetError, KameError, StoreError
from flows.settings import find_shipped_checkpoint
from kame_model.checkpoint.files import FACTS, WEIGHTS, digest_files, read_header
from kame_model.checkpoint.kame_json import KameJson, read_kame_json
from kame_model.checkpoint.registry import read_registry
from kame_model.evaluate.report.evaluations import Evaluation, format_title, read_evaluation
from kame_model.evaluate.report.folder import read_figures
from kame_model.train.run_facts import read_facts

_INTERVAL: Final = "_interval"
_OF_THE_SYSTEM: Final = {"system", "seed"}
"""Fields in which two evaluations that are compared may differ, as in `kame evaluate compare`."""


class CheckpointFiles:
    """Reads checkpoints from the disk, without importing torch; a missing or damaged file is a KameError."""

    def list_shipped(self) -> Sequence[Path]:
        """Returns the folders of checkpoints that are shipped with the project."""
        shipped = find_shipped_checkpoint()
        return [] if shipped is None else [Path(shipped)]

    def read_facts(self, folder: Path) -> CheckpointFacts:
        """Reads a checkpoint's facts (kame.json), and of its weights only the header."""
        facts, weights = read_kame_json(folder / FACTS), folder / WEIGHTS
        header = read_header(weights)
        training = facts.training
        return CheckpointFacts(
            weights=weights,
            n_parameters=header.n_parameters,
            n_bytes=weights.stat().st_size,
            preset=facts.preset,
            codec=(facts.codec_digest or "") if facts.codec is None else facts.codec.name,
            voice=facts.voice,
            stage=training.stage,
            step=training.step,
            data=training.data,
            run=training.run,
            losses=training.figures,
            losses_step=training.figures_step,
            shares=[
                MeasuredFigure(each.name, each.value, each.low, each.high, each.of, True) for each in facts.free_running
            ],
            made_at=_get_creation_time(folder),
            all_facts=_remove_figures(facts),
        )

    def read_digest(self, weights: Path) -> str:
        """Computes the digest by which evaluations identify a file of weights; reads the whole file."""
        return digest_files([weights])

    def read_run_identity(self, folder: Path) -> str:
        """Returns the id of the training run in a folder, as the facts of its checkpoints have it."""
        return read_facts(folder).identity

    def read_evaluation(self, folder: Path) -> EvaluationFacts:
        """Reads an evaluation, or a comparison of several.

        Raises:
            KameError: the folder is damaged, or holds neither.
        """
        try:
            figures = read_figures(str(folder))
            run = figures["run"]
            if run["kind"] == COMPARISON:
                return _make_comparison(run)
            evaluation = read_evaluation(str(folder))
            rows = [_make_row(evaluation, key, row) for key, row in zip(evaluation.keys, figures["rows"], strict=True)]
            must_be_same = {name: value for name, value in run.items() if name not in _OF_THE_SYSTEM}
            return EvaluationFacts(
                kind=run["kind"],
                title=_format_title(run),
                checkpoints=frozenset(filter(None, [run["system"].get("checkpoint")])),
                alike=ids.digest(must_be_same),
                rows=rows,
            )
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise DatasetError(f"{folder} holds no evaluation: {error!r}.", "Make it with `kame evaluate`.") from error


def _get_creation_time(folder: Path) -> datetime:
    """Returns the time at which a checkpoint was registered, or if it was not, at which its facts were written.

    A damaged registry is ignored.

    Raises:
        StoreError: there are no facts.
    """
    try:
        for entry in read_registry(str(folder.parent)):
            if entry.name == folder.name:
                registered_at = datetime.fromisoformat(entry.registered_at)
                return registered_at if registered_at.tzinfo else registered_at.replace(tzinfo=UTC)
    except (KameError, ValueError):
        pass  # a register that is damaged hides no checkpoint
    try:
        return datetime.fromtimestamp((folder / FACTS).stat().st_mtime, UTC)
    except OSError as error:
        raise StoreError(f"{folder / FACTS} cannot be read: {error}.", "Export the checkpoint again.") from error


def _remove_figures(facts: KameJson) -> dict[str, Any]:
    """Converts a checkpoint's facts to JSON without the losses and shares, which are shown elsewhere."""
    return facts.model_dump(mode="json", exclude={"free_running": True, "training": {"figures"}})


def _make_comparison(run: Mapping[str, Any]) -> EvaluationFacts:
    """Makes the facts of a comparison of several evaluations; it has no rows of its own."""
    weights = [each for of_system in (run.get("checkpoints") or {}).values() for each in of_system]
    title = f"{run['of']}: {' against '.join(run['systems'])}"
    return EvaluationFacts(COMPARISON, title, frozenset(filter(None, weights)), "", ())


def _format_title(run: Mapping[str, Any]) -> str:
    """Returns the title of an evaluation: its kind, splits, chat model (if it has them) and seed."""
    system = run["system"]
    behind = f" behind {system['back_end']}" if system.get("back_end") else ""
    splits = f" on {', '.join(run['splits'])}" if run.get("splits") else ""
    return f"{run['kind']}{splits}{behind}, seed {run['seed']}"


def _make_row(evaluation: Evaluation, key: Mapping[str, Any], row: Mapping[str, Any]) -> EvaluationRow:
    """Makes a row from figures.json; fields with an interval are metrics.

    A metric is a share if each record has true, false or nothing as its value.
    """
    names = [name.removesuffix(_INTERVAL) for name in row if name.endswith(_INTERVAL)]
    records = evaluation.get_records(dict(key))
    figures = []
    for name in names:
        low, high = row[name + _INTERVAL] or (None, None)
        values = {json.dumps(each["measures"].get(name)) for each in records}
        n = row.get(f"{name}_n", row.get("n"))
        figures.append(MeasuredFigure(name, row.get(name), low, high, n, values <= {"true", "false", "null"}))
    return EvaluationRow(format_title(key), row.get("n"), figures)
