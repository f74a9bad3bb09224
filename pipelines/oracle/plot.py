"""Writes the measured hint ladder as a plot (closeness by level and source, 95% intervals), JSON and a page."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from data_schemas.errors import ConfigError
from data_schemas.store import Store
from pipelines.oracle.ladder import LEVELS, LadderReport, LevelFigures, SourceFigures
from pipelines.oracle.ladder_section import format_section, list_report_paths
from pipelines.oracle.nearness import FEWEST_ITEMS, IntervalEstimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""The colours of Okabe and Ito, which colour-blind readers can tell apart."""


def write_report(store: Store, report: LadderReport) -> list[str]:
    """Writes the plot, its figures as JSON and a Markdown page to the dataset's folder; returns their three paths.

    Raises:
        ConfigError: matplotlib is not installed; nothing is written.
        StoreError: a file cannot be written.
    """
    picture, figures, page = list_report_paths(report.version)
    as_json = report.to_json()
    store.write_bytes(picture, plot_ladder(report))
    store.write_bytes(figures, (json.dumps(as_json, indent=1) + "\n").encode())
    store.write_bytes(page, format_section(as_json, picture.rpartition("/")[2]).encode())
    return [picture, figures, page]


def plot_ladder(report: LadderReport) -> bytes:
    """Returns a plot of the ladder as the bytes of a PNG file; the same report gives the same bytes.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ConfigError("The plot needs matplotlib.", "Type: pip install 'kame-pipeline[report]'") from error
    panels = _make_panels(report)
    figure = Figure(figsize=(4.8 * len(panels), 4.4), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels)), panels, strict=True):
        _draw(axes, panel, report)
    figure.axes[0].legend(frameon=False)
    simulators = "; ".join(sorted({f"{each.model}, prompts {each.prompts}" for each in report.simulators}))
    figure.suptitle(f"Oracle ladder, version {report.version}: {simulators}", fontsize=11)
    sink = io.BytesIO()
    figure.savefig(sink, format="png", dpi=110, metadata={"Software": None})
    return sink.getvalue()


@dataclass(frozen=True, slots=True)
class _Panel:
    """One measure: the title of its axis, and its estimates for a level and for chance in a source."""

    title: str
    measure: str
    of_level: Callable[[LevelFigures], IntervalEstimate]
    chance: Callable[[SourceFigures], IntervalEstimate]
    is_share: bool = True


def _make_panels(report: LadderReport) -> list[_Panel]:
    """Returns the panels of the plot: word F1, answers found and, if embeddings were used, similarity."""
    near = "Nearness (dotted: chance, answers shuffled in the source)"
    panels = [
        _Panel(near, "word F1 with the true answer", lambda own: own.word_f1, lambda own: own.word_f1.chance),
        _Panel(
            "Answer found (dotted: chance, other items' answers)",
            "share of oracles with the answer in them",
            lambda own: own.answer_found,
            lambda own: own.answer_found.chance,
        ),
    ]
    if report.embeddings:
        similar = f"cosine with the true answer, {report.embeddings}"
        panels.append(
            _Panel("Similarity", similar, lambda own: own.similarity, lambda own: own.similarity.chance, is_share=False)
        )
    return panels


def _draw(axes: "Axes", panel: _Panel, report: LadderReport) -> None:
    """Draws one panel: a line over the levels for each source, and a dotted one for its chance."""
    for place, (source, measured) in enumerate(report.sources.items()):
        colour, shift = _COLOURS[place % len(_COLOURS)], 0.06 * (place - (len(report.sources) - 1) / 2)
        label = f"{source}, {measured.n_items} items{' (few)' if measured.n_items < FEWEST_ITEMS else ''}"
        _plot_line(axes, [panel.of_level(measured.levels[level]) for level in LEVELS], label, colour, shift)
        chance = panel.chance(measured).value
        if chance is not None:
            axes.axhline(chance, color=colour, linestyle=":", linewidth=1)
    axes.set_ylabel(panel.measure)
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel("hint level")
    axes.set_xticks(list(LEVELS))
    if panel.is_share:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def _plot_line(axes: "Axes", estimates: list[IntervalEstimate], label: str, colour: str, shift: float) -> None:
    """Plots the means of one source with their intervals, shifted sideways so that sources do not hide each other."""
    there = [(level + shift, each) for level, each in zip(LEVELS, estimates, strict=True) if each.value is not None]
    if there:
        at, own = zip(*there, strict=True)
        values = np.array([each.value for each in own])
        spread = [[_measure_error_bar(each.low, each.value), _measure_error_bar(each.value, each.high)] for each in own]
        axes.errorbar(at, values, yerr=np.transpose(spread), label=label, color=colour, marker="o", capsize=3)


def _measure_error_bar(low: float | None, high: float | None) -> float:
    """Returns the distance between a mean and a bound of its interval; 0 if there is no interval."""
    return 0.0 if low is None or high is None else max(0.0, high - low)
