"""Folders of evaluations with made figures, as any of its kinds leaves one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kame_model.evaluate.report.folder import EvaluationFolder
from kame_model.evaluate.report.intervals import compute_figures

Items = Mapping[str, Sequence[Mapping[str, Any]]]
"""Of each mode the measures of its items, which are called q0, q1, …"""


def write_evaluation(
    folder: Path,
    items: Items,
    *,
    row: Mapping[str, Any] | None = None,
    system: Mapping[str, Any] | None = None,
    **run: Any,
) -> str:
    """Writes an evaluation with one row of figures for each mode, and returns its folder.

    Args:
        row: further fields of all rows.
        system, run: what `run` of its figures says beside what is usual.
    """
    told = {"kind": "questions", "version": 1, "seed": 0, "set": {"name": "mine"}, **run}
    told["system"] = {"name": folder.name, "checkpoint": folder.name, "back_end": "gpt", **(system or {})}
    kept, rows = EvaluationFolder(str(folder), told), []
    for mode, measured in items.items():
        records = [
            {"row": {"mode": mode, **(row or {})}, "unit": f"q{number}", "measures": dict(measures)}
            for number, measures in enumerate(measured)
        ]
        for record in records:
            kept.keep(f"{mode}/{record['unit']}", record)
        rows.append({"mode": mode, **(row or {}), **compute_figures(records)})
    kept.write_results(rows, "", {})
    return str(folder)


def right(n: int, of: int, **measures: Any) -> list[dict[str, Any]]:
    """Returns the measures of `of` items, of which the first `n` have the right answer.

    Args:
        measures: further measures of each item.
    """
    return [{"answer_accuracy": number < n, **measures} for number in range(of)]
