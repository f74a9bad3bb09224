"""The ladder of a dataset, measured: how near the oracles of each level and source come to the true answer.

Measured are events that were asked for (`answered`) at levels 0 to 4, each against the true answer of its own turn. An
answer counts as found where its spoken form stands in the oracle; items whose true turn does not say it that way are
left out of that figure. Chance is what level 0's oracles have in common with the true answers of other items.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from data_schemas import ids
from data_schemas.arrow import from_table
from data_schemas.errors import DatasetError
from data_schemas.records import OracleRow
from pipelines.oracle.nearness import Estimate, is_found, mean_over_items, spearman_over_items, word_f1
from pipelines.oracle.schedule import TRUTH_LEVEL
from pipelines.reader import DatasetReader
from pipelines.script.speakable import Unspeakable, speak
from pipelines.shards import DATA, ORACLE

LEVELS = range(TRUTH_LEVEL)
N_OTHERS = 20
"""True answers of other items that each oracle of level 0 is held against for chance."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One event: its nearness to its own true answer, whether the answer is in it (None: cannot be told), and chance.

    `chance` is its mean nearness to other items' true answers, measured at level 0 alone.
    """

    item_id: str
    level: int
    f1: float
    found: bool | None
    chance: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelFigures:
    """One level of one source."""

    n_events: int
    word_f1: Estimate
    answer_found: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFigures:
    """The ladder of one source; `above_chance` is level 0's nearness less chance, `rises` whether means rise all the
    way from level 0 to 4."""

    n_items: int
    n_failed: int
    levels: dict[int, LevelFigures]
    chance: Estimate
    above_chance: Estimate
    spearman: Estimate
    rises: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderReport:
    """The ladder of one version of a dataset's oracles, by source. `simulators` counts dialogues by model, prompts."""

    version: str
    simulators: dict[str, int] = field(default_factory=dict)
    sources: dict[str, SourceFigures] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """All of it for programs."""
        return asdict(self)


def measure(reader: DatasetReader) -> LadderReport:
    """The ladder of the reader's version of the oracles.

    Raises:
        DatasetError: the dataset has no oracles of that version.
    """
    entries = [each for each in reader.manifest.of_kind(ORACLE) if each.oracle_version == reader.oracle_version]
    if not entries:
        there = sorted({each.oracle_version or "" for each in reader.manifest.of_kind(ORACLE)})
        raise DatasetError(
            f"{reader.store.root} has no oracles of version {reader.oracle_version!r}.",
            f"There are: {', '.join(there) or 'none'}; choose one with --version.",
        )
    rows: dict[str, list[OracleRow]] = defaultdict(list)
    simulators: Counter[str] = Counter()
    for entry in entries:
        for row in from_table(reader.store.read_table(entry.path), OracleRow):
            rows[row.source].append(row)
            simulators[f"{row.model}, prompts {row.prompt_version}"] += 1
    answers = _answers(reader)
    sources = {source: _source_figures(source, found, answers) for source, found in sorted(rows.items())}
    return LadderReport(version=reader.oracle_version, simulators=dict(sorted(simulators.items())), sources=sources)


def _answers(reader: DatasetReader) -> dict[str, tuple[str, str | None]]:
    """Each dialogue's item, and its answer as it is spoken; None where it has no sure reading."""
    found = {}
    for entry in reader.manifest.of_kind(DATA):
        for row in reader.store.read_table(entry.path, ["dialogue_id", "item_id", "answer"]).to_pylist():
            found[row["dialogue_id"]] = (row["item_id"], _spoken(row["answer"]))
    return found


def _spoken(answer: str) -> str | None:
    try:
        return speak(answer)
    except Unspeakable:
        return None


def _source_figures(
    source: str, rows: Sequence[OracleRow], answers: dict[str, tuple[str, str | None]]
) -> SourceFigures:
    truths = {
        answers[row.dialogue_id][0]: event.text
        for row in rows
        for event in row.events
        if event.status == "truth" and event.text
    }
    measured = [each for row in rows for each in _measured(row, *answers[row.dialogue_id], truths)]
    seed = ids.seed_for("ladder", source) % 2**32
    levels = {
        level: LevelFigures(
            n_events=len(own := [each for each in measured if each.level == level]),
            word_f1=mean_over_items(_by_item((each.item_id, each.f1) for each in own), seed),
            answer_found=mean_over_items(
                _by_item((each.item_id, float(each.found)) for each in own if each.found is not None), seed
            ),
        )
        for level in LEVELS
    }
    ignorant = [(each.item_id, each.f1, each.chance) for each in measured if each.chance is not None]
    means = [levels[level].word_f1.value for level in LEVELS]
    return SourceFigures(
        n_items=len({each.item_id for each in measured}),
        n_failed=sum(event.status == "failed" for row in rows for event in row.events),
        levels=levels,
        chance=mean_over_items(_by_item((item, chance) for item, _, chance in ignorant), seed),
        above_chance=mean_over_items(_by_item((item, f1 - chance) for item, f1, chance in ignorant), seed),
        spearman=spearman_over_items(_by_item((each.item_id, (each.level, each.f1)) for each in measured), seed),
        rises=all(one is not None and other is not None and one < other for one, other in pairwise(means)),
    )


def _measured(row: OracleRow, item_id: str, answer: str | None, truths: dict[str, str]) -> Iterator[Measured]:
    own = {(event.turn_index, event.speaker): event.text for event in row.events if event.status == "truth"}
    for event in row.events:
        truth = own.get((event.turn_index, event.speaker))
        if event.status != "answered" or not event.text or not truth:
            continue
        can_tell = answer is not None and is_found(answer, truth)
        yield Measured(
            item_id=item_id,
            level=event.level,
            f1=word_f1(event.text, truth),
            found=is_found(answer, event.text) if answer is not None and can_tell else None,
            chance=_chance(event.event_id, event.text, item_id, truths) if event.level == 0 else None,
        )


def _chance(event_id: str, text: str, item_id: str, truths: dict[str, str]) -> float | None:
    others = sorted(each for each in truths if each != item_id)
    if not others:
        return None
    chosen = random.Random(ids.seed_for("chance", event_id)).sample(others, min(N_OTHERS, len(others)))
    return sum(word_f1(text, truths[other]) for other in chosen) / len(chosen)


def _by_item(pairs: Any) -> list[list[Any]]:
    """The values of pairs (item, value), a list an item, in order of the items' ids."""
    found: dict[str, list[Any]] = defaultdict(list)
    for item, value in pairs:
        found[item].append(value)
    return [found[item] for item in sorted(found)]
