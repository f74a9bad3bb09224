"""The ladder of a dataset, measured: how near the oracles of each level and source come to the true answer.

Measured are events that were asked for (`answered`) at levels 0 to 4, each against the true answer of its own turn. The
ladder is that of the item's question: the user's turn before the first turn of the assistant that bears an answer
(`answer_word_index`). Greetings, corrections and the like are figures of their own, and so are the user's next words.
An answer counts as found where its spoken form stands in the oracle; items whose true turn does not say it that way are
left out of that figure. Chance is what level 0's oracles have in common with the true answers of other items; random
oracles are such answers themselves, so for them there is none.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any

import pyarrow.compute as pc

from data_schemas import ids
from data_schemas.arrow import from_table
from data_schemas.errors import DatasetError
from data_schemas.manifest import DATA, ORACLE
from data_schemas.reader import DatasetReader
from data_schemas.records import OracleEvent, OracleRow
from pipelines.oracle.nearness import Estimate, is_found, mean_over_items, spearman_over_items, word_f1, words_of_text
from pipelines.oracle.schedule import TRUTH_LEVEL
from pipelines.script.speakable import Unspeakable, speak

LEVELS = range(TRUTH_LEVEL)
N_OTHERS = 20
"""True answers of other items that each oracle of level 0 is held against for chance."""


SHORT_WORDS = 10
"""What the paper's oracles have at least: 10 to 30 words."""


class Group(StrEnum):
    """Which turns' events are measured together; values are the report's keys."""

    QUESTION = "sources"
    OTHER_TURNS = "other_turns"
    USER_WORDS = "user_words"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One event that was asked for: its nearness to its own true answer, and whether the answer is in it (None: cannot
    be told).

    `chance` is its mean nearness to other items' true answers, measured at level 0 alone. Of a failed event there is no
    nearness.
    """

    item_id: str
    level: int
    f1: float | None
    found: bool | None = None
    chance: float | None = None
    is_short: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelFigures:
    """One level of one source. `n_failed` counts all failed events, those that share a request too; `short_share` is of
    the answers, those below `SHORT_WORDS` words."""

    n_events: int
    n_failed: int
    short_share: float | None
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
class Simulator:
    """Who wrote the oracles of some dialogues."""

    simulator: str
    endpoint: str | None
    model: str | None
    prompts: str
    n_dialogues: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderReport:
    """The ladder of one version of a dataset's oracles, by source; `dataset` is the manifest's fingerprint.

    `sources` tells of the items' questions, `other_turns` of what else the user says, `user_words` of the user's words
    as the assistant speaks (`both_directions`).
    """

    version: str
    dataset: str
    simulators: list[Simulator] = field(default_factory=list)
    sources: dict[str, SourceFigures] = field(default_factory=dict)
    other_turns: dict[str, SourceFigures] = field(default_factory=dict)
    user_words: dict[str, SourceFigures] = field(default_factory=dict)

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
    writers: Counter[tuple[str, str, str, str]] = Counter()
    for entry in entries:
        for row in from_table(reader.store.read_table(entry.path), OracleRow):
            rows[row.source].append(row)
            writers[(row.simulator, row.endpoint or "", row.model or "", row.prompt_version)] += 1
    items = _items(reader)
    grouped: dict[Group, dict[str, SourceFigures]] = {group: {} for group in Group}
    for source, own in sorted(rows.items()):
        for group in Group:
            if any(True for row in own for _ in _events(row, items[row.dialogue_id], group)):
                grouped[group][source] = _source_figures(source, own, items, group)
    return LadderReport(
        version=reader.oracle_version,
        dataset=reader.manifest.fingerprint,
        simulators=[
            Simulator(simulator=simulator, endpoint=endpoint, model=model, prompts=prompts, n_dialogues=n)
            for (simulator, endpoint, model, prompts), n in sorted(writers.items())
        ],
        **{group.value: figures for group, figures in grouped.items()},
    )


@dataclass(frozen=True, slots=True)
class _Item:
    """What a dialogue is measured by: its item, the answer as it is spoken (None: it has no sure reading), and the
    question's turn (None: the answer was never said)."""

    item_id: str
    answer: str | None
    question_turn: int | None


def _items(reader: DatasetReader) -> dict[str, _Item]:
    """What is known of each dialogue, by its id."""
    found = {}
    for entry in reader.manifest.of_kind(DATA):
        table = reader.store.read_table(entry.path, ["dialogue_id", "item_id", "answer", "turns"])
        turns = table["turns"].combine_chunks()
        flat = pc.list_flatten(turns)  # the words' times stay in Arrow: they are most of a table
        columns = [pc.struct_field(flat, name).to_pylist() for name in ("turn_index", "speaker", "answer_word_index")]
        by_row: dict[int, list[tuple[int, str, int | None]]] = defaultdict(list)
        for row, *turn in zip(pc.list_parent_indices(turns).to_pylist(), *columns, strict=True):
            by_row[row].append((turn[0], turn[1], turn[2]))
        rows = table.select(["dialogue_id", "item_id", "answer"]).to_pylist()
        for number, row in enumerate(rows):
            item = _Item(row["item_id"], _spoken(row["answer"]), question_turn(by_row[number]))
            found[row["dialogue_id"]] = item
    return found


def question_turn(turns: Sequence[tuple[int, str, int | None]]) -> int | None:
    """Which turn asks the item's question: the user's last one before the first of the assistant that bears an answer.

    Args:
        turns: index, speaker and `answer_word_index` of each, in order.
    """
    asked = None
    for index, speaker, answer_word_index in turns:
        if speaker == "B":
            asked = index
        elif answer_word_index is not None:
            return asked
    return None


def _spoken(answer: str) -> str | None:
    try:
        return speak(answer)
    except Unspeakable:
        return None


def _events(row: OracleRow, item: _Item, group: Group) -> Iterator[OracleEvent]:
    """The events of a row that belong to a group."""
    for event in row.events:
        of_user = Group.QUESTION if event.turn_index == item.question_turn else Group.OTHER_TURNS
        if group is (of_user if event.speaker == "A" else Group.USER_WORDS):
            yield event


def _source_figures(source: str, rows: Sequence[OracleRow], items: Mapping[str, _Item], group: Group) -> SourceFigures:
    truths = {
        items[row.dialogue_id].item_id: event.text
        for row in rows
        for event in _events(row, items[row.dialogue_id], group)
        if event.status == "truth" and event.text
    }
    measured = [each for row in rows for each in _measured(row, items[row.dialogue_id], group, truths)]
    seed = ids.seed_for("ladder", source) % 2**32
    levels = {level: _level_figures([each for each in measured if each.level == level], seed) for level in LEVELS}
    said = [(each.item_id, each.level, each.f1) for each in measured if each.f1 is not None]
    chances = [(each.item_id, each.f1 or 0.0, each.chance) for each in measured if each.chance is not None]
    means = [levels[level].word_f1.value for level in LEVELS]
    return SourceFigures(
        n_items=len({each.item_id for each in measured}),
        n_failed=sum(figures.n_failed for figures in levels.values()),
        levels=levels,
        chance=mean_over_items(_by_item((item, chance) for item, _, chance in chances), seed),
        above_chance=mean_over_items(_by_item((item, f1 - chance) for item, f1, chance in chances), seed),
        spearman=spearman_over_items(_by_item((item, (level, f1)) for item, level, f1 in said), seed),
        rises=all(one is not None and other is not None and one < other for one, other in pairwise(means)),
    )


def _level_figures(own: Sequence[Measured], seed: int) -> LevelFigures:
    answered = [each for each in own if each.f1 is not None]
    told = ((each.item_id, float(each.found)) for each in answered if each.found is not None)
    return LevelFigures(
        n_events=len(answered),
        n_failed=len(own) - len(answered),
        short_share=sum(each.is_short for each in answered) / len(answered) if answered else None,
        word_f1=mean_over_items(_by_item((each.item_id, each.f1) for each in answered), seed),
        answer_found=mean_over_items(_by_item(told), seed),
    )


def _measured(row: OracleRow, item: _Item, group: Group, truths: Mapping[str, str]) -> Iterator[Measured]:
    own = {(event.turn_index, event.speaker): event.text for event in row.events if event.status == "truth"}
    for event in _events(row, item, group):
        truth = own.get((event.turn_index, event.speaker))
        if event.status == "failed":
            yield Measured(item_id=item.item_id, level=event.level, f1=None)
        if event.status != "answered" or not event.text or not truth:
            continue
        can_tell = item.answer is not None and is_found(item.answer, truth)
        has_chance = event.level == 0 and row.simulator != "random"
        yield Measured(
            item_id=item.item_id,
            level=event.level,
            f1=word_f1(event.text, truth),
            found=is_found(item.answer, event.text) if item.answer is not None and can_tell else None,
            chance=_chance(event.event_id, event.text, item.item_id, truths) if has_chance else None,
            is_short=len(words_of_text(event.text)) < SHORT_WORDS,
        )


def _chance(event_id: str, text: str, item_id: str, truths: Mapping[str, str]) -> float | None:
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
