"""What chat models add to their words for the eye, and what only looks like it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spoken.plain_text import strip_markdown

ADDED = [
    ("Paris it is 😊.", "Paris it is."), ("Yes! 👍🏽 Of course ❤️", "Yes! Of course"), ("😊 Hello 🇫🇷", "Hello"),
    ("great😊thanks ✨✅", "great thanks"), ("1️⃣ Boil 👩‍🔬 water.", "1 Boil water."), ("😊 ⭐", ""),
    ("*very* good", "very good"), ("It is **very** good, *indeed*.", "It is very good, indeed."),
    ("***really*** so, and **_so_** on", "really so, and so on"),
    ("*Homo sapiens* is (*sic*) an *ape*", "Homo sapiens is (sic) an ape"),
    ('"*Hamlet*", he said: **"No!"**', '"Hamlet", he said: "No!"'), ("*Hamlet*'s end", "Hamlet's end"),
    ("**Answer:** Paris", "Answer: Paris"), ("_very_ good and __very__ good", "very good and very good"),
    ("Use `print` or ``so``.", "Use print or so."), ("`x = 5`", "x = 5"),
    ("The **12** of *3* dogs", "The 12 of 3 dogs"), ("Is *x* a prime?", "Is x a prime?"),
    ("a footnote*, and *another", "a footnote, and another"), ("## The answer", "The answer"),
]  # fmt: skip
MEANT = [
    "3 * 4 is 12", "3*4 = 12 and 2 ** 3 = 8", "5 * 3 * 2, a*b*c, 2*(3+4), (a+b)*c", "3 *4 or 3* 4", "x^* and f(*)",
    "The capital of France is ____.", "_____ is the capital, and __ is not", "x_1 and snake_case", "don`t", "C# is # 1",
    "It costs © 5, or ™, at 5° → 3 ↔ 2 ♯ ✗", "  spaces   stay ", "naïve café",
]  # fmt: skip


@pytest.mark.parametrize(("written", "plain"), ADDED)
def test_what_is_for_the_eye_is_left_out(written: str, plain: str) -> None:
    assert strip_markdown(written) == plain


@pytest.mark.parametrize("written", MEANT)
def test_what_is_meant_stays_as_it_is(written: str) -> None:
    assert strip_markdown(written) == written


PIECES = ["very", "x", "3", "*", "**", "_", "`", " ", " ", "😊", ".", ",", '"', "(", ")", "Dr.", "#", "\u200d", "a"]


@given(pieces=st.lists(st.sampled_from(PIECES), max_size=24), n=st.integers(0, 40))
def test_what_comes_later_changes_the_last_word_alone(pieces: list[str], n: int) -> None:
    """By this an answer can be said while it is written."""
    words = "".join(pieces).split(" ")
    before = strip_markdown(" ".join(words[:n])).split()
    assert strip_markdown(" ".join(words)).split()[: len(before) - 1] == before[:-1]


@given(pieces=st.lists(st.sampled_from(PIECES), max_size=24))
def test_a_plain_text_is_plain(pieces: list[str]) -> None:
    plain = strip_markdown("".join(pieces))
    assert strip_markdown(plain) == plain


@pytest.mark.parametrize("written", ["\n" * 50_000, "1    *" * 10_000])
def test_long_runs_of_blanks_and_marks_stay(written: str) -> None:
    assert strip_markdown(written) == written
