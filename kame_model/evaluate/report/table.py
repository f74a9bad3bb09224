"""Makes the paper's table from your own evaluations: quality by category and latency; published rows are below a line.

A row is a mode, direct, tandem or cascade, with its back-end. Columns are the categories of MT-Bench, or the evaluated
question sets; the average is over categories, as in the paper (arXiv 2510.02327). The delay from the user's end to the
first sound (median, 90th percentile) is of the turns that were answered with a sound, whose number the table gives. The
keyword delay, from there to the answer's word (median), is of the answers that are right by their own text; MT-Bench
has none.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import chain, cycle
from pathlib import Path
from typing import Any, Final

import numpy as np

from data_schemas.errors import ConfigError
from data_schemas.store import Store
from kame_model.evaluate.report.evaluations import Evaluation, Items, find_differences, list_unequal, read_seeds
from kame_model.evaluate.report.folder import (
    PLOTS,
    check_holds_no_items,
    format_table,
    format_with_interval,
    write_results,
)
from kame_model.evaluate.report.intervals import (
    NOTHING,
    QUANTILES,
    Estimate,
    average_estimates,
    compute_value,
    estimate,
    make_sample,
)
from kame_model.evaluate.report.plots import COLOURS, compute_error_bars, create_figure, render_png

CSV, PLOT = "table.csv", "quality_and_delay"
MT_BENCH: Final = "mt-bench"
QUALITY: Final = {MT_BENCH: "score", "questions": "answer_accuracy"}
"""Default measure of quality for each kind of evaluation."""
MODES: Final = ("direct", "tandem", "cascade")
_MARKERS: Final = {"direct": "o", "tandem": "D", "cascade": "s"}
_OF_OTHERS: Final = "*as published*"
_NOT_DEFINED: Final = "not defined"
_KEYWORD_DELAY: Final = {
    "questions": "The keyword delay (median) is from there to the word that answers, only of answers that are right by "
    "the model's own text, which may be fewer.\n",
    MT_BENCH: "The keyword delay is not defined, because no word of these answers is the right one.\n",
}
"""What the report says about it, by kind of evaluation."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table.

    Attributes:
        source: the publication; None: evaluated here.
        n: number of items; n_seeds: number of evaluations of each.
        quality: quality by category.
        n_turns, n_answered: number of turns asked in all evaluations, and of those answered with a sound.
        delay_median_s, delay_p90_s: to the first sound, of the turns that were answered.
        keyword_delay_s: median from there to the answer's word, of the answers that are right by their own text.
    """

    system: str
    mode: str
    back_end: str | None
    delay_s: float | None = None
    source: str | None = None
    n: int | None = None
    n_seeds: int | None = None
    n_turns: int | None = None
    n_answered: int | None = None
    quality: Mapping[str, Estimate] = field(default_factory=dict)
    average: Estimate = NOTHING
    delay_median_s: float | None = None
    delay_p90_s: float | None = None
    keyword_delay_s: float | None = None

    @property
    def title(self) -> str:
        """Name of the system, mode, and where they are known back-end and forced delay."""
        forced = "" if self.delay_s is None else f", after {self.delay_s:g} s"
        mode = f"{self.mode} + {self.back_end}" if self.back_end else self.mode
        return f"{self.system}: {mode}{forced}"

    @property
    def answered(self) -> str | None:
        """How many of the turns were answered; None: it was not published."""
        return None if self.n_turns is None else f"{self.n_answered} of {self.n_turns}"

    @property
    def delays_s(self) -> tuple[float | None, float | None, float | None]:
        """Median and 90th percentile of the delay, and median of the keyword delay."""
        return self.delay_median_s, self.delay_p90_s, self.keyword_delay_s

    def to_json(self) -> dict[str, Any]:
        """Returns the row as in `figures.json`."""
        values = {name: getattr(self, name) for name in self.__slots__}
        quality = {name: each._asdict() for name, each in self.quality.items()}
        return values | {"quality": quality, "average": self.average._asdict()}


def make_table(systems: Mapping[str, Sequence[str]], out: str, quality: str | None = None) -> list[Row]:
    """Writes the table into a folder: `report.md`, `table.csv`, `figures.json` and a plot of quality against delay.

    Args:
        systems: folders of evaluations by name of the system: MT-Bench, or one or more question sets; several folders
            of one set are seeds. A folder given as its own name gets the name that it has for its system.
        quality: the measure of the columns; None: the default (`QUALITY`), judged by what a recogniser hears.

    Returns:
        The rows: your own, sorted by mode, back-end, system and delay; then published ones if the measure is the
        default.

    Raises:
        StoreError: an evaluation cannot be read, or a file cannot be written.
        DatasetError: a folder holds no evaluation in the current format.
        ConfigError: the evaluations are of several kinds, of a kind without quality and delay, or differ in their
            settings; no evaluation has the measure; or `out` holds an evaluation.
    """
    check_holds_no_items(out)
    read = _read_systems(systems)
    kinds = {each.run["kind"] for runs in read.values() for each in runs}
    if len(kinds) > 1 or not kinds <= {*QUALITY}:
        raise ConfigError(
            f"A table holds evaluations of one kind, {' or '.join(QUALITY)}; these are {', '.join(sorted(kinds))}.",
            "Make a table of each; `kame evaluate compare` puts other kinds side by side.",
        )
    (kind,) = kinds
    measure = quality or QUALITY[kind]
    _check_alike(read)
    own = sorted((row for name, runs in read.items() for row in _make_rows(name, runs, measure)), key=_make_sort_key)
    categories = list(dict.fromkeys(category for row in own for category in row.quality))
    if not categories:
        raise ConfigError(f"No evaluation has the measure {measure!r}.", "Choose another with --quality.")
    published = _select_published_rows(kind, categories) if measure == QUALITY[kind] else []
    rows = [*(replace(row, average=_average_categories(row, categories)) for row in own), *published]
    run = {
        "kind": "table",
        "of": kind,
        "quality": measure,
        "systems": {name: [each.folder for each in runs] for name, runs in read.items()},
    }
    Store(out).write_bytes(CSV, _format_csv(rows, categories).encode())
    plots = {PLOT: _draw_quality(rows, kind, measure)}
    figures = {"run": run, "rows": [row.to_json() for row in rows]}
    write_results(out, figures, _format_markdown(rows, categories, kind, measure), plots)
    return rows


def _read_systems(systems: Mapping[str, Sequence[str]]) -> dict[str, list[Evaluation]]:
    """Reads the evaluations of each system; a folder given as its own name belongs to the system it evaluated.

    Raises:
        ConfigError: a folder given as its own name has other weights than the evaluations of that system before it.
    """
    read: dict[str, list[Evaluation]] = {}
    for name, folders in systems.items():
        own = read_seeds(name, folders)
        if list(folders) != [name]:
            read.setdefault(name, []).extend(own)
            continue
        (each,) = own
        called = Path(str(each.run["system"]["name"])).name
        for other in read.setdefault(called, []):
            if each.run["system"]["checkpoint"] != other.run["system"]["checkpoint"]:
                raise ConfigError(
                    f"{other.folder} and {each.folder} are both of {called}, but have different weights.",
                    "Name them: ONE=FOLDER OTHER=FOLDER; or NAME=FOLDER NAME=FOLDER where they are a training's seeds.",
                )
        read[called].append(each)
    return read


def _check_alike(read: Mapping[str, Sequence[Evaluation]]) -> None:
    """Checks that all evaluations of a column have the same settings; raises a ConfigError if not."""
    first: dict[str, Evaluation] = {}
    for each in (each for runs in read.values() for each in runs):
        against = first.setdefault(_get_set_name(each), each)
        if names := find_differences(against, each):
            raise ConfigError(
                f"{against.folder} and {each.folder} cannot be compared, because they differ in: {', '.join(names)}.",
                "Evaluate all systems of a column on the same items with the same settings.",
            )


def _get_set_name(evaluation: Evaluation) -> str:
    """Returns the name of an evaluation's question set; `MT_BENCH` if it has none."""
    return str(evaluation.run.get("set", {"name": MT_BENCH})["name"])


def _make_rows(name: str, runs: Sequence[Evaluation], measure: str) -> Iterator[Row]:
    """Yields a system's lines: one for each mode, back-end and forced delay.

    Mode direct has no back-end, so evaluations that differ only in it have the same calls; the first one counts.
    """
    lines: dict[tuple[str, str | None, float | None], dict[str, dict[int, list[Mapping[str, Any]]]]] = {}
    first_direct: dict[str, int] = {}
    for seed, each in enumerate(runs):
        settings = each.get_settings(has_back_end=False)
        run = [each.run["system"]["checkpoint"], settings, _get_set_name(each), each.run["seed"]]
        same = json.dumps(run, sort_keys=True)
        for item in each.items:
            row = item["row"]
            if row["mode"] == MODES[0] and first_direct.setdefault(same, seed) != seed:
                continue
            column = str(row["category"]) if each.run["kind"] == MT_BENCH else _get_set_name(each)
            back_end = None if row["mode"] == MODES[0] else each.run["system"].get("back_end")
            line = lines.setdefault((row["mode"], back_end, row.get("delay_s")), {})
            line.setdefault(column, {}).setdefault(seed, []).append(item)
    for (mode, back_end, delay_s), line in lines.items():
        _check_one_system(name, mode, [runs[seed] for seed in sorted({*chain(*line.values())})])
        columns = {column: list(by_seed.values()) for column, by_seed in line.items()}
        records = [item for seeds in columns.values() for items in seeds for item in items]
        delay, keyword = make_sample([records], "ttfat_s"), make_sample([records], "keyword_delay_s")
        qualities = {column: _compute_quality(seeds, measure) for column, seeds in columns.items()}
        yield Row(
            name,
            mode,
            back_end,
            delay_s,
            n=sum(len({item["unit"] for items in seeds for item in items}) for seeds in columns.values()),
            n_seeds=max(map(len, columns.values())),
            n_turns=len(records),
            n_answered=int(np.count_nonzero(delay.whole)),
            quality={column: quality for column, quality in qualities.items() if quality.value is not None},
            delay_median_s=compute_value(delay, QUANTILES["median"]),
            delay_p90_s=compute_value(delay, QUANTILES["p90"]),
            keyword_delay_s=compute_value(keyword, QUANTILES["median"]),
        )


def _check_one_system(name: str, mode: str, runs: Sequence[Evaluation]) -> None:
    """Checks that all evaluations of a line are of one system, except for weights; raises a ConfigError if not."""
    first, *others = (run.get_settings(has_back_end=mode != MODES[0]) for run in runs)
    for run, settings in zip(runs[1:], others, strict=True):
        if names := list_unequal(first, settings):
            raise ConfigError(
                f"{runs[0].folder} and {run.folder} are both {name} in mode {mode}, but their systems differ in: "
                f"{', '.join(names)}.",
                "Name them: ONE=FOLDER OTHER=FOLDER.",
            )


def _compute_quality(seeds: Sequence[Items], measure: str) -> Estimate:
    """Computes the mean of the measure of quality with its interval; shares are given in percent, as in papers."""
    sample = make_sample(seeds, measure)
    scale = 100 if sample.is_share else 1
    return Estimate(*(None if each is None else round(each * scale, 4) for each in estimate(sample)))


def _average_categories(row: Row, categories: Sequence[str]) -> Estimate:
    """Computes a row's mean quality over all categories; `NOTHING` if it lacks one of them."""
    if not {*categories} <= row.quality.keys():
        return NOTHING
    return average_estimates([row.quality[category] for category in categories], is_one_seed=row.n_seeds == 1)


def _select_published_rows(kind: str, categories: Sequence[str]) -> list[Row]:
    """Returns published rows with any of these categories; their average only if the categories are the same."""
    import yaml

    rows = yaml.safe_load((files("kame_model.evaluate.report") / "published.yaml").read_text(encoding="utf-8"))[kind]
    return [
        Row(
            each["system"],
            each["mode"],
            each.get("back_end"),
            source=each["source"],
            quality={
                name: Estimate(value, None, None) for name, value in each["quality"].items() if name in categories
            },
            average=Estimate(each.get("average") if {*each["quality"]} == {*categories} else None, None, None),
            delay_median_s=each.get("median_delay_s"),
            keyword_delay_s=each.get("keyword_delay_s"),
        )
        for each in rows
        if {*each["quality"]} & {*categories}
    ]


def _make_sort_key(row: Row) -> tuple[int, str, str, float]:
    """Returns the key by which rows are sorted: mode, back-end, system and delay."""
    mode = MODES.index(row.mode) if row.mode in MODES else len(MODES)
    return mode, row.back_end or "", row.system, -1.0 if row.delay_s is None else row.delay_s


def _format_markdown(rows: Sequence[Row], categories: Sequence[str], kind: str, measure: str) -> str:
    """Renders the report as Markdown: the table with published rows below a line, and explanations."""
    head = ["system", "items", *categories, "average", "answered"]
    head += ["median delay, s", "p90 delay, s", "keyword delay of right answers, s"]
    own, others = (
        [_format_cells(row, categories, kind) for row in rows if (row.source is None) == mine] for mine in (True, False)
    )
    line = [[_OF_OTHERS, *["—"] * (len(head) - 1)]] if others else []
    scale = "ratings from 1 to 10" if kind == MT_BENCH else "percent"
    parts = [
        f"# {kind}: quality and delay\n",
        format_table(head, [*own, *line, *others]),
        f"Quality is `{measure}`, {scale}; in brackets 95% over items and seeds. The average is over categories. "
        "Answered is the number of turns in which a sound followed, of all that were asked in all runs and seeds. The "
        "delay is from the user's end to that sound, and does not include turns without one. " + _KEYWORD_DELAY[kind],
        f"![Quality against delay]({PLOTS}/{PLOT}.png)\n",
    ]
    if others:
        parts.append(
            "Below the line: as published by its authors, with their judge, voices and definition of the delay. It was "
            "not run here, so a difference to the rows above is not a measurement.\n"
        )
    return "\n".join(parts)


def _format_cells(row: Row, categories: Sequence[str], kind: str) -> list[object]:
    """Returns the cells of a row for the Markdown table."""
    title = row.title if row.source is None else f"{row.title} ({_OF_OTHERS}, {row.source})"
    figures = [*(row.quality.get(category, NOTHING) for category in categories), row.average]
    quality = [format_with_interval(each.value, (each.low, each.high), ".2f") for each in figures]
    delays = [None if each is None else f"{each:.2f}" for each in row.delays_s]
    if kind == MT_BENCH:
        delays[-1] = _NOT_DEFINED
    return [title, row.n, *quality, row.answered, *delays]


def _format_csv(rows: Sequence[Row], categories: Sequence[str]) -> str:
    """Formats the table as CSV, with the bounds of each quality in columns of their own."""
    whose = ("system", "mode", "back_end", "delay_s", "source", "n", "n_seeds", "n_turns", "n_answered")
    quality = [f"{name}{bound}" for name in (*categories, "average") for bound in ("", "_low", "_high")]
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow([*whose, *quality, "delay_median_s", "delay_p90_s", "keyword_delay_s"])
    for row in rows:
        figures = [*(row.quality.get(name, NOTHING) for name in categories), row.average]
        own = [getattr(row, name) for name in whose]
        writer.writerow([*own, *(bound for figure in figures for bound in figure), *row.delays_s])
    return sink.getvalue()


def _draw_quality(rows: Sequence[Row], kind: str, measure: str) -> bytes:
    """Plots quality against delay (median to 90th percentile); published rows are hollow. Returns a PNG.

    Rows without an average quality or a delay are left out.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    figure = create_figure(8, 5)
    axes, colours = figure.subplots(), cycle(COLOURS)
    handles: dict[str, Any] = {}
    for row in rows:
        if row.average.value is None or row.delay_median_s is None:
            continue
        x, y = [row.delay_median_s], [row.average.value]
        title = f"{row.title} ({row.answered} answered)" if row.source is None else f"{row.title}, as published"
        handles[title] = axes.errorbar(
            x,
            y,
            xerr=compute_error_bars(x, [(None, row.delay_p90_s)]),
            yerr=compute_error_bars(y, [(row.average.low, row.average.high)]),
            fmt=_MARKERS.get(row.mode, "^"),
            fillstyle="full" if row.source is None else "none",
            color=next(colours),
            capsize=3,
        )
    axes.set_xlabel("delay to the first sound of answered turns, s: median, and to the right the 90th percentile")
    axes.set_ylabel(f"{measure}, average{'' if kind == MT_BENCH else ', %'}")
    axes.set_ylim(*((1, 10) if kind == MT_BENCH else (0, 100)))
    axes.grid(alpha=0.3)
    if handles:
        figure.legend(handles.values(), handles, loc="outside upper left", fontsize="small", frameon=False, ncols=2)
    return render_png(figure)
