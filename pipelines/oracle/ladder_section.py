"""Formats the measured hint ladder as Markdown: a page next to the plot, and a section of the card.

Both are made from the JSON that `kame oracle report` wrote; the card shows a ladder only if it was measured on the
present files.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from data_schemas.store import Store
from pipelines.oracle.ladder import FEWEST_WORDS, FORMAT, MOST_WORDS
from pipelines.oracle.nearness import FEWEST_ITEMS

TITLES = {"sources": "", "other_turns": ", other turns of the user", "user_words": ", the user's next words"}
"""Groups of a report, and the suffix to the name of their sources."""
_LEGEND = [
    f"Behind each figure: its 95% interval over items (few: fewer than {FEWEST_ITEMS}), then the items/events that it "
    "is made of. Failed events are in none of them."
]
_LENGTH = f"{FEWEST_WORDS} to {MOST_WORDS} words %"


def list_report_paths(version: str) -> tuple[str, str, str]:
    """Returns the paths in a dataset of a version's ladder: of its plot (PNG), figures (JSON) and page (Markdown)."""
    return f"report/oracle-{version}.png", f"report/oracle-{version}.json", f"report/oracle-{version}.md"


def format_ladders(store: Store, fingerprint: str) -> str:
    """Returns the reports in a dataset that have this fingerprint and the present format, as Markdown sections.

    Returns an empty text if there is none.
    """
    sections = []
    for path in sorted(store.list_files("report", ".json")):
        report = _read(store, path)
        if (report.get("format"), report.get("dataset")) == (FORMAT, fingerprint):
            sections.append(format_section(report, list_report_paths(report["version"])[0]))
    return "\n".join(sections)


def _read(store: Store, path: str) -> Mapping[str, Any]:
    """Returns the report in a JSON file; an empty one if it is no JSON object, since people may keep others there."""
    try:
        found = json.loads(store.read_bytes(path))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def format_section(report: Mapping[str, Any], picture: str) -> str:
    """Returns a report as a section of Markdown; `picture` is the path of its plot, relative to the text."""
    lines = [f"## The ladder measured, version {report['version']}", ""]
    lines += [
        *_format_writers(report),
        "",
        f"![nearness by level]({picture})",
        "",
        *_format_length_table(report),
        "",
        *_LEGEND,
        "",
    ]
    for group, more in TITLES.items():
        for source, figures in report.get(group, {}).items():
            lines += [f"### {source}{more}: {figures['n_items']} items, {figures['n_failed']} events failed", ""]
            lines += [
                *_format_table(make_header(report), make_table(report, figures)),
                "",
                *summarise(report, figures),
                "",
            ]
    return "\n".join(lines)


def make_header(report: Mapping[str, Any]) -> list[str]:
    """Returns the column titles of the tables of `make_table`; similarity has one only if it was measured."""
    measures = ["word F1", "answer found", *(["similarity"] if report.get("embeddings") else [])]
    return ["level", "answered", "failed", *(f"{each} (95%), n" for each in measures), _LENGTH]


def make_table(report: Mapping[str, Any], figures: Mapping[str, Any]) -> list[list[str]]:
    """Returns a source's figures as the rows of a table, one per level."""
    rows = []
    for level, own in sorted(figures["levels"].items()):
        similar = [_format_estimate(own["similarity"])] if report.get("embeddings") else []
        near = [_format_estimate(own["word_f1"]), _format_estimate(own["answer_found"]), *similar]
        rows.append(
            [str(level), str(own["n_events"]), str(own["n_failed"]), *near, _format_percent(own["length_share"])]
        )
    return rows


def summarise(report: Mapping[str, Any], figures: Mapping[str, Any]) -> list[str]:
    """Returns a source's summary as Markdown list items.

    For each measure, these have Spearman's correlation with the level and level 0's distance to chance; the last one
    says whether the means of word F1 rise from level to level.
    """
    lines = _summarise_rise("word F1", figures["word_f1"]) + _summarise_rise("answer found", figures["answer_found"])
    if report.get("embeddings"):
        lines += _summarise_rise(f"similarity (cosine, {report['embeddings']})", figures["similarity"])
    return [*lines, f"- Means of word F1 rise from level to level: {'yes' if figures['rises'] else 'no'}."]


def _summarise_rise(measure: str, rise: Mapping[str, Any]) -> list[str]:
    """Returns the list items of one measure: correlation with the level, and level 0's distance to chance."""
    return [
        f"- Spearman of level and {measure}: {_format_estimate(rise['spearman'])}.",
        f"- Level 0 less chance, {measure}: {_format_estimate(rise['above_chance'])}; chance "
        f"(the same oracles against answers shuffled within the source): {_format_estimate(rise['chance'])}.",
    ]


def _format_writers(report: Mapping[str, Any]) -> list[str]:
    """Returns a sentence for each simulator that wrote oracles: its model, endpoint, prompts and dialogues."""
    return [
        f"Written by {each['model']} (endpoint {each['endpoint']}) with prompts {each['prompts']}: "
        f"{each['n_dialogues']} dialogues."
        for each in report["simulators"]
    ]


def _format_length_table(report: Mapping[str, Any]) -> list[str]:
    """Returns the lines of a Markdown table with the share of answers with 10 to 30 words, by level."""
    shares = sorted(report["length_shares"].items())
    return _format_table(
        ["level", *(str(level) for level, _ in shares)], [[_LENGTH, *(_format_percent(share) for _, share in shares)]]
    )


def _format_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a Markdown table."""
    return [f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *rows)]


def _format_percent(share: float | None) -> str:
    """Returns a share in whole percent, without a sign; "-" for None."""
    return "-" if share is None else str(round(100 * share))


def _format_estimate(estimate: Mapping[str, float | None]) -> str:
    """Returns an estimate as "value (low to high), number of items/number of events"; "-" if it has no value.

    "few" stands in place of the interval if there were too few items for one.
    """
    if estimate["value"] is None:
        return "-"
    interval = "few" if estimate["low"] is None else f"{estimate['low']:.3f} to {estimate['high']:.3f}"
    return f"{estimate['value']:.3f} ({interval}), {estimate['n_items']}/{estimate['n_events']}"
