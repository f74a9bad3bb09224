"""Compares evaluations of one kind: every figure of every system with its interval, and the paired differences.

A system is one evaluation or several seeds (`report.evaluations`). Items are paired: if two systems were evaluated on
the same items, the interval of their difference is over the same bootstrap draws for both
(`report.intervals.compute_difference`), and therefore much narrower than their own intervals suggest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from data_schemas.errors import ConfigError
from kame_model.evaluate.report.evaluations import (
    Evaluation,
    Key,
    find_differences,
    format_title,
    list_unequal,
    read_seeds,
    remove_duplicates,
)
from kame_model.evaluate.report.folder import (
    PLOTS,
    check_holds_no_items,
    format_table,
    format_with_interval,
    write_results,
)
from kame_model.evaluate.report.intervals import (
    QUANTILES,
    TIME,
    compute_difference,
    compute_value,
    estimate,
    list_measures,
    make_sample,
)
from kame_model.evaluate.report.plots import COLOURS, compute_error_bars, create_figure, render_png

PLOT: Final = "compared"
OF_RECORDING: Final = "recorded_"
"""Prefix of measures of the recordings, which are the same for all systems and are not plotted."""
MEAN: Final = "mean"
_FEWEST_IN_BOLD: Final = 6
"""Of fewer pairs not even a sign test can have p < 0.05, so an interval that excludes 0 shows nothing."""

Systems = Mapping[str, Sequence[Evaluation]]
"""The evaluations (seeds) of each system by name; all systems are compared with the first."""

Row = Mapping[str, Any]
"""A row of `figures.json`, as `compare` returns it."""


def compare(
    systems: Mapping[str, Sequence[str]], out: str, *, between: str | None = None, leave_out: bool = False
) -> list[dict[str, Any]]:
    """Writes `report.md`, `figures.json` and a plot of several evaluations into a folder.

    Args:
        systems: the folders of each system, one for each seed, by the system's name; all are compared with the first.
        between: a field of the rows, such as `mode`, whose values become the systems; with several systems, each value
            of each system.
        leave_out: exclude evaluations whose settings differ from the first one's, and list them in the report.

    Returns:
        The rows of `figures.json`: `row`, `measure`, `statistic` (mean, median, p90), `system`, `n` (number of units,
        such as questions, that have the measure), `value`, `low`, `high`, `each` (the value of each seed), `is_share`,
        and `difference` ({value, low, high}, to the first system; null for the first system itself, and if it has no
        such row or not the same items).

    Raises:
        StoreError: a file of an evaluation is missing or damaged, or the folder cannot be written.
        DatasetError: a folder holds no evaluation in the current format.
        ConfigError: the settings of two evaluations differ, or two are named as seeds of one system but are not; or
            `out` holds an evaluation.
    """
    check_holds_no_items(out)
    read: Systems = {name: read_seeds(name, folders) for name, folders in systems.items()}
    first = next(each for runs in read.values() for each in runs)
    unlike = {each.folder: _list_differences(first, runs[0], each) for runs in read.values() for each in runs}
    left_out = {folder: names for folder, names in unlike.items() if names}
    if left_out and not leave_out:
        folder, names = next(iter(left_out.items()))
        raise ConfigError(
            f"{first.folder} and {folder} cannot be compared, because they differ in: {', '.join(names)}.",
            "Evaluate each system on the same items with the same settings; only --seed may differ.",
        )
    alike = {name: [each for each in runs if not unlike[each.folder]] for name, runs in read.items()}
    read = {name: runs for name, runs in alike.items() if runs}
    if between is not None:
        read = _split_systems(read, between)
    rows = [
        row
        for key in remove_duplicates([key for runs in read.values() for key in runs[0].keys])
        for row in _make_rows(key, read)
    ]
    run = {
        "kind": "compare",
        "of": first.run["kind"],
        "systems": {name: [each.folder for each in runs] for name, runs in read.items()},
        "checkpoints": {name: [each.run["system"].get("checkpoint") for each in runs] for name, runs in read.items()},
        "left_out": left_out,
    }
    plots = {PLOT: draw_means(rows, list(read))}
    write_results(out, {"run": run, "rows": rows}, _format_markdown(read, left_out, rows), plots)
    return rows


def _list_differences(first: Evaluation, of_system: Evaluation, each: Evaluation) -> list[str]:
    """Returns in what an evaluation differs from the first of all or, if in nothing, from the first of its own system.

    Of the latter these are the system's settings or, if they are equal, the fields of the run or the rows.
    """
    settings = [f"system's {name}" for name in list_unequal(of_system.get_settings(), each.get_settings())]
    same_rows = len(of_system.keys) == len(each.keys) and all(key in of_system.keys for key in each.keys)
    other_rows = find_differences(of_system, each) if same_rows else ["rows"]
    return find_differences(first, each) or settings or other_rows


def _split_systems(read: Systems, field: str) -> Systems:
    """Makes each value of a field of the rows a separate system.

    Raises:
        ConfigError: no row has the field.
    """
    found: dict[str, Sequence[Evaluation]] = {}
    for name, runs in read.items():
        for value in dict.fromkeys(key[field] for key in runs[0].keys if field in key):
            said = ("measured" if value is None else str(value)) if len(read) == 1 else f"{name}, {field} {value}"
            found[said] = [_select_rows(each, field, value) for each in runs]
    if not found:
        fields = dict.fromkeys(field for runs in read.values() for key in runs[0].keys for field in key)
        raise ConfigError(f"No row has a field {field!r}.", f"Choose one of: {', '.join(fields)}.")
    return found


def _select_rows(evaluation: Evaluation, field: str, value: Any) -> Evaluation:
    """Returns an evaluation with only the rows and items that have a value of a field; its keys lack the field."""
    having = [key for key in evaluation.keys if field in key and key[field] == value]
    keys = [{name: each for name, each in key.items() if name != field} for key in having]
    items = [item for item in evaluation.items if item["row"].get(field) == value]
    return replace(evaluation, keys=keys, items=items)


def _make_rows(key: Key, read: Systems) -> Iterator[dict[str, Any]]:
    """Yields the lines of one row: one for each measure, statistic and system."""
    having = {name: [each.get_records(key) for each in runs] for name, runs in read.items() if key in runs[0].keys}
    records = [record for runs in having.values() for run in runs for record in run]
    units = sorted({record["unit"] for record in records})
    base = next(iter(read))
    is_paired = {name: {record["unit"] for run in runs for record in run} == {*units} for name, runs in having.items()}
    for measure in list_measures(records):
        samples = {name: make_sample(runs, measure, units) for name, runs in having.items()}
        for statistic, quantile in {MEAN: None, **(QUANTILES if measure.endswith(TIME) else {})}.items():
            for name, sample in samples.items():
                line = {
                    "row": key,
                    "measure": measure,
                    "statistic": statistic,
                    "system": name,
                    "n": sample.n_asked,
                    **estimate(sample, quantile)._asdict(),
                    "each": [compute_value(make_sample([run], measure), quantile) for run in having[name]],
                    "is_share": sample.is_share,
                    "difference": None,
                }
                if name != base and base in samples and is_paired[name] and is_paired[base]:
                    apart = compute_difference(sample, samples[base], quantile)
                    line["difference"] = None if apart.value is None else apart._asdict()
                yield line


def _format_markdown(read: Systems, left_out: Mapping[str, list[str]], rows: Sequence[Row]) -> str:
    """Renders the report as Markdown: a table for each row, with all figures and differences to the first system."""
    base, *others = read
    several = any(len(runs) > 1 for runs in read.values())
    parts = [f"# {read[base][0].run['kind']}: {' against '.join(read)}\n"]
    for name, runs in read.items():
        parts.append(f"- {name}: " + ", ".join(f"{each.folder} (seed {each.run['seed']})" for each in runs))
    parts.append(
        "\nIn brackets 95% over items" + (" and seeds; then each seed's own" if several else "") + ". A difference is "
        f"to {base}, on the same items; bold if its interval excludes 0, which one in twenty does by chance, and there "
        f"are at least {_FEWEST_IN_BOLD} items.\n"
    )
    if any(len(runs) == 2 for runs in read.values()):
        parts.append("Intervals over two seeds are rough, and wide if they differ: look at the figure of each seed.\n")
    parts += [f"Excluded: {folder}, which differs in {', '.join(what)}.\n" for folder, what in left_out.items()]
    parts.append(f"![Means with their intervals]({PLOTS}/{PLOT}.png)\n")
    for key in remove_duplicates([row["row"] for row in rows]):
        cells = {(row["measure"], row["statistic"], row["system"]): row for row in rows if row["row"] == key}
        present = [name for name in read if any(each[2] == name for each in cells)]
        apart = [name for name in others if name in present]
        lines = []
        for measure, statistic in dict.fromkeys(each[:2] for each in cells):
            own = {name: cells[measure, statistic, name] for name in present}
            title = measure if statistic == MEAN else f"{measure}, {statistic}"
            counted = ", ".join(dict.fromkeys(str(row["n"]) for row in own.values()))
            figures = [_format_figure(own[name], several) for name in present]
            lines.append([title, counted, *figures, *(_format_difference(own[name]) for name in apart)])
        head = ["figure", "items", *present, *(f"{name} − {base}" for name in apart)]
        parts += [f"## {format_title(key)}\n", format_table(head, lines)]
    return "\n".join(parts)


def _format_figure(row: Row, several: bool) -> str | None:
    """Formats a figure with its interval and, if `several`, the figure of each seed; None if there is no figure."""
    form = _choose_format(row)
    mean = format_with_interval(row["value"], (row["low"], row["high"]), form)
    each = ", ".join("none" if value is None else f"{value:{form}}" for value in row["each"])
    return f"{mean} ({each})" if mean and several else mean


def _format_difference(row: Row) -> str | None:
    """Formats the difference to the first system with its interval, bold if significant; None without a difference."""
    apart = row["difference"]
    if apart is None:
        return None
    difference = format_with_interval(apart["value"], (apart["low"], apart["high"]), f"+{_choose_format(row)}")
    return f"**{difference}**" if is_significant(row) else difference


def is_significant(row: Row) -> bool:
    """Returns whether the interval of a row's difference excludes 0, over at least `_FEWEST_IN_BOLD` items."""
    apart = row["difference"]
    is_known = apart is not None and apart["low"] is not None and row["n"] >= _FEWEST_IN_BOLD
    return is_known and not apart["low"] <= 0 <= apart["high"]


def _choose_format(row: Row) -> str:
    """Returns the format specification of a row's figures: percent for shares."""
    return ".1%" if row["is_share"] else ".3g"


def draw_means(rows: Sequence[Row], names: Sequence[str]) -> bytes:
    """Plots the means with their intervals: one panel a measure, one line a row and system. Returns a PNG.

    Measures that have the same value everywhere have no panel, unless all are so.

    Args:
        names: names of the systems, in order.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    means = [row for row in rows if row["statistic"] == MEAN and row["value"] is not None]
    means = [row for row in means if not row["measure"].startswith(OF_RECORDING)]
    measures = _list_varying(means)
    titles = list(dict.fromkeys(format_title(row["row"]) for row in means))
    n_columns = min(3, max(1, len(measures)))
    n_lines = -(-max(1, len(measures)) // n_columns)
    figure = create_figure(5 * n_columns, n_lines * (1.1 + 0.25 * max(1, len(titles)) * len(names)))
    panels = list(figure.subplots(n_lines, n_columns, squeeze=False).flat)
    for axes in panels[len(measures) :]:
        axes.remove()
    handles: dict[str, Any] = {}
    for number, (axes, measure) in enumerate(zip(panels, measures, strict=False)):
        for at, name in enumerate(names):
            own = [row for row in means if row["measure"] == measure and row["system"] == name]
            values = [row["value"] for row in own]
            heights = [titles.index(format_title(row["row"])) + 0.7 * ((at + 0.5) / len(names) - 0.5) for row in own]
            bars = compute_error_bars(values, [(row["low"], row["high"]) for row in own])
            colour = COLOURS[at % len(COLOURS)]
            if own:
                handles[name] = axes.errorbar(
                    values, heights, xerr=bars, fmt="o", color=colour, markersize=4, capsize=2
                )
        is_first = number % n_columns == 0  # only the first panel of a line has labels
        axes.set_yticks(range(len(titles)), titles if is_first else [], fontsize="small")
        axes.set_ylim(len(titles) - 0.5, -0.5)
        axes.margins(x=0.08)
        axes.grid(axis="x", alpha=0.3)
        axes.set_title(measure, fontsize="medium")
    if handles:
        figure.legend(handles.values(), handles, loc="outside upper left", ncols=len(handles), frameon=False)
    return render_png(figure)


def _list_varying(means: Sequence[Row]) -> list[str]:
    """Returns the measures that do not have the same value everywhere; all measures if there are none."""
    measures = list(dict.fromkeys(row["measure"] for row in means))
    varying = [each for each in measures if len({row["value"] for row in means if row["measure"] == each}) > 1]
    return varying or measures
