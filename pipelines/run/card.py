"""The card (README.md) of a dataset: a head that tells `datasets` which files to read, then the figures for people."""

from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from data_schemas.manifest import DATA, ORACLE, Manifest, ShardEntry
from pipelines.figures import LISTENER, NOBODY, Figures, tables

CARD = "README.md"


def render(manifest: Manifest, figures: Figures, ladders: str = "") -> str:
    """The card's text: a head that `datasets` reads, then the figures for people.

    Args:
        ladders: the measured ladders as Markdown (`pipelines/oracle/ladder_section.py`); empty: none was measured.
    """
    head = yaml.safe_dump({"configs": _configs(manifest), "tags": ["audio", "kame"]}, sort_keys=False)
    return "\n".join(
        [
            f"---\n{head}---",
            "# Spoken dialogues with oracles",
            f"Made by kame-pipeline; fingerprint `{manifest.fingerprint}`, schema {manifest.schema_version}. "
            "The speech is synthetic. Left channel: the assistant; right: the user.",
            "",
            f"{figures.n_words} words, each with its time; {figures.n_events} oracle events.",
            "",
            _who_listened(figures),
            "",
            *(f"## {each.title}\n\n{_table(each.head, each.rows)}" for each in tables(figures)),
            *([ladders] if ladders else []),
            "## How to read it",
            "```python\ndatasets.load_dataset(DIR)             # dialogues with sound\n"
            'datasets.load_dataset(DIR, "oracles")  # their oracle events, joined on dialogue_id\n```',
            "",
        ]
    )


def _who_listened(figures: Figures) -> str:
    if not figures.n_utterances_heard:
        return "No recogniser listened to this speech: only its level, length and clipping were looked at."
    return (
        f"A recogniser ({_listeners(figures)}) listened to {figures.n_utterances_heard} of {figures.n_utterances} "
        "utterances and let each pass (backchannels are too short to be judged by ear). Its own mistakes count as "
        "errors below."
    )


def _listeners(figures: Figures) -> str:
    names = sorted(name for role, name in figures.engines if role == LISTENER and name != NOBODY)
    return ", ".join(names)


def _configs(manifest: Manifest) -> list[dict[str, Any]]:
    configs = [{"config_name": "default", "data_files": _data_files(manifest.of_kind(DATA)), "default": True}]
    by_version: dict[str, list[ShardEntry]] = {}
    for entry in manifest.of_kind(ORACLE):
        by_version.setdefault(entry.oracle_version or "", []).append(entry)
    for version, entries in sorted(by_version.items()):
        name = "oracles" if version == manifest.oracle_version else f"oracles-{version}"
        configs.append({"config_name": name, "data_files": _data_files(entries)})
    return configs


def _data_files(entries: Iterable[ShardEntry]) -> list[dict[str, Any]]:
    paths: dict[str, list[str]] = {}
    for entry in entries:
        paths.setdefault(entry.split or "train", []).append(entry.path)
    return [{"split": split, "path": paths[split]} for split in ("train", "validation", "test") if split in paths]


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(str(cell) for cell in row)} |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join([*lines, ""])
