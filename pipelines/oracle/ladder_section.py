"""The measured ladder for the card: what `kame oracle report` wrote, if it measured the files that stand now."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from data_schemas.store import Store

_TITLES = {"sources": "", "other_turns": ", other turns of the user", "user_words": ", the user's next words"}
"""Groups of a report, and what is added to the name of a source of theirs."""
_HEAD = ("level", "answered", "failed", "word F1 (95%)", "answer found (95%)", "below ten words %")


def report_paths(version: str) -> tuple[str, str]:
    """Where the picture and the JSON of a version's ladder stand in a dataset's folder."""
    return f"report/oracle-{version}.png", f"report/oracle-{version}.json"


def ladders(store: Store, fingerprint: str) -> str:
    """Table and picture of each version whose report tells of the dataset with this fingerprint; empty: none does."""
    sections = []
    for path in sorted(store.files("report", ".json")):
        report = _read(store, path)
        if report.get("dataset") == fingerprint:
            sections.append(_section(report, report_paths(report["version"])[0]))
    return "\n".join(sections)


def _read(store: Store, path: str) -> Mapping[str, Any]:
    """A report, or nothing where the file is none: reports can be made again, and people keep files there too."""
    try:
        found = json.loads(store.read_bytes(path))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _section(report: Mapping[str, Any], picture: str) -> str:
    lines = [f"## The ladder measured, version {report['version']}", "", f"![nearness by level]({picture})", ""]
    for group, more in _TITLES.items():
        for source, figures in report.get(group, {}).items():
            lines += [f"{source}{more}: {figures['n_items']} items. {_summary(figures)}", "", *_table(figures), ""]
    return "\n".join(lines)


def _summary(figures: Mapping[str, Any]) -> str:
    return (
        f"Spearman of level and nearness: {_shown(figures['spearman'])}. Level 0 less chance (the same oracles against "
        f"the answers of other items): {_shown(figures['above_chance'])}."
    )


def _table(figures: Mapping[str, Any]) -> Iterator[str]:
    rows: list[Sequence[object]] = [_HEAD, ["---"] * len(_HEAD)]
    for level, own in sorted(figures["levels"].items()):
        short = "-" if own["short_share"] is None else round(100 * own["short_share"])
        measured = (_shown(own["word_f1"]), _shown(own["answer_found"]))
        rows.append((level, own["n_events"], own["n_failed"], *measured, short))
    return (f"| {' | '.join(map(str, row))} |" for row in rows)


def _shown(estimate: Mapping[str, float | None]) -> str:
    if estimate["value"] is None:
        return "-"
    return f"{estimate['value']:.3f} ({estimate['low']:.3f} to {estimate['high']:.3f})"
