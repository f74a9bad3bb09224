"""Items nobody should have written: each is refused with a reason or said right; nothing unspeakable comes out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_schemas.config import ScriptConfig
from pipelines.script import rejections
from pipelines.script.exchange import Exchange, make_exchange
from pipelines.script.rejections import NotAskable
from spoken import spoken_text
from spoken.spoken_text import SPOKEN, Unspeakable, split_words
from tests.support.builders import make_item
from tests.support.fragments import TEXTS

pytestmark = pytest.mark.full


def outcome(question: str, answer: str = "a pike", options: tuple[str, ...] = ()) -> Exchange | str:
    """What is said, or the reason why nothing is."""
    index = options.index(answer) if answer in options else None
    item = make_item(question, answer, options=options, answer_index=index)
    try:
        return make_exchange(item, ScriptConfig(), 0)
    except (NotAskable, Unspeakable) as refused:
        return refused.reason


def assert_sayable(made: Exchange) -> None:
    for text in (made.question, made.answer, made.short_answer, made.step, made.distractor):
        assert text is None or SPOKEN.fullmatch(text.text)
    assert made.answer_word_index < len(split_words(made.answer.text))
    assert made.short_answer_word_index < len(split_words(made.short_answer.text))


@pytest.mark.parametrize(
    ("question", "reasons"),
    [
        ("Why? " + "fish " * 2000, {"too_long"}),
        ("w" * 10_000, {"broken_text", "not_a_question", "code"}),
        ("?" * 10_000, {"too_long"}),
        ("كم سمكة في البحيرة؟", {"non_latin", "not_a_question", "symbol"}),
        ("How many fish \u202eevil\u202c are there?", {"symbol", "non_latin"}),
        ("How many 🐟 are left?", {"symbol"}),
        ("How many\x00\x07 fish are left?", {"symbol"}),
        ("<script>alert(1)</script> How many fish?", {"markup"}),
        ("E = mc^2", {"not_a_question", "formula", "code"}),
        ("\\frac{a}{b} + \\sqrt{c}", {"not_a_question", "formula"}),
        ("   ", {"blank", "not_a_question"}),
        ("", {"blank", "not_a_question"}),
    ],
)
def test_hostile_questions_are_refused_with_their_reason(question: str, reasons: set[str]) -> None:
    assert outcome(question) in reasons
    assert outcome(question, "a pike", ("a pike", "a carp")) in reasons | {"needs_options"}


def test_empty_and_hostile_options_are_not_read_out() -> None:
    for options in (("a pike", "", "a carp"), ("a pike", "🐟", "<img src=x>", "a carp"), ("a pike", "\x00", "a carp")):
        made = outcome("Which of the following is a lake fish?", "a pike", options)
        assert isinstance(made, Exchange)
        listed = made.question.text.removeprefix("Which of these is a lake fish: ")
        assert listed in {"a pike or a carp?", "a carp or a pike?"}


def test_an_empty_answer_is_refused() -> None:
    assert outcome("What is it?", "", ("", "a carp")) == "blank"
    assert outcome("What is it?", " ?") == "blank"


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(st.text(max_size=60), TEXTS, TEXTS.map("What is {}?".format)),
    st.one_of(st.text(max_size=30), TEXTS),
    st.lists(st.one_of(st.text(max_size=20), TEXTS), max_size=5).map(tuple),
)
def test_any_item_at_all_is_refused_or_sayable(question: str, answer: str, options: tuple[str, ...]) -> None:
    made = outcome(question, answer, (*options, answer) if options else ())
    if isinstance(made, Exchange):
        assert_sayable(made)
    else:
        assert made in rejections.REASONS | spoken_text.REASONS


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["{} fish", "${}", "{}%", "{} km", "about {}"]), st.integers(0, 99))
def test_the_answers_first_word_is_marked(number: int, form: str, seed: int) -> None:
    answer = form.format(number)
    item = make_item("How much is it?", answer, options=(answer, "a pike"), answer_index=0)
    made = make_exchange(item, ScriptConfig(), seed)
    alone = make_exchange(make_item("How much is it?", answer), ScriptConfig(), seed)
    for each in (made, alone):
        from_there = split_words(each.answer.text.lower())[each.answer_word_index :]
        assert from_there == split_words(each.short_answer.text.lower())[each.short_answer_word_index :]
