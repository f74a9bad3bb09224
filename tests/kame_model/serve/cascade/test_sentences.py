"""A text that is being written, parted into sentences."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kame_model.serve.cascade.sentences import MOST_CHARS, SentenceSplitter


def parted(*pieces: str) -> list[str]:
    sentences = SentenceSplitter()
    found = [sentence for piece in pieces for sentence in sentences.add(piece)]
    return [*found, *filter(None, [sentences.take_rest()])]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It is nine. Or ten? Yes!", ["It is nine.", "Or ten?", "Yes!"]),
        ("It costs 3.50 dollars. Fine.", ["It costs 3.50 dollars.", "Fine."]),
        ("It is 42. Ella has 100. Fine.", ["It is 42.", "Ella has 100.", "Fine."]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ("Dr. Smith met J. Doe. They talked.", ["Dr. Smith met J. Doe.", "They talked."]),
        ("1. Boil water.\n2. Wait.", ["1. Boil water.", "2. Wait."]),
        ("Wait... what? Yes.", ["Wait... what?", "Yes."]),
        ("no end", ["no end"]),
        ("**Paris.** It lies *on* the `Seine`. 😊 Or not 👍?", ["Paris.", "It lies on the Seine.", "Or not?"]),
        ("Yes! 😊", ["Yes!"]),
        ("**1.** Boil *Dr.* Doe's water.\n---\n**2.** Wait.", ["1. Boil Dr. Doe's water.", "2. Wait."]),
        ("😊\n**\nIt is 3 * 4.", ["It is 3 * 4."]),
        ("Run this:\n```python\nx = 5. y\n```\nDone. `x` is 5.", ["Run this:", "Done.", "x is 5."]),
        ("Run this:\n```print(1)```\nThen restart it. Good luck.", ["Run this:", "Then restart it.", "Good luck."]),
        ("```Go on. Stop.``` It is done.\n```\nno. No.\n``` Then more.", ["It is done.", "Then more."]),
        ("```sh\necho ```\n```\nDone.", ["Done."]),
        ("```sh\necho\n```sh\nDone.", ["Done."]),
        ("  \n ", []),
    ],
)
def test_sentences_end_where_people_pause(text: str, sentences: list[str]) -> None:
    assert parted(text) == sentences


def test_a_sentence_is_given_as_soon_as_the_next_has_begun() -> None:
    sentences = SentenceSplitter()
    assert sentences.add("It is 3") == []
    assert sentences.add(".") == []
    assert sentences.add("5 exactly.") == []
    assert sentences.add(" So") == ["It is 3.5 exactly."]
    assert sentences.take_rest() == "So"


def test_a_long_sentence_is_cut_after_a_clause() -> None:
    text = "one two three four, " * 30
    parts = parted(text)
    assert all(len(part) <= MOST_CHARS for part in parts)
    assert all(part.endswith(",") for part in parts)


@given(st.lists(st.sampled_from(["a", "B", " ", ". ", "?", "3.5", ", ", "\n", "Dr. ", "word ", "x" * 90]), max_size=60))
def test_no_letter_is_lost_however_the_text_comes(pieces: list[str]) -> None:
    whole = re.sub(r"\s", "", "".join(pieces))
    assert re.sub(r"\s", "", "".join(parted(*pieces))) == whole
    assert parted(*pieces) == parted(*list("".join(pieces)))
