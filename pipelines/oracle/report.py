"""The ladder of a dataset, measured: how near the oracles of each level and source come to the true answer.

Measured are events that were asked for (`answered`) at levels 0 to 4, each against the true answer of its own turn. The
ladder is that of the item's question: the user's turn before the first turn of the assistant that bears an answer
(`answer_word_index`). Greetings, corrections and the like are figures of their own, and so are the user's next words.
An answer counts as found where its spoken form stands in the oracle; items whose true turn does not say it that way are
left out of that figure. `ladder.py` adds it all up.
"""

import random
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
from pipelines.oracle.ladder import LadderReport, Measured, Near, Simulator, measure_length_shares, measure_source
from pipelines.oracle.nearness import compute_word_f1, is_found
from spoken.reader import Unspeakable, speak
from spoken.spoken_text import split_words

Nearness = Callable[[str, str], float]

N_OTHERS = 20
"""True answers of other items that each oracle of level 0 is held against for chance."""


class Embeddings(Protocol):
    """A model that turns texts into unit vectors."""

    model: str

    def of(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(text, dimension), in the order of the texts."""


class Group(Enum):
    """Which turns' events are measured together."""

    QUESTION = auto()
    OTHER_TURNS = auto()
    USER_WORDS = auto()


def measure(reader: DatasetReader, embeddings: Embeddings | None = None) -> LadderReport:
    """The ladder of the reader's version of the oracles.

    Args:
        embeddings: measures similarity too.

    Raises:
        DatasetError: the dataset has no oracles of that version.
    """
    rows = _read_rows(reader)
    items = _read_items(reader)
    near = _make_nearness(rows, embeddings)
    ladders: dict[Group, dict[str, list[Measured]]] = {group: {} for group in Group}
    for source in sorted({row.source for row in rows}):
        own = [row for row in rows if row.source == source]
        for group in Group:
            if measured := _measure_events(own, items, group, near):
                ladders[group][source] = measured
    every = [each for sources in ladders.values() for measured in sources.values() for each in measured]
    figures = {
        group: {
            source: measure_source(measured, ids.seed_for("ladder", source) % 2**32)
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
        sources=figures[Group.QUESTION],
        other_turns=figures[Group.OTHER_TURNS],
        user_words=figures[Group.USER_WORDS],
    )


def _read_rows(reader: DatasetReader) -> list[OracleRow]:
    entries = [each for each in reader.manifest.of_kind(ORACLE) if each.oracle_version == reader.oracle_version]
    if not entries:
        there = sorted({each.oracle_version or "" for each in reader.manifest.of_kind(ORACLE)})
        raise DatasetError(
            f"{reader.store.root} has no oracles of version {reader.oracle_version!r}.",
            f"There are: {', '.join(there) or 'none'}; choose one with --version.",
        )
    return [row for entry in entries for row in from_table(reader.store.read_table(entry.path), OracleRow)]


def _list_simulators(rows: Sequence[OracleRow]) -> list[Simulator]:
    writers = Counter((row.simulator, row.endpoint or "", row.model or "", row.prompt_version) for row in rows)
    return [
        Simulator(simulator=simulator, endpoint=endpoint, model=model, prompts=prompts, n_dialogues=n)
        for (simulator, endpoint, model, prompts), n in sorted(writers.items())
    ]


def _make_nearness(rows: Sequence[OracleRow], embeddings: Embeddings | None) -> tuple[Nearness, Nearness | None]:
    """Word F1, and the similarity (cosine) of any two texts that oracles and true answers have."""
    if embeddings is None:
        return compute_word_f1, None
    texts = sorted({event.text for row in rows for event in row.events if event.text})
    vectors = dict(zip(texts, embeddings.embed(texts), strict=True))
    return compute_word_f1, lambda text, truth: float(vectors[text] @ vectors[truth])


@dataclass(frozen=True, slots=True)
class _Item:
    """What a dialogue is measured by: its item, the answer as it is spoken (None: it has no sure reading), and the
    question's turn (None: the answer was never said)."""

    item_id: str
    answer: str | None
    question_turn: int | None


@dataclass(frozen=True, slots=True)
class _TrueAnswer:
    """The body of a turn, and the item's answer as it is spoken in it; None where it is not."""

    text: str
    answer: str | None


def _read_items(reader: DatasetReader) -> dict[str, _Item]:
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
            item = _Item(row["item_id"], _speak_answer(row["answer"]), find_question_turn(by_row[number]))
            found[row["dialogue_id"]] = item
    return found


def find_question_turn(turns: Sequence[tuple[int, str, int | None]]) -> int | None:
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


def _speak_answer(answer: str) -> str | None:
    try:
        return speak(answer)
    except Unspeakable:
        return None


def _select_events(row: OracleRow, item: _Item, group: Group) -> Iterator[OracleEvent]:
    """The events of a row that belong to a group."""
    for event in row.events:
        of_user = Group.QUESTION if event.turn_index == item.question_turn else Group.OTHER_TURNS
        if group is (of_user if event.speaker == "A" else Group.USER_WORDS):
            yield event


def _measure_events(
    rows: Sequence[OracleRow],
    items: Mapping[str, _Item],
    group: Group,
    nearness: tuple[Nearness, Nearness | None],
) -> list[Measured]:
    """The events of a group in some rows of one source, each held against its own true answer, and those of others."""
    truths = {
        items[row.dialogue_id].item_id: _make_true_answer(event.text, items[row.dialogue_id])
        for row in rows
        for event in _select_events(row, items[row.dialogue_id], group)
        if event.status == "truth" and event.text
    }
    found = []
    for row in rows:
        item = items[row.dialogue_id]
        own = {(event.turn_index, event.speaker): event.text for event in row.events if event.status == "truth"}
        for event in _select_events(row, item, group):
            truth = own.get((event.turn_index, event.speaker))
            if event.status == "failed":
                found.append(Measured(item_id=item.item_id, level=event.level))
            elif event.status == "answered" and event.text and truth:
                has_chance = event.level == 0 and row.simulator != "random"
                others = _draw_others(event.event_id, item.item_id, truths) if has_chance else []
                of_event = (item.item_id, event.level)
                found.append(_measure_event(of_event, event.text, _make_true_answer(truth, item), others, nearness))
    return found


def _measure_event(
    of_event: tuple[str, int],
    text: str,
    truth: _TrueAnswer,
    others: Sequence[_TrueAnswer],
    nearness: tuple[Nearness, Nearness | None],
) -> Measured:
    item_id, level = of_event
    f1, similarity = (_measure_near(near, text, truth.text, [other.text for other in others]) for near in nearness)
    return Measured(
        item_id=item_id,
        level=level,
        f1=f1,
        similarity=similarity,
        found=_measure_near(_holds, text, truth.answer, [other.answer for other in others if other.answer]),
        n_words=len(split_words(text)),
    )


def _make_true_answer(text: str, item: _Item) -> _TrueAnswer:
    return _TrueAnswer(text, item.answer if item.answer and is_found(item.answer, text) else None)


def _holds(text: str, answer: str) -> float:
    return float(is_found(answer, text))


def _measure_near(near: Nearness | None, text: str, truth: str | None, others: Sequence[str]) -> Near | None:
    if near is None or truth is None:
        return None
    chance = sum(near(text, other) for other in others) / len(others) if others else None
    return Near(own=near(text, truth), chance=chance)


def _draw_others(event_id: str, item_id: str, truths: Mapping[str, _TrueAnswer]) -> list[_TrueAnswer]:
    """True answers of other items of the source, drawn by the event's id."""
    others = sorted(each for each in truths if each != item_id)
    chosen = random.Random(ids.seed_for("chance", event_id)).sample(others, min(N_OTHERS, len(others)))
    return [truths[other] for other in chosen]
