"""What the reports of all evaluations that call a server share: figures by condition, missing judgements, examples,
costs, and a plot."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from kame_model.evaluate.calls.run import Record, get_condition
from kame_model.evaluate.report.compare import draw_means
from kame_model.evaluate.report.folder import escape_cell, format_table, format_with_interval

_NO_SHARES: Final = ("score", "relevance", "jsd")
"""Prefix of figures that are not shares."""
_MOST_SLOW: Final = 0.01
"""Share of slow steps that a server tolerates, as in `FrameMeter.has_room`."""
_MOST_UNLIKE: Final = 1.25
"""Ratio of the step time charged to the median of the steps, or the reverse, above which the report warns."""


def format_figures_table(rows: Sequence[Record], columns: Mapping[str, str]) -> str:
    """Formats a table of figures with their intervals; times also have median and 90th percentile.

    Args:
        columns: titles by figure; figures that no row has are omitted.
    """
    lines = []
    for row in rows:
        begin = {**_describe_condition(row), "category": row.get("category"), "data": row.get("subset"), "n": row["n"]}
        lines.append(begin | {title: _format_figure(row, name) for name, title in columns.items()})
    return _format_table(lines)


def list_examples(
    records: Sequence[Record], title_of: Callable[[Record], str], words_of: Callable[[Record], Record], n: int
) -> Iterator[str]:
    """Yields the records of the first `n` titles: for each title a heading, then a table with a line for each record.

    Args:
        title_of: returns the title of a record.
        words_of: returns the further cells of a record by column.
    """
    by_title: dict[str, list[Record]] = {}
    for record in records:
        by_title.setdefault(escape_cell(title_of(record)), []).append(record)
    for title, own in list(by_title.items())[:n]:
        yield f"**{title}**\n"
        yield _format_table([{**_describe_condition(record["row"]), **words_of(record)} for record in own])


def list_faults(records: Sequence[Record], titles: Mapping[str, str]) -> Iterator[str]:
    """Yields a line for each condition and measure with missing judgements: their number and reasons.

    Args:
        titles: titles of the judge's measures.
    """
    for condition in dict.fromkeys(get_condition(each["row"]) for each in records):
        own = [each["faults"] for each in records if get_condition(each["row"]) == condition]
        for measure, title in titles.items():
            counts = Counter(each[measure] for each in own if measure in each)
            if counts:
                why = ", ".join(f"{n} {fault}" for fault, n in counts.items())
                yield f"- {condition.title}, {title}: {counts.total()} of {len(own)} not rated: {why}"


def list_cut_answers(rows: Sequence[Record]) -> Iterator[str]:
    """Yields a line with the share of answers that had not ended when the call was over, for conditions with some."""
    for row in rows:
        if "category" not in row and row["has_ended"] is not None and row["has_ended"] < 1:
            yield f"- {get_condition(row).title}: {1 - row['has_ended']:.0%} of the answers had not ended in time"


def format_costs_table(costs: Mapping[str, Any]) -> str:
    """Formats the token usage of chat models and the durations of the front-end's steps (`FinishedRun.costs`).

    A warning follows if the steps do not fit the time charged for them, or are too slow.
    """
    names = ("n_requests", "n_tokens_in", "n_tokens_cached", "n_tokens_out", "usd")
    all_costs = {f"back-end {name}": each for name, each in costs["back_ends"].items()} | {"judge": costs["judge"]}
    lines = [
        [whose, *("unknown" if each[name] is None else each[name] for name in names)]
        for whose, each in all_costs.items()
        if each is not None
    ]
    table = format_table(["", "requests", "tokens read", "of them cached", "tokens written", "US dollars"], lines)
    return "\n".join([table, *_format_steps(costs["steps"])])


def _format_steps(steps: Sequence[Record]) -> Iterator[str]:
    """Yields a table of the times of the front-end's steps, if there are any, and warnings.

    It warns if the charged time is not that of the steps, and if steps took longer than a frame lasts.
    """
    names = ("n", "charged_ms", "step_ms_p50", "step_ms_p99")
    lines = [[step["mode"], *(f"{step[name]:.0f}" for name in names), f"{step['over_frame']:.1%}"] for step in steps]
    if lines:
        yield format_table(["steps of", "n", "charged, ms", "median, ms", "99th percentile, ms", "over 80 ms"], lines)
    unlike = [
        step["mode"]
        for step in steps
        if not 1 / _MOST_UNLIKE <= step["charged_ms"] / max(step["step_ms_p50"], 1e-3) <= _MOST_UNLIKE
    ]
    if unlike:
        yield (
            f"**{' and '.join(unlike)}: the step time that was charged, measured at the server's start, is not that of "
            "the steps. The machine was busy at one of the two times: start again in a new folder on a quiet one.**\n"
        )
    slow = [step["mode"] for step in steps if step["over_frame"] > _MOST_SLOW]
    if slow:
        yield (
            f"**{' and '.join(slow)}: more than {_MOST_SLOW:.0%} of the steps took longer than their frame lasts. "
            "This machine does not serve in real time: callers would hear gaps, and wait longer than reported here.**\n"
        )


def draw_figures(rows: Sequence[Record], measures: Mapping[str, str], group: str = "category") -> bytes:
    """Plots means and intervals of each condition: one panel a measure, one line a group of items. Returns a PNG.

    Args:
        measures: titles by measure.
        group: the field of rows that names the group; a row without it is of all items.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    means = []
    for measure, title in measures.items():
        for row in rows:
            if measure in row:
                low, high = row[f"{measure}_interval"] or (None, None)
                labels = {"row": {"": row.get(group)}, "measure": title, "system": get_condition(row).title}
                means.append({**labels, "statistic": "mean", "value": row[measure], "low": low, "high": high})
    return draw_means(means, list(dict.fromkeys(get_condition(row).title for row in rows)))


def _describe_condition(row: Record) -> dict[str, object]:
    """Returns the cells of a row's mode and delay by column."""
    mode, delay_s = get_condition(row)
    delay = "measured" if delay_s is None else f"{delay_s:g}"
    return {"mode": mode, "delay, s": "–" if mode == "direct" else delay}


def _format_figure(row: Record, name: str) -> object:
    """Formats a figure with its interval, and "of" and the count if not all items have it; None if there is none.

    Integers, which are counts, are returned unchanged.
    """
    value = row.get(name)
    if value is None or isinstance(value, int):
        return value
    is_time = name.endswith("_s")
    form = ".2f" if is_time or name.startswith(_NO_SHARES) else ".0%"
    parts = [format_with_interval(value, row[f"{name}_interval"], form)]
    parts += [format_with_interval(row[f"{name}_{which}"], None, form) or "–" for which in ("median", "p90") if is_time]
    return ", ".join(map(str, parts)) + (f" of {row[f'{name}_n']}" if f"{name}_n" in row else "")


def _format_table(lines: Sequence[Mapping[str, object]]) -> str:
    """Formats a table of lines with the same titles; empty columns are omitted."""
    titles = [title for title in lines[0] if any(line[title] is not None for line in lines)] if lines else []
    return format_table(titles, [[line[title] and escape_cell(str(line[title])) for title in titles] for line in lines])
