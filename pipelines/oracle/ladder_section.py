"""The measured ladder to read: a page of its own beside the picture, and a section of the card.

Both are made from the JSON that `kame oracle report` wrote; the card shows a ladder only where it was measured on the
files that stand now.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from data_schemas.store import Store
from pipelines.oracle.ladder import FEWEST_WORDS, FORMAT, MOST_WORDS
from pipelines.oracle.nearness import FEWEST_ITEMS

TITLES = {"sources": "", "other_turns": ", other turns of the user", "user_words": ", the user's next words"}
"""Groups of a report, and what is added to the name of a source of theirs."""
_LEGEND = [
    f"Behind each figure: its 95% interval over items (few: fewer than {FEWEST_ITEMS}), then the items/events that it "
    "is made of. Failed events are in none of them."
]
_LENGTH = f"{FEWEST_WORDS} to {MOST_WORDS} words %"


def report_paths(version: str) -> tuple[str, str, str]:
    """Where the picture, the JSON and the page of a version's ladder stand in a dataset's folder."""
    return f"report/oracle-{version}.png", f"report/oracle-{version}.json", f"report/oracle-{version}.md"


def ladders(store: Store, fingerprint: str) -> str:
    """Tables and picture of each version whose report tells of the dataset with this fingerprint; empty: none does."""
    sections = []
    for path in sorted(store.files("report", ".json")):
        report = _read(store, path)
        if (report.get("format"), report.get("dataset")) == (FORMAT, fingerprint):
            sections.append(section(report, report_paths(report["version"])[0]))
    return "\n".join(sections)


def _read(store: Store, path: str) -> Mapping[str, Any]:
    """A report, or nothing where the file is none: reports can be made again, and people keep files there too."""
    try:
        found = json.loads(store.read_bytes(path))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def section(report: Mapping[str, Any], picture: str) -> str:
    """A report as Markdown; `picture` is the path of its plot, from where the text stands."""
    lines = [f"## The ladder measured, version {report['version']}", ""]
    lines += [*_writers(report), "", f"![nearness by level]({picture})", "", *_lengths(report), "", *_LEGEND, ""]
    for group, more in TITLES.items():
        for source, figures in report.get(group, {}).items():
            lines += [f"### {source}{more}: {figures['n_items']} items, {figures['n_failed']} events failed", ""]
            lines += [*_markdown(head(report), table(report, figures)), "", *summary(report, figures), ""]
    return "\n".join(lines)


def head(report: Mapping[str, Any]) -> list[str]:
    """The columns of a source's table."""
    measures = ["word F1", "answer found", *(["similarity"] if report.get("embeddings") else [])]
    return ["level", "answered", "failed", *(f"{each} (95%), n" for each in measures), _LENGTH]


def table(report: Mapping[str, Any], figures: Mapping[str, Any]) -> list[list[str]]:
    """A source's table, a row a level."""
    rows = []
    for level, own in sorted(figures["levels"].items()):
        similar = [_shown(own["similarity"])] if report.get("embeddings") else []
        near = [_shown(own["word_f1"]), _shown(own["answer_found"]), *similar]
        rows.append([str(level), str(own["n_events"]), str(own["n_failed"]), *near, _percent(own["length_share"])])
    return rows


def summary(report: Mapping[str, Any], figures: Mapping[str, Any]) -> list[str]:
    """What a source's table comes to: Spearman and level 0's distance to chance, by each measure."""
    lines = _summed_up("word F1", figures["word_f1"]) + _summed_up("answer found", figures["answer_found"])
    if report.get("embeddings"):
        lines += _summed_up(f"similarity (cosine, {report['embeddings']})", figures["similarity"])
    return [*lines, f"- Means of word F1 rise from level to level: {'yes' if figures['rises'] else 'no'}."]


def _summed_up(measure: str, rise: Mapping[str, Any]) -> list[str]:
    return [
        f"- Spearman of level and {measure}: {_shown(rise['spearman'])}.",
        f"- Level 0 less chance, {measure}: {_shown(rise['above_chance'])}; chance (the same oracles against answers "
        f"shuffled within the source): {_shown(rise['chance'])}.",
    ]


def _writers(report: Mapping[str, Any]) -> list[str]:
    return [
        f"Written by {each['model']} (endpoint {each['endpoint']}) with prompts {each['prompts']}: "
        f"{each['n_dialogues']} dialogues."
        for each in report["simulators"]
    ]


def _lengths(report: Mapping[str, Any]) -> list[str]:
    shares = sorted(report["length_shares"].items())
    return _markdown(
        ["level", *(str(level) for level, _ in shares)], [[_LENGTH, *(_percent(share) for _, share in shares)]]
    )


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *rows)]


def _percent(share: float | None) -> str:
    return "-" if share is None else str(round(100 * share))


def _shown(estimate: Mapping[str, float | None]) -> str:
    """The figure, its interval, and the items and events that it is made of."""
    if estimate["value"] is None:
        return "-"
    interval = "few" if estimate["low"] is None else f"{estimate['low']:.3f} to {estimate['high']:.3f}"
    return f"{estimate['value']:.3f} ({interval}), {estimate['n_items']}/{estimate['n_events']}"
