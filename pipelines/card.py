"""A dataset's figures, and the card (README.md) that states them and tells `datasets` which files to read."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc
import yaml

from data_schemas.manifest import Manifest, ShardEntry
from pipelines.shards import DATA, ORACLE, REJECTS
from pipelines.store import Store

CARD = "README.md"
_CARD_COLUMNS = ["source", "split", "licence", "duration_s", "turns", "provenance"]


@dataclass(slots=True)
class Figures:
    """What a dataset holds, counted. Keys of the counters are what they are counted by."""

    dialogues: Counter[str] = field(default_factory=Counter)
    splits: Counter[str] = field(default_factory=Counter)
    audio_s: Counter[str] = field(default_factory=Counter)
    licences: Counter[str] = field(default_factory=Counter)
    voices: Counter[str] = field(default_factory=Counter)
    engines: Counter[str] = field(default_factory=Counter)
    n_words: int = 0
    levels: Counter[int] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    simulators: Counter[str] = field(default_factory=Counter)
    rejects: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def n_dialogues(self) -> int:
        """Dialogues of all sources."""
        return sum(self.dialogues.values())

    @property
    def total_audio_s(self) -> float:
        """Sound of all sources, in seconds."""
        return round(sum(self.audio_s.values()), 3)

    @property
    def n_events(self) -> int:
        """Oracle events of all levels."""
        return sum(self.levels.values())


def count(store: Store, entries: Sequence[ShardEntry], oracle_version: str) -> Figures:
    """The figures of the listed files; of the oracles, those of one version."""
    figures = Figures()
    for entry in entries:
        if entry.kind == DATA:
            _count_dialogues(figures, store.read_table(entry.path, _CARD_COLUMNS))
        elif entry.kind == ORACLE and entry.oracle_version == oracle_version:
            _count_events(figures, store.read_table(entry.path))
        elif entry.kind == REJECTS:
            table = store.read_table(entry.path, ["source", "reason"])
            figures.rejects.update(zip(table["source"].to_pylist(), table["reason"].to_pylist(), strict=True))
    return figures


def _count_dialogues(figures: Figures, table: Any) -> None:
    sources = table["source"].to_pylist()
    figures.dialogues.update(sources)
    figures.splits.update(table["split"].to_pylist())
    figures.licences.update(licence or "not stated" for licence in table["licence"].to_pylist())
    for source, duration_s in zip(sources, table["duration_s"].to_pylist(), strict=True):
        figures.audio_s[source] += duration_s
    utterances = pc.list_flatten(pc.struct_field(pc.list_flatten(table["turns"]), "utterances"))
    figures.n_words += len(pc.list_flatten(pc.struct_field(utterances, "words")))
    figures.voices.update(pc.struct_field(utterances, "voice").to_pylist())
    for one in table["provenance"].to_pylist():
        figures.engines.update((one["script_method"], one["tts"], one["aligner"]))


def _count_events(figures: Figures, table: Any) -> None:
    events = pc.list_flatten(table["events"])
    figures.levels.update(pc.struct_field(events, "level").to_pylist())
    figures.statuses.update(pc.struct_field(events, "status").to_pylist())
    for model, prompt in zip(table["model"].to_pylist(), table["prompt_version"].to_pylist(), strict=True):
        figures.simulators[f"{model}, prompts {prompt}"] += 1


def render(manifest: Manifest, figures: Figures) -> str:
    """The card's text: a head that `datasets` reads, then the figures for people."""
    head = yaml.safe_dump({"configs": _configs(manifest), "tags": ["audio", "kame"]}, sort_keys=False)
    return "\n".join(
        [
            f"---\n{head}---",
            "# Spoken dialogues with oracles",
            f"Made by kame-pipeline; fingerprint `{manifest.fingerprint}`, schema {manifest.schema_version}. "
            "The speech is synthetic. Left channel: the assistant; right: the user.",
            "",
            _table(
                ("source", "dialogues", "audio, minutes", "rejects"),
                [
                    (source, n, f"{figures.audio_s[source] / 60:.1f}", _sum_of(figures.rejects, source))
                    for source, n in sorted(figures.dialogues.items())
                ],
            ),
            _table(("split", "dialogues"), sorted(figures.splits.items())),
            f"{figures.n_words} words, each with its time. {figures.n_events} oracle events:",
            "",
            _table(("hint level", "events"), sorted(figures.levels.items())),
            _table(("event status", "events"), sorted(figures.statuses.items())),
            _table(("rejected from", "reason", "items"), [(*key, n) for key, n in sorted(figures.rejects.items())]),
            "## Where it comes from",
            _table(("licence of the questions", "dialogues"), sorted(figures.licences.items())),
            _table(("voice", "utterances"), sorted(figures.voices.items())),
            _table(("engine", "dialogues"), sorted(figures.engines.items())),
            _table(("oracle simulator", "dialogues"), sorted(figures.simulators.items())),
            "## How to read it",
            "```python\ndatasets.load_dataset(DIR)             # dialogues with sound\n"
            'datasets.load_dataset(DIR, "oracles")  # their oracle events, joined on dialogue_id\n```',
            "",
        ]
    )


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


def _sum_of(rejects: Counter[tuple[str, str]], source: str) -> int:
    return sum(n for (of, _), n in rejects.items() if of == source)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(str(cell) for cell in row)} |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join([*lines, ""])
