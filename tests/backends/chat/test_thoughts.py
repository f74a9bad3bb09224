"""Thoughts in an answer, in a whole one and in one that is being written."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.chat.thoughts import ThoughtStream, split_thought
from data_schemas.errors import RequestError


@pytest.mark.parametrize(
    ("written", "thought", "said"),
    [
        ("It is Saturn.", "", "It is Saturn."),
        ("<think>\n\n</think>\n\nIt is Saturn.", "<think>\n\n</think>\n\n", "It is Saturn."),
        ("Rings? Saturn.\n</think>\n\nIt is Saturn.", "Rings? Saturn.\n</think>\n\n", "It is Saturn."),
        ("<think>\nRings? It may be", "<think>\nRings? It may be", ""),
        ("I <think> so.", "", "I <think> so."),
    ],
)
def test_thoughts_before_an_answer_are_no_part_of_it(written: str, thought: str, said: str) -> None:
    assert split_thought(written) == (thought, said)


def in_pieces(written: str, cuts: list[int], *, is_expected: bool, is_cut: bool = False) -> list[str]:
    """What leaves of an answer in pieces, and at its end."""
    stream = ThoughtStream(is_expected=is_expected)
    edges = [0, *sorted(min(cut, len(written)) for cut in cuts), len(written)]
    said = [stream.feed(written[start:end]) for start, end in itertools.pairwise(edges)]
    return [*said, stream.finish(is_cut=is_cut)]


TEXTS = st.lists(
    st.sampled_from(["<think>", "</think>", "<", "</", "think>", " ", "\n", "Rings?", "It is ", "Saturn."]), max_size=10
).map("".join)
CUTS = st.lists(st.integers(0, 60), max_size=12)


@given(written=TEXTS, cuts=CUTS)
def test_any_cuts_of_a_model_that_thinks_give_what_the_whole_is(written: str, cuts: list[int]) -> None:
    assert "".join(in_pieces(written, cuts, is_expected=True)) == split_thought(written)[1]


@given(written=TEXTS, cuts=CUTS)
def test_of_another_model_a_thought_without_a_beginning_is_an_error(written: str, cuts: list[int]) -> None:
    try:
        said = "".join(in_pieces(written, cuts, is_expected=False))
    except RequestError:
        assert "</think>" in written
        assert not written.lstrip().startswith("<think>")
    else:
        assert said == split_thought(written)[1]


def test_an_ordinary_answer_is_not_held_back() -> None:
    pieces = ["\n", "It", " is", " <", " 5", ".", " </t", "d> so"]
    stream = ThoughtStream(is_expected=False)
    assert [stream.feed(piece) for piece in pieces] == ["", "\nIt", " is", " ", "< 5", ".", " ", "</td> so"]
    assert (stream.is_thinking, stream.has_thought) == (False, False)


def test_it_tells_that_it_thinks() -> None:
    stream = ThoughtStream(is_expected=False)
    told = [(stream.feed(piece), stream.is_thinking) for piece in ("<th", "ink>", "Well.", "</think>\n", "\nIt", " is")]
    assert told == [("", False), ("", True), ("", True), ("", False), ("It", False), (" is", False)]
    assert stream.has_thought


def test_a_thought_that_was_cut_off_is_no_answer() -> None:
    assert in_pieces("Rings? It may", [3], is_expected=True, is_cut=True) == ["", "", ""]
    assert in_pieces("It is Saturn.", [3], is_expected=True) == ["", "", "It is Saturn."]
