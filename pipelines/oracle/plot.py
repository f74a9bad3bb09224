"""The measured ladder as files: a picture (nearness by level, a line a source, 95% intervals), and JSON beside it."""

import io
import json
from typing import TYPE_CHECKING

from data_schemas.errors import ConfigError
from data_schemas.store import Store
from pipelines.oracle.ladder_section import report_paths
from pipelines.oracle.nearness import Estimate
from pipelines.oracle.report import LEVELS, LadderReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""Okabe and Ito's, which colour-blind readers tell apart."""


def write_report(store: Store, report: LadderReport) -> list[str]:
    """Writes picture and JSON into the dataset's folder; returns their paths there."""
    picture, figures = report_paths(report.version)
    store.write_bytes(picture, ladder_png(report))
    store.write_bytes(figures, (json.dumps(report.as_json(), indent=1) + "\n").encode())
    return [picture, figures]


def ladder_png(report: LadderReport) -> bytes:
    """The picture; the same report gives the same bytes.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ConfigError("The plot needs matplotlib.", "Type: pip install 'kame-pipeline[report]'") from error
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    nearness, found = figure.subplots(1, 2)
    for place, (source, measured) in enumerate(report.sources.items()):
        colour, shift = _COLOURS[place % len(_COLOURS)], 0.06 * (place - (len(report.sources) - 1) / 2)
        _line(nearness, [measured.levels[level].word_f1 for level in LEVELS], source, colour, shift)
        _line(found, [measured.levels[level].answer_found for level in LEVELS], source, colour, shift)
        if measured.chance.value is not None:
            nearness.axhline(measured.chance.value, color=colour, linestyle=":", linewidth=1)
    nearness.set_ylabel("word F1 with the true answer")
    nearness.set_title("Nearness (dotted: chance, answers of other items)", fontsize=10)
    found.set_ylabel("share of oracles with the answer in them")
    found.set_title("Answer found", fontsize=10)
    for axes in (nearness, found):
        axes.set_xlabel("hint level")
        axes.set_xticks(list(LEVELS))
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    nearness.legend(frameon=False)
    simulators = "; ".join(sorted({f"{each.model}, prompts {each.prompts}" for each in report.simulators}))
    figure.suptitle(f"Oracle ladder, version {report.version}: {simulators}", fontsize=11)
    sink = io.BytesIO()
    figure.savefig(sink, format="png", dpi=110, metadata={"Software": None})
    return sink.getvalue()


def _line(axes: "Axes", estimates: list[Estimate], label: str, colour: str, shift: float) -> None:
    """One source's means with their intervals, moved a little aside so that sources do not hide each other."""
    there = [
        (level + shift, each.value, each.value - each.low, each.high - each.value)
        for level, each in zip(LEVELS, estimates, strict=True)
        if each.value is not None and each.low is not None and each.high is not None
    ]
    if there:
        at, values, below, above = zip(*there, strict=True)
        spread = [[max(0.0, one) for one in below], [max(0.0, one) for one in above]]
        axes.errorbar(at, values, yerr=spread, label=label, color=colour, marker="o", capsize=3)
