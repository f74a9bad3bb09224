"""What cannot stand as an oracle, by reason, and that ordinary answers can."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.oracle.validate import Unusable, usable_text
from pipelines.script.speakable import spoken_words

HINT = "She has forty eight apples, because four times twelve is forty eight."
INSTRUCTION = (
    "Guess the rest. Say in one or two spoken sentences what the assistant will answer. Guess the answer around them."
)


def usable(raw: str, level: int = 2, max_words: int = 30, hint: str = HINT, heard: str = "How many apples") -> str:
    return usable_text(raw, max_words, level, hint, INSTRUCTION, heard)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("I think it is Rome.", "I think it is Rome."),
        ('"It is 4."', "It is four."),
        ("It is Rome.\n\nUser: really?", "It is Rome."),
        ("One two three. Four five six seven.", "One two three."),
        ("One, two, three: four", "One, two, three: four"),
        ("Rome", "Rome"),
    ],
)
def test_an_answer_is_kept_as_whole_sentences_that_can_be_said(raw: str, said: str) -> None:
    assert usable(raw, max_words=5) == said


@pytest.mark.parametrize(
    ("reason", "raw"),
    [
        ("empty", ""),
        ("empty", '  "" \n '),
        ("not_speakable_symbol", "It is █ of them."),
        ("not_speakable_non_latin", "答案是四十八个苹果。"),
        ("too_long", "It is " + "very " * 15 + "big and " + "rather " * 14 + "red."),
        ("refusal", "I'm sorry, but the question is not finished yet."),
        ("refusal", "As an AI language model I have no apples."),
        ("refusal", "I cannot answer that."),
        ("other_language", "Cree que Anna tiene cuarenta manzanas en su casa grande."),
        ("other_language", "Ich glaube, dass Anna noch achtzig rote und kleine Birnen hat."),
        ("quotes_instructions", "The hint is forty eight."),
        ("quotes_instructions", "My hidden notes say forty eight."),
        ("quotes_instructions", "It goes fifty miles and guess the rest."),
        ("quotes_instructions", "I would guess the answer around them."),
        ("repeats_itself", "It is a bit more, it is a bit less, and it is a bit odd."),
        ("repeats_itself", "It is Ken Ken Ken Ken who does it."),
        ("not_speakable_number", "It is 10000000000000000000000000000000000000000000."),
        ("copies_hint", HINT),
        ("copies_hint", f"Well, {HINT[0].lower()}{HINT[1:]}"),
    ],
)
def test_what_cannot_stand_is_refused_by_its_reason(reason: str, raw: str) -> None:
    with pytest.raises(Unusable) as caught:
        usable(raw)
    assert caught.value.reason == reason
    assert str(caught.value).startswith(f"{reason}: ")


@pytest.mark.parametrize(("level", "may"), [(1, False), (2, False), (3, False), (4, True)])
def test_the_hint_may_be_said_word_for_word_at_level_4_alone(level: int, may: bool) -> None:
    if may:
        assert usable(HINT, level) == HINT
    else:
        with pytest.raises(Unusable, match="copies_hint"):
            usable(HINT, level)


def test_a_short_hint_cannot_but_be_said() -> None:
    assert usable("It may be Rome, I think.", 2, hint="Rome.") == "It may be Rome, I think."
    with pytest.raises(Unusable, match="copies_hint"):
        usable("Rome.", 2, hint="Rome.")


def test_words_that_a_speaker_said_are_no_quotation() -> None:
    assert usable("The hint is in the third line.", heard="where in the poem do you think the hint is")


@given(
    words=st.lists(
        st.sampled_from(["it", "is", "an", "apple", "and", "a", "pear", "so", "they", "have", "the", "red", "one"]),
        max_size=60,
    )
)
def test_what_stands_is_never_longer_than_it_may_be(words: list[str]) -> None:
    try:
        text = usable(f"{' '.join(words[:10])}. {' '.join(words[10:])}", max_words=12)
    except Unusable:
        return
    assert 1 <= len(spoken_words(text)) <= 12
