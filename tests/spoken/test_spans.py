"""Every spoken word knows the written characters it came from."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spoken.reader import Unspeakable, read_aloud
from spoken.spoken_text import SpokenText, split_words
from spoken.written.traced import TracedText


def written_of(spoken: SpokenText) -> list[tuple[str, str]]:
    """Each spoken word with the written characters of its span."""
    words = split_words(spoken.text)
    return [(word, spoken.written[span[0] : span[1]]) for word, span in zip(words, spoken.spans, strict=True) if span]


def test_words_point_at_what_they_stand_for_also_after_rewriting() -> None:
    assert written_of(read_aloud("She has “7 cats” at $5.50")) == [
        ("She", "She"), ("has", "has"), ("seven", "7"), ("cats", "cats"), ("at", "at"), ("five", "$5.50"),
        ("dollars", "$5.50"), ("and", "$5.50"), ("fifty", "$5.50"), ("cents", "$5.50"),
    ]  # fmt: skip
    text = TracedText.from_written("a \\mathrm{kg} b").sub(r"\\mathrm\{(\w+)\}", r"\1")
    assert text.text == "a kg b"
    assert text.find_span(2, 4) == (10, 12)


@pytest.mark.parametrize(
    ("written", "word", "place"),
    [
        ("so \\alpha is 5", "alpha", "\\alpha"),
        ("a café in Köln", "Koln", "Köln"),
        ("x² + 1 = 5", "squared", "²"),
        ("the US economy", "U", "US"),
        ("\\frac{a+b}{2}", "over", "\\frac{a+b}{2}"),
    ],
)
def test_a_span_survives_normalisation(written: str, word: str, place: str) -> None:
    assert (word, place) in written_of(read_aloud(written))


PIECES = st.sampled_from(
    ["the cat", "x^2", " ", " ", ", ", "3.5 kg", "$4", "é", "½", "H2O", "(a + b)", "in 1914", "U.S.", "$\\alpha$", "-",
     "“so”", "\\frac{1}{2}", "5%", "Dr. No", "\n", "3:30 PM", "x_1", "°C", "…", "and"]
)  # fmt: skip


@given(st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=12).map(" ".join)))
@settings(max_examples=300, deadline=None)
@pytest.mark.full
def test_spans_lie_in_the_text_and_cover_its_letters_and_digits(text: str) -> None:
    try:
        spoken = read_aloud(text)
    except Unspeakable:
        return
    spans = [span for span in spoken.spans if span is not None]
    assert len(spans) == spoken.n_words == len(split_words(spoken.text))
    assert all(0 <= start < end <= len(text) for start, end in spans)
    covered = {at for start, end in spans for at in range(start, end)}
    left = [at for at, char in enumerate(text) if char.isascii() and char.isalnum() and at not in covered]
    assert not left or re.search(r"<|&|https?:|www|%", text)
