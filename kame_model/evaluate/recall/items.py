"""Selects the dialogues of an evaluation of recall, checks that they fit, and makes the record of each turn."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data_schemas import ids
from data_schemas.config.recall import RecallConfig, Told
from data_schemas.errors import ConfigError
from data_schemas.units import FRAME_S, FRAMES_PER_S
from kame_model.checkpoint.load import Checkpoint
from kame_model.data.augment import append_silence
from kame_model.data.splicing import DialogueSides
from kame_model.encode.rows import TokenRow
from kame_model.encode.token_dataset import TokenDataset
from kame_model.evaluate.answers.heard_words import count_word_errors
from kame_model.evaluate.answers.key_words import find_key, split_into_units
from kame_model.evaluate.recall.free_running import FreeRun
from kame_model.evaluate.recall.lenient import measure_leniently, measure_old_correction
from kame_model.evaluate.recall.turns import (
    INTERRUPTION,
    AskedDialogue,
    SaidWord,
    Turn,
    count_words,
    decode_said_words,
    judge_turn,
)
from kame_model.text.tokenizer import Tokenizer

Record = dict[str, Any]
"""The record of an item; `report.folder` describes the fields that all evaluations have."""


class RecallCondition(NamedTuple):
    """The condition of one run of all dialogues: a line of the table.

    Attributes:
        delay_s: delay of the back-end, seconds; None: without an oracle.
        channel: degradation of the users' audio; None: as recorded.
    """

    oracle: Told
    delay_s: float | None
    channel: str | None

    @property
    def name(self) -> str:
        """The condition in the names of files and items, for example `right-0.32-s-room`."""
        return self.title.replace(", ", "-").replace(" ", "-")

    @property
    def title(self) -> str:
        """Title for readers, for example `right, 0.32 s, room`."""
        delay = "" if self.delay_s is None else f", {self.delay_s:g} s"
        return f"{self.oracle}{delay}" + ("" if self.channel is None else f", {self.channel}")

    @property
    def has_stranger(self) -> bool:
        """Whether the oracle of another dialogue is fed."""
        return self.oracle in ("wrong", "corrected")


def check_rows_fit(checkpoint: Checkpoint, dataset: TokenDataset) -> None:
    """Checks that a checkpoint can run the rows. Digests that the checkpoint does not record are not compared.

    Raises:
        ConfigError: the rows were encoded with another vocabulary or codec.
    """
    front_end, facts = checkpoint.front_end, checkpoint.facts
    for what, of_checkpoint, of_dataset in (
        ("size of vocabulary", front_end.text_card, dataset.text_card),
        ("size of codebooks", front_end.card, dataset.layout.card),
        ("number of codebooks", front_end.n_codebooks, dataset.layout.n_codebooks),
        ("vocabulary", facts and facts.tokenizer_digest, dataset.tokenizer_digest),
        ("codec", facts and facts.codec_digest, dataset.codec_digest),
    ):
        if of_checkpoint not in (None, of_dataset):
            raise ConfigError(
                f"{dataset.folder} was encoded with another {what} ({of_dataset}) than {checkpoint.place.name} has "
                f"({of_checkpoint}).",
                "Encode the dataset again with the checkpoint's tokenizer and codec: `kame encode … --tokenizer FILE "
                "--codec NAME --codec-path PATH`.",
            )


def get_condition(row: Record) -> RecallCondition:
    """Returns the condition of a row of figures or of the `row` of an item."""
    return RecallCondition(row["oracle"], row["delay_s"], row["channel"])


def select_rows(dataset: TokenDataset, config: RecallConfig) -> list[TokenRow]:
    """Selects up to `config.n_items` rows of the configured splits that can be judged, in the order of the dataset.

    They are sampled by seed from all sources in turn; one dialogue for each item keeps the results independent.
    """
    by_source: dict[str, list[int]] = {}
    for number, (split, source) in enumerate(zip(dataset.splits, dataset.sources, strict=True)):
        if split in config.splits and dataset.n_events_of["a"][number]:
            by_source.setdefault(source, []).append(number)
    turns = zip_longest(
        *(_iterate_judgeable_rows(dataset, source, rows, config) for source, rows in sorted(by_source.items()))
    )
    drawn = islice((each for turn in turns for each in turn if each is not None), config.n_items)
    return [row for _, row in sorted(drawn, key=lambda each: each[0])]


def _iterate_judgeable_rows(
    dataset: TokenDataset, source: str, numbers: list[int], config: RecallConfig
) -> Iterator[tuple[int, TokenRow]]:
    """Yields a source's rows that can be judged, one for each item, with their numbers, in sampling order.

    `numbers` is shuffled in place.
    """
    seen: set[str] = set()
    random.Random(ids.derive_seed("held out", config.items_seed, source)).shuffle(numbers)
    for number in numbers:
        row = dataset[number]
        if row.item_id not in seen and row.answer and _is_answered(row):
            seen.add(row.item_id)
            yield number, row


def _is_answered(row: TokenRow) -> bool:
    """Returns whether an answer follows an oracle that had heard the whole question.

    If the user interrupts, it is the last such oracle.
    """
    heard = row.a.oracle.frame[row.a.oracle.ratio >= 1]
    start = 0 if not len(heard) else int(heard[-1] if row.form == INTERRUPTION else heard[0])
    return bool(len(heard) and row.a.answer_mask[start:].any())


def append_silence_to_row(row: TokenRow, n_frames: int) -> TokenRow:
    """Returns a dialogue with `n_frames` of silence after its end, in which the user waits for an answer.

    A recording ends half a second after the recorded answer, when an answer to a late or corrected oracle is not
    finished. A recording in which somebody talks until its last frame is returned unchanged.
    """
    waiting = append_silence(DialogueSides(row.a, row.b), n_frames)
    if waiting is None:
        return row
    n_frames += row.n_frames
    return replace(row, a=waiting.own, b=waiting.other, n_frames=n_frames, duration_s=n_frames * FRAME_S)


def find_same_dialogues(asked: Sequence[AskedDialogue], voices: TokenDataset) -> list[TokenRow]:
    """Returns the rows of `voices`, in its order, that are the same dialogues with the same question and answer."""
    words = {each.row.dialogue_id: (each.row.question, each.row.answer) for each in asked}
    found = [voices[at] for at, dialogue_id in enumerate(voices.dialogue_ids) if dialogue_id in words]
    return [row for row in found if (row.question, row.answer) == words[row.dialogue_id]]


def choose_strangers(asked: Sequence[AskedDialogue]) -> list[AskedDialogue | None]:
    """Returns for each dialogue the next one, cyclically, with another answer, of its own source if possible.

    None for a dialogue without such another one.
    """
    found = list[AskedDialogue | None]()
    for at, each in enumerate(asked):
        later = [*asked[at + 1 :], *asked[:at]]
        others = [other for other in later if other.turn.key != each.turn.key]
        of_source = (other for other in others if other.row.source == each.row.source)
        found.append(next(of_source, others[0] if others else None))
    return found


def make_record(
    asked: AskedDialogue,
    turn: Turn,
    stranger: AskedDialogue | None,
    ran: FreeRun,
    condition: RecallCondition,
    heard: Sequence[str] | None,
    recorded_heard: Sequence[str] | None,
    tokenizer: Tokenizer,
    correction_after_s: float,
) -> Record:
    """Makes the record of a turn.

    Args:
        stranger: the dialogue whose oracle was fed under a wrong or corrected oracle; else None.
        heard: words recognised in the turn's audio; None: it was not recognised. recorded_heard: in the recording's,
            after its codec.
    """
    row = asked.row
    early, said, later = _split_said_words(turn, ran.text, tokenizer)
    recorded_early, recorded, recorded_later = _split_said_words(turn, row.a.text, tokenizer)
    if stranger is None:
        measures = _measure_answer(turn, early, said, later) | measure_leniently(asked, turn, said, later)
        own = _measure_answer(turn, recorded_early, recorded, recorded_later) | _measure_words(turn, recorded)
        own |= _measure_heard(turn, recorded, recorded_heard)
        own |= measure_leniently(asked, turn, recorded, recorded_later)
        if condition.oracle == "right":
            measures |= _measure_words(turn, said)
            measures["told_in_time"] = _is_told_in_time(asked, turn, condition.delay_s or 0.0)
        measures |= {f"recorded_{name}": each for name, each in own.items()}
    elif condition.oracle == "wrong":
        measures = _measure_wrong(turn, stranger.turn, said)
        measures |= measure_leniently(asked, turn, said, later, stranger.turn)
    else:
        measures = _measure_corrected(turn, stranger.turn, said, ran.correction_frame)
        measures |= measure_old_correction(turn, stranger.turn, said, correction_after_s)
    measures |= _measure_heard(turn, said, heard)
    return {
        "row": {**condition._asdict(), "group": turn.group},
        "unit": row.item_id,
        "measures": measures,
        "dialogue_id": row.dialogue_id,
        "source": row.source,
        "form": row.form,
        "turn": turn.number,
        "key": list(turn.key),
        "stranger_key": None if stranger is None else list(stranger.turn.key),
        "told": " ".join(turn.oracle_words),
        "said_early": " ".join(_get_words(early)),
        "said": " ".join(_get_words(said)),
        "said_later": " ".join(_get_words(later)),
        "recorded": " ".join(_get_words(recorded)),
        "heard": None if heard is None else " ".join(heard),
        "correction_s": None if ran.correction_frame is None else turn.compute_seconds_since(ran.correction_frame),
        "n_frames": row.n_frames,
    }


def _split_said_words(
    turn: Turn, text: Sequence[int] | NDArray[np.int32], tokenizer: Tokenizer
) -> tuple[list[SaidWord], list[SaidWord], list[SaidWord]]:
    """Returns the words of a text stream during the turn's question, in the turn, and after it."""
    spans = ((turn.begin, turn.start), (turn.start, turn.end), (turn.end, len(text)))
    early, said, later = (decode_said_words(text, tokenizer, *span) for span in spans)
    return early, said, later


def _get_words(said: Sequence[SaidWord]) -> list[str]:
    return [each.word for each in said]


def _measure_answer(
    turn: Turn, early: Sequence[SaidWord], said: Sequence[SaidWord], later: Sequence[SaidWord]
) -> Record:
    """Computes the measures of the words of a turn, of those during its question and of those after it."""
    answered = judge_turn(turn, said, early)
    return {
        "said_once": answered.is_said_once,
        "right_first": answered.is_right_first,
        "said": answered.n_said > 0,
        "said_anywhere": bool(find_key(turn.key, _get_words([*said, *later]))),
        "said_another": answered.n_other > 0,
        "answered_early": answered.is_early,
        "silent": not said,
        "first_word_s": answered.delay_s,
        "key_word_s": answered.key_delay_s,
    }


def _measure_heard(turn: Turn, said: Sequence[SaidWord], heard: Sequence[str] | None) -> Record:
    """Returns whether a recogniser heard the key words, and its word errors against the text.

    Empty if there is no transcript.
    """
    if heard is None:
        return {}
    by_text, by_ear = ([each.text for each in split_into_units(words)] for words in (_get_words(said), heard))
    return {"heard": bool(find_key(turn.key, heard)), "heard_word_errors": count_word_errors(by_text, by_ear)}


def _is_told_in_time(asked: AskedDialogue, turn: Turn, delay_s: float) -> bool:
    """Returns whether the complete oracle could be fed before the end of the turn; else it is too late to be said."""
    n_tokens = len(asked.row.a.oracle.get_fed(turn.event))
    return turn.start + round(delay_s * FRAMES_PER_S) + 1 + n_tokens < turn.end  # a start id before them


def _measure_words(turn: Turn, said: Sequence[SaidWord]) -> Record:
    """Counts the oracle's words that were said in order, and other words, each as [number, words of the oracle]."""
    counts = count_words(turn.oracle_words, _get_words(said))
    return {
        "words_in_order": [counts.n_in_order, counts.n_expected],
        "words_repeated": [counts.n_repeated, counts.n_expected],
        "words_inserted": [counts.n_inserted, counts.n_expected],
    }


def _measure_wrong(turn: Turn, stranger: Turn, said: Sequence[SaidWord]) -> Record:
    """Measures which of the two answers was said, and how well the wrong oracle was followed."""
    of_stranger = replace(stranger, start=turn.start, end=turn.end)
    followed = judge_turn(of_stranger, said)
    return {
        "said": bool(find_key(turn.key, _get_words(said))),
        "said_stranger": followed.n_said > 0,
        "said_stranger_once": followed.is_said_once,
        "silent": not said,
        "first_word_s": followed.delay_s,
        **_measure_words(of_stranger, said),
    }


def _measure_corrected(turn: Turn, stranger: Turn, said: Sequence[SaidWord], corrected: int | None) -> Record:
    """Measures which answer was the final one. Turns that did not start the wrong answer have no such measures."""
    measures: Record = {
        "said_stranger": bool(find_key(stranger.key, _get_words(said))),
        "silent": not said,
        "corrected": corrected is not None,
        "in_mid_answer": None,
        "said_at_last": None,
        "said_stranger_after": None,
    }
    if corrected is not None:
        before = _get_words([each for each in said if each.frame <= corrected])
        after = _get_words([each for each in said if each.frame > corrected])
        counts, strangers = count_words(stranger.oracle_words, before), find_key(stranger.key, after)
        measures["in_mid_answer"] = counts.n_in_order < counts.n_expected
        measures["said_at_last"] = bool(find_key(turn.key, after[strangers[-1].end :] if strangers else after))
        measures["said_stranger_after"] = bool(strangers)
    return measures
