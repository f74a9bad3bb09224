"""A dialogue to a row: which words are on which frames, which bear the answer, and what becomes of each event."""

from collections.abc import Sequence

import numpy as np
import pytest

from data_schemas.records import OracleEvent, Turn
from kame_model.encode.dialogue import find_answer_words, find_question_and_answer, make_oracle_tokens, make_token_row
from kame_model.encode.manifest import RowCounts
from kame_model.encode.rows import TokenRow
from kame_model.frames.inner_monologue import read_words
from kame_model.text.tokenizer import Tokenizer
from tests.support.builders import make_turn, make_utterance
from tests.support.token_rows import audio_dialogue, event, oracle_row, said_turn, timed
from tests.support.vocabularies import make_vocabulary


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return make_vocabulary(tmp_path_factory.mktemp("vocabulary"))


def row_of(
    tokenizer: Tokenizer, turns: Sequence[Turn], events: Sequence[OracleEvent] | None = ()
) -> tuple[TokenRow, RowCounts]:
    codes = np.zeros((8, 50), np.int16)
    oracle = None if events is None else oracle_row(*events)
    return make_token_row(audio_dialogue(*turns, duration_s=4.0), oracle, (codes, codes + np.int16(1)), tokenizer)


ASKED = said_turn(0, "B", "How many litres?", ("how", 0.1, 0.2), ("many", 0.4, 0.5), ("litres", 0.8, 0.9))
TOLD = said_turn(
    1,
    "A",
    "Sure. That's sixty litres. Hope that helps.",
    ("sure", 1.3, 1.4),
    ("that's", 1.6, 1.7),
    ("sixty", 2.0, 2.1),
    ("litres", 2.4, 2.5),
    ("hope", 2.8, 2.9),
    ("that", 3.1, 3.2),
    ("helps", 3.4, 3.5),
    answer_word_index=2,
)


def masked_words(row: TokenRow, tokenizer: Tokenizer) -> list[str]:
    return [word for frame, word in read_words(row.a.text, tokenizer) if row.a.answer_mask[frame]]


def test_the_mask_is_on_the_words_that_bear_the_answer_to_the_end_of_their_sentence(tokenizer: Tokenizer) -> None:
    row, _ = row_of(tokenizer, [ASKED, TOLD])
    assert masked_words(row, tokenizer) == ["sixty", "litres"]
    assert not row.b.answer_mask.any()
    assert (row.question, row.answer) == ("How many litres?", "sixty litres.")


def test_a_backchannel_is_no_answer_and_an_answer_in_two_breaths_is_masked_in_both(tokenizer: Tokenizer) -> None:
    hm = make_utterance("Sorry.", timed(("sorry", 0.6, 0.7)), kind="backchannel")
    first = make_utterance("That's sixty", timed(("that's", 1.6, 1.7), ("sixty", 2.0, 2.1)))
    second = make_utterance("litres.", timed(("litres", 2.9, 3.0)))
    row, _ = row_of(tokenizer, [ASKED, make_turn(1, "A", [hm, first, second], answer_word_index=1)])
    assert [word for _, word in read_words(row.a.text, tokenizer)] == ["sorry", "that's", "sixty", "litres"]
    assert masked_words(row, tokenizer) == ["sixty", "litres"]


def test_an_answer_that_was_cut_short_is_taken_from_where_it_is_said_whole() -> None:
    before = said_turn(1, "A", "Sure. That's", ("sure", 1.3, 1.4), ("that's", 1.6, 1.7), cut_s=1.7)
    assert list(find_answer_words(before)) == []
    assert find_question_and_answer([ASKED, before]) == ("How many litres?", "")
    cut = said_turn(1, "A", "That's sixty", ("that's", 1.3, 1.4), ("sixty", 1.6, 1.7), answer_word_index=1, cut_s=1.7)
    short = said_turn(2, "B", "Keep it short.", ("keep", 1.8, 1.9), ("it", 1.9, 2.0), ("short", 2.0, 2.1))
    assert find_question_and_answer([ASKED, cut]) == ("How many litres?", "sixty")
    assert find_question_and_answer([ASKED, cut, short, TOLD]) == ("How many litres? Keep it short.", "sixty litres.")


def test_the_question_is_all_the_user_said_before_the_answer() -> None:
    greeting = said_turn(0, "B", "Hello there.", ("hello", 0.0, 0.1), ("there", 0.1, 0.2))
    hello = said_turn(1, "A", "Hello.", ("hello", 0.3, 0.4))
    after = said_turn(4, "B", "Thanks.", ("thanks", 3.6, 3.7))
    asked, answer = find_question_and_answer([greeting, hello, ASKED, TOLD, after])
    assert (asked, answer) == ("Hello there. How many litres?", "sixty litres.")


def test_the_last_event_that_is_left_of_each_turn_is_never_skipped(tokenizer: Tokenizer) -> None:
    events = [
        event(0, t_s=0.3, r=0.5, text="ten"),
        event(1, t_s=0.5, r=0.9, level=3, status="failed", text=None),
        event(2, t_s=2.0, r=0.5, turn_index=2, text="ten"),
        event(3, t_s=2.5, r=1.0, level=5, turn_index=2, status="truth", text="sixty"),
    ]
    oracle, counts = make_oracle_tokens(events, 50, tokenizer)
    assert oracle.skip_forbid.tolist() == [True, False, True]
    assert (counts.n_events, counts.n_failed_events) == (3, 1)


def test_an_event_after_the_last_frame_is_left_out_and_counted(tokenizer: Tokenizer) -> None:
    events = [event(0, t_s=3.99, r=0.5, text="ten"), event(1, t_s=4.0, r=1.0, level=5, status="truth", text="sixty")]
    oracle, counts = make_oracle_tokens(events, 50, tokenizer)
    assert oracle.frame.tolist() == [49]
    assert (counts.n_events, counts.n_late_events) == (1, 1)


def test_a_dialogue_without_oracles_keeps_its_row_and_is_counted(tokenizer: Tokenizer) -> None:
    row, counts = row_of(tokenizer, [ASKED, TOLD], None)
    assert (len(row.a.oracle), counts.n_without_oracles) == (0, 1)


def test_words_that_end_beyond_the_sound_are_counted(tokenizer: Tokenizer) -> None:
    late = said_turn(1, "A", "Sixty litres.", ("sixty", 3.95, 3.97), ("litres", 3.98, 4.1))
    row, counts = row_of(tokenizer, [ASKED, late])
    assert len(row.a.text) == 50
    assert counts.n_cut_tokens > 0
