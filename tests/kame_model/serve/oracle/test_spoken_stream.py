"""Answers as they are said while they are written: what leaves early is what the whole is said as."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_schemas.errors import RequestError
from kame_model.serve.oracle import writer
from kame_model.serve.oracle.writer import SpokenStream
from spoken.chat_answers import speak_answer
from spoken.oracle_text import UnusableAnswer
from spoken.plain_text import strip_markdown

ANSWERS = (
    "I think it is one of the big planets, maybe the one with the bright rings.",
    "She earned $10, because 50 minutes are 5/6 of an hour.",
    "That would cost about $3 million a year, or 2.5% of the budget.",
    "Well, twelve times five is sixty, so the answer is sixty litres. Does that help?",
    "It was founded in 1840 and had 3,500 people by 1900.",
    "The area is length × width = 4 * 5 = 20 square metres, so the farmer needs 20 bags.",
    "I'd say DNA, which is short for deoxyribonucleic acid; the U.S. lab found it in the 1950s.",
    "Dr. Smith's paper says that the speed is 3 x 10^8 m/s in a vacuum.",
    "Henry VIII had six wives, and World War II began in 1939.",
    'He called it "Romeo and Juliet", didn\'t he?',
    "It's **very** likely that x = 5, since 2x + 1 = 11.",
    "You need 3 kg of flour, 250 g of butter and 2 tsp of salt.",
    "The train leaves at 5:30 pm and arrives at 7 pm, i.e. 90 minutes later.",
    "Paris it is 😊. It lies *on* the Seine, doesn't it? 🇫🇷",
    "**Note well:** the _Odyssey_ is *very* old, and `Homer` wrote 2 of **them** 👍🏽!",
    "That is 3 * 4 = 12 *dogs*, or *x* times 3 *4.",
)


def words_of(pieces: list[str | UnusableAnswer]) -> str:
    return "".join(piece for piece in pieces if isinstance(piece, str))


def feed(stream: SpokenStream, delta: str) -> str:
    return words_of(stream.feed(delta))


def streamed(answer: str, cuts: list[int]) -> str:
    """All that is said."""
    stream = SpokenStream()
    edges = [0, *sorted(cuts), len(answer)]
    early = "".join(feed(stream, answer[start:end]) for start, end in itertools.pairwise(edges))
    return " ".join((early + words_of(stream.finish())).split())


def whole(answer: str) -> str:
    """What is said of an answer that is written."""
    return " ".join(each for each in speak_answer(strip_markdown(answer).strip()) if isinstance(each, str))


@pytest.mark.parametrize("answer", ANSWERS)
def test_any_cuts_give_what_the_whole_is_said_as(answer: str) -> None:
    draw = random.Random(answer)
    for n_cuts in (0, 3, len(answer)):
        assert streamed(answer, draw.choices(range(len(answer)), k=n_cuts)) == whole(answer)


WORDS = st.sampled_from(
    [
        *("the", "train", "goes", "fifty", "miles", ",", "because", "it", "left", ".", "So", "she", "paid"),
        *("$5", "12", "3.5%", "1/2", "x", "=", "DNA", "Dr.", "it's"),
        *("*very*", "*so", "far*", "**12**", "*", "😊", "😊.", "`on`", "_off_", "#"),
    ]
)


@settings(max_examples=100, deadline=None)
@given(words=st.lists(WORDS, min_size=1, max_size=16), cuts=st.lists(st.integers(0, 60), max_size=12))
@pytest.mark.full
def test_words_numbers_and_signs_in_any_order(words: list[str], cuts: list[int]) -> None:
    answer = " ".join(words)
    if said := whole(answer):
        assert streamed(answer, [min(cut, len(answer)) for cut in cuts]).endswith(said)
    else:
        with pytest.raises(UnusableAnswer):
            streamed(answer, [min(cut, len(answer)) for cut in cuts])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("I think it is", ["", "I ", "think ", "it "]),
        ("It costs $5 million a year then", ["", "It ", "", "", "costs five million dollars ", "a ", "year "]),
        ("It is *very* good 😊 for **all** of", ["", "It ", "is ", "very ", "", "good ", "for ", "all "]),
    ],
    ids=["plain words", "a number that something can change", "marks for the eye"],
)
def test_words_leave_one_word_late(answer: str, said: list[str]) -> None:
    stream = SpokenStream()
    assert [feed(stream, f"{word} ") for word in answer.split()] == said
    assert stream.finish() == [f"{answer.split()[-1]} "]


def test_only_the_first_line_counts_and_nobody_else_s_words() -> None:
    for answer in ("\n Yes, it is.\nNo more", "Assistant: Yes, it is. User: Why?", "Yes, it is.\n\n"):
        stream = SpokenStream()
        early = "".join(feed(stream, char) for char in answer)
        assert (early + words_of(stream.finish())).split() == ["Yes,", "it", "is."]


@pytest.mark.parametrize(
    ("answer", "why", "would_come_again"),
    [
        ("你好", "cannot be said", True),
        ("😊 👍", "cannot be said", True),
        ("", "empty", False),
        (" \n", "empty", False),
    ],
)
def test_what_cannot_be_said_would_come_again_nothing_would_not(answer: str, why: str, would_come_again: bool) -> None:
    stream = SpokenStream()
    stream.feed(answer)
    with pytest.raises(RequestError, match=why) as raised:
        stream.finish()
    assert isinstance(raised.value, UnusableAnswer) is would_come_again


def test_a_reading_that_changes_afterwards_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = SpokenStream()
    monkeypatch.setattr(writer, "speak_sentence", lambda text, _: text.replace("of", "off"))
    assert stream.feed("made of old wood ") == ["made of old "]
    stream.feed("to the end")
    with pytest.raises(UnusableAnswer, match="contradicts the words"):
        stream.finish()


def test_what_stays_unsure_is_not_read_again_with_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(text: str) -> str:
        read.append(text)
        return text

    monkeypatch.setattr(writer, "strip_markdown", counted)
    stream = SpokenStream()
    assert [stream.feed("1   *") for _ in range(500)] == [[]] * 500
    assert len(read) < 250
