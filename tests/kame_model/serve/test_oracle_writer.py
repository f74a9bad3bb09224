"""A streamed oracle's tokens are those of training, and an older oracle says nothing after a newer one."""

import random
import re
from pathlib import Path

import pytest

from kame_model.frames.ids import PADDING_ID
from kame_model.frames.oracle_queue import OracleQueue
from kame_model.serve.oracle_writer import OracleWriter
from kame_model.text.tokenizer import Tokenizer
from pipelines.script.speakable import speak
from tests.vocabularies import make_moshi_like, make_vocabulary

_DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_WORDS = (
    *("the", "tank", "holds", "litres", "and", "is", "full", "so", "she", "earned", "it", "because", "minutes"),
    *("are", "many,", "after", "all.", "Well,", "that", "helps?"),
)


@pytest.fixture(scope="module", params=["ours", "as Moshi's"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder: Path = tmp_path_factory.mktemp("vocabulary")
    return make_vocabulary(folder) if request.param == "ours" else make_moshi_like(folder)


def digits_said(text: str) -> str:
    """A quick stand-in for the normaliser, of its habits: a sign is said after what follows it."""
    text = re.sub(r"\$(\d+)( million)?", lambda m: f"{m[1]}{m[2] or ''} dollars", text)
    return " ".join(re.sub(r"\d", lambda m: f" {_DIGITS[int(m[0])]} ", text).replace("%", " percent").split())


def drawn_answer(draw: random.Random) -> str:
    words = [draw.choice([*_WORDS, f"${draw.randrange(100)}", str(draw.randrange(1000)), "7%"]) for _ in range(25)]
    return " ".join("million" if draw.random() < 0.05 else word for word in words)


def queued(queue: OracleQueue, n: int) -> list[int]:
    return [queue.next() for _ in range(n)]


def test_tokens_of_a_thousand_answers_in_random_pieces_are_those_of_the_whole(tokenizer: Tokenizer) -> None:
    draw = random.Random(7)
    for _ in range(1000):
        answer = drawn_answer(draw)
        queue = OracleQueue(tokenizer.text_card)
        writer = OracleWriter(queue, tokenizer, digits_said)
        at, words = 0, []
        while at < len(answer):
            end = at + draw.randint(1, 9)
            words.append(writer.write(answer[at:end]))
            at = end
        words.append(writer.finish())
        tokens = tokenizer.encode(digits_said(answer))
        assert writer.n_tokens == len(tokens)
        assert queued(queue, len(tokens) + 2) == [tokenizer.text_card, *tokens, PADDING_ID]
        assert " ".join(filter(None, words)) == digits_said(answer)


def test_the_pipeline_s_own_reading_gives_the_pipeline_s_tokens(tokenizer: Tokenizer) -> None:
    answer = "Natalia earned $12 an hour, so that is 72 dollars for 6 hours. Not bad, is it?"
    queue = OracleQueue(tokenizer.text_card)
    writer = OracleWriter(queue, tokenizer, speak)
    for start in range(0, len(answer), 4):
        writer.write(answer[start : start + 4])
    writer.finish()
    tokens = tokenizer.encode(speak(answer))
    assert queued(queue, len(tokens) + 1) == [tokenizer.text_card, *tokens]


def test_the_newer_oracle_ends_the_older_and_an_unbegun_one_ends_nothing(tokenizer: Tokenizer) -> None:
    queue = OracleQueue(tokenizer.text_card)
    older, newer = (OracleWriter(queue, tokenizer, digits_said) for _ in range(2))
    assert older.write("she earned it all ") == "she earned it"
    queue.next()
    newer.write("the")
    assert queue.next() == tokenizer.encode("she")[0], "the newer has said nothing yet"
    assert newer.write(" tank is full") == "the tank"
    assert queue.next() == tokenizer.text_card
    assert (older.write("because of minutes "), older.finish()) == ("", "")
    tokens = tokenizer.encode("the tank")
    assert queued(queue, len(tokens) + 1) == [*tokens, PADDING_ID]


@pytest.mark.parametrize("end", ["\n", " User: "])
def test_an_answer_is_whole_with_its_line_or_where_it_speaks_for_somebody_else(tokenizer: Tokenizer, end: str) -> None:
    writer = OracleWriter(OracleQueue(tokenizer.text_card), tokenizer, digits_said)
    writer.write("\nAssistant: the tank is")
    assert not writer.is_whole
    writer.write(f" full{end}she earned it")
    assert writer.is_whole


def test_a_reset_queue_takes_no_word_of_before(tokenizer: Tokenizer) -> None:
    queue = OracleQueue(tokenizer.text_card)
    writer = OracleWriter(queue, tokenizer, digits_said)
    writer.write("she earned it all ")
    queue.reset()
    assert (writer.write("because of minutes "), writer.finish()) == ("", "")
    assert queued(queue, 5) == [PADDING_ID] * 5
