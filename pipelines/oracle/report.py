"""Measures the hint ladder of a dataset: how close the oracles of each level and source are to the true answer.

It measures events that were requested (`answered`) at levels 0 to 4, each against the true answer of its own turn. The
ladder is that of the item's question: the user's turn before the first turn of the assistant with an answer
(`answer_word_index`). Greetings, corrections and the like have figures of their own, and so have the user's next words.
An answer counts as found if its spoken form occurs in the oracle; items whose true turn does not say it that way are
excluded from that figure. `ladder.py` adds up the figures.
"""

import random
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from data_schemas import ids
from data_schemas.arrow import from_table
from data_schemas.errors import DatasetError
from data_schemas.manifest import DATA, ORACLE
from data_schemas.reader import DatasetReader
from data_schemas.records import OracleEvent, OracleRow
from pipelines.oracle.ladder import (
    Closeness,
    LadderReport,
    MeasuredEvent,
    Simulator,
    measure_length_shares,
    measure_source,
)
from pipelines.oracle.nearness import compute_word_f1, is_found
from spoken.reader import Unspeakable, speak
from spoken.spoken_text import split_words

Nearness = Callable[[str, str], float]

N_OTHERS = 20
"""Number of true answers of other items with which each oracle of level 0 is compared, for chance."""


class Embeddings(Protocol):
    """A model that embeds texts as unit vectors."""

    model: str

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns the vectors [n_texts, n_dimensions], in the order of the texts."""


class EventGroup(Enum):
    """The groups of turns whose events are measured together."""

    QUESTION = auto()
    OTHER_TURNS = auto()
    USER_WORDS = auto()


def measure_ladder(reader: DatasetReader, embeddings: Embeddings | None = None) -> LadderReport:
    """Measures the hint ladder of a dataset, for the version of the oracles that the reader has chosen.

    Args:
        embeddings: None to measure no similarity.

    Raises:
        DatasetError: the dataset has no oracles of that version.
    """
    rows = _read_rows(reader)
    items = _read_items(reader)
    near = _make_nearness(rows, embeddings)
    ladders: dict[EventGroup, dict[str, list[MeasuredEvent]]] = {group: {} for group in EventGroup}
    for source in sorted({row.source for row in rows}):
        own = [row for row in rows if row.source == source]
        for group in EventGroup:
            if measured := _measure_events(own, items, group, near):
                ladders[group][source] = measured
    every = [each for sources in ladders.values() for measured in sources.values() for each in measured]
    figures = {
        group: {
            source: measure_source(measured, ids.derive_seed("ladder", source) % 2**32)
            for source, measured in sources.items()
        }
        for group, sources in ladders.items()
    }
    return LadderReport(
        version=reader.oracle_version,
        dataset=reader.manifest.fingerprint,
        embeddings=embeddings.model if embeddings else None,
        simulators=_list_simulators(rows),
        length_shares=measure_length_shares(every),
        sources=figures[EventGroup.QUESTION],
        other_turns=figures[EventGroup.OTHER_TURNS],
        user_words=figures[EventGroup.USER_WORDS],
    )


def _read_rows(reader: DatasetReader) -> list[OracleRow]:
    """Reads all oracle rows of the reader's version; raises `DatasetError` if there are none."""
    entries = [each for each in reader.manifest.select_kind(ORACLE) if each.oracle_version == reader.oracle_version]
    if not entries:
        there = sorted({each.oracle_version or "" for each in reader.manifest.select_kind(ORACLE)})
        raise DatasetError(
            f"{reader.store.root} has no oracles of version {reader.oracle_version!r}.",
            f"Choose one with --version: {', '.join(there) or 'there is none'}.",
        )
    return [row for entry in entries for row in from_table(reader.store.read_table(entry.path), OracleRow)]


def _list_simulators(rows: Sequence[OracleRow]) -> list[Simulator]:
    """Returns the simulators that wrote these rows, each with its number of dialogues, sorted."""
    writers = Counter((row.simulator, row.endpoint or "", row.model or "", row.prompt_version) for row in rows)
    return [
        Simulator(simulator=simulator, endpoint=endpoint, model=model, prompts=prompts, n_dialogues=n)
        for (simulator, endpoint, model, prompts), n in sorted(writers.items())
    ]


def _make_nearness(rows: Sequence[OracleRow], embeddings: Embeddings | None) -> tuple[Nearness, Nearness | None]:
    """Returns two functions of a text and a true answer: word F1, and the cosine of embeddings (None without a model).

    All texts of these rows are embedded at once.
    """
    if embeddings is None:
        return compute_word_f1, None
    texts = sorted({event.text for row in rows for event in row.events if event.text})
    vectors = dict(zip(texts, embeddings.embed(texts), strict=True))
    return compute_word_f1, lambda text, truth: float(vectors[text] @ vectors[truth])


@dataclass(frozen=True, slots=True)
class _Item:
    """What a dialogue is measured by.

    Its item, the spoken form of the answer (None: it has no unambiguous reading), and the question's turn (None: the
    answer was never spoken).
    """

    item_id: str
    answer: str | None
    question_turn: int | None


@dataclass(frozen=True, slots=True)
class _TrueAnswer:
    """The body of a turn, and the spoken form of the item's answer if the body contains it, else None."""

    text: str
    answer: str | None


def _read_items(reader: DatasetReader) -> dict[str, _Item]:
    """Reads from the data shards what the oracles of each dialogue are measured by; returns it by dialogue id."""
    found = {}
    for entry in reader.manifest.select_kind(DATA):
        table = reader.store.read_table(entry.path, ["dialogue_id", "item_id", "answer", "turns"])
        turns = table["turns"].combine_chunks()
        flat = pc.list_flatten(turns)  # word timings stay in Arrow: they are most of a table
        columns = [pc.struct_field(flat, name).to_pylist() for name in ("turn_index", "speaker", "answer_word_index")]
        by_row: dict[int, list[tuple[int, str, int | None]]] = defaultdict(list)
        for row, *turn in zip(pc.list_parent_indices(turns).to_pylist(), *columns, strict=True):
            by_row[row].append((turn[0], turn[1], turn[2]))
        rows = table.select(["dialogue_id", "item_id", "answer"]).to_pylist()
        for number, row in enumerate(rows):
            item = _Item(row["item_id"], _speak_answer(row["answer"]), find_question_turn(by_row[number]))
            found[row["dialogue_id"]] = item
    return found


def find_question_turn(turns: Sequence[tuple[int, str, int | None]]) -> int | None:
    """Returns the index of the turn that asks the item's question: the user's last one before the first answer.

    Returns None if the answer is never spoken.

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


def _speak_answer(answer: str) -> str | None:
    """Returns the spoken form of an answer; None if it has no unambiguous reading."""
    try:
        return speak(answer)
    except Unspeakable:
        return None


def _select_events(row: OracleRow, item: _Item, group: EventGroup) -> Iterator[OracleEvent]:
    """Yields the events of a row that belong to a group of turns."""
    for event in row.events:
        of_user = EventGroup.QUESTION if event.turn_index == item.question_turn else EventGroup.OTHER_TURNS
        if group is (of_user if event.speaker == "A" else EventGroup.USER_WORDS):
            yield event


def _measure_events(
    rows: Sequence[OracleRow],
    items: Mapping[str, _Item],
    group: EventGroup,
    nearness: tuple[Nearness, Nearness | None],
) -> list[MeasuredEvent]:
    """Measures how close the oracles of a group are to their true answers and, at level 0, to those of other items.

    An answer that several events share is measured once; failed events have no values.

    Args:
        rows: the rows of one source.
        items: what each dialogue is measured by, by dialogue id.
        nearness: word F1, and similarity or None (`_make_nearness`).
    """
    truths = {
        items[row.dialogue_id].item_id: _make_true_answer(event.text, items[row.dialogue_id])
        for row in rows
        for event in _select_events(row, items[row.dialogue_id], group)
        if event.status == "truth" and event.text
    }
    drawn_from = sorted(truths)
    found = []
    for row in rows:
        item = items[row.dialogue_id]
        own = {(event.turn_index, event.speaker): event.text for event in row.events if event.status == "truth"}
        for event in _select_events(row, item, group):
            truth = own.get((event.turn_index, event.speaker))
            if event.status == "failed":
                found.append(MeasuredEvent(item_id=item.item_id, level=event.level))
            elif event.status == "answered" and event.text and truth:
                has_chance = event.level == 0 and row.simulator != "random"
                drawn = _draw_others(event.event_id, item.item_id, drawn_from) if has_chance else []
                others = [truths[other] for other in drawn]
                of_event = (item.item_id, event.level)
                found.append(_measure_event(of_event, event.text, _make_true_answer(truth, item), others, nearness))
    return found


def _measure_event(
    of_event: tuple[str, int],
    text: str,
    truth: _TrueAnswer,
    others: Sequence[_TrueAnswer],
    nearness: tuple[Nearness, Nearness | None],
) -> MeasuredEvent:
    """Measures one answered event; `of_event` is its item's id and its level, `nearness` has word F1 and similarity."""
    item_id, level = of_event
    f1, similarity = (_measure_near(near, text, truth.text, [other.text for other in others]) for near in nearness)
    return MeasuredEvent(
        item_id=item_id,
        level=level,
        f1=f1,
        similarity=similarity,
        found=_measure_near(_score_found, text, truth.answer, [other.answer for other in others if other.answer]),
        n_words=len(split_words(text)),
    )


def _make_true_answer(text: str, item: _Item) -> _TrueAnswer:
    """Makes the true answer of a turn whose body is `text`; its `answer` is None if the body does not contain it."""
    return _TrueAnswer(text, item.answer if item.answer and is_found(item.answer, text) else None)


def _score_found(text: str, answer: str) -> float:
    """Returns 1 if the text contains the answer (`is_found`), else 0."""
    return float(is_found(answer, text))


def _measure_near(near: Nearness | None, text: str, truth: str | None, others: Sequence[str]) -> Closeness | None:
    """Returns how close a text is to the true answer, and on average to others; None if `near` or `truth` is None."""
    if near is None or truth is None:
        return None
    chance = sum(near(text, other) for other in others) / len(others) if others else None
    return Closeness(own=near(text, truth), chance=chance)


def _draw_others(event_id: str, item_id: str, item_ids: Sequence[str]) -> list[str]:
    """Draws at most `N_OTHERS` of the sorted ids other than the item's own one, by the event's id."""
    at = bisect_left(item_ids, item_id)
    is_there = item_ids[at : at + 1] == [item_id]
    n_others = len(item_ids) - is_there
    places = random.Random(ids.derive_seed("chance", event_id)).sample(range(n_others), min(N_OTHERS, n_others))
    return [item_ids[place + (is_there and place >= at)] for place in places]
