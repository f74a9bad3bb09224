"""What cannot stand as an oracle, by reason, and that ordinary answers can."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_schemas.config import OracleConfig
from pipelines.oracle.english import is_english
from pipelines.oracle.validate import AnswerContext, Unusable, check_answer
from spoken.spoken_text import split_words

HINT = "She has forty eight apples, because four times twelve is forty eight."
INSTRUCTION = (
    "Guess the rest. Say in one or two spoken sentences what the assistant will answer. Guess the answer around them."
)


def usable(
    raw: str, level: int = 2, hint: str = HINT, heard: str = "How many apples", is_cut: bool = False, **oracle: int
) -> str:
    context = AnswerContext(level, hint, INSTRUCTION, heard)
    return check_answer(raw, is_cut, context, OracleConfig.model_validate(oracle))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("I think it is Rome.", "I think it is Rome."),
        ('"It is 4."', "It is four."),
        ("It is Rome.\n\nUser: really?", "It is Rome."),
        ("One two three. Four five six seven.", "One two three."),
        ("One, two, three: four", "One, two, three: four"),
        ("Red, blue, green, grey, black", "Red, blue, green, grey, black"),
        ("Unfortunately she has none.", "Unfortunately she has none."),
        ("Charles de Gaulle, I think.", "Charles de Gaulle, I think."),
        ("Here's what the assistant would say:\n\nIt is Saturn.", "It is Saturn."),
        ('Sure, here is my guess:\n\n"It is Saturn."', "It is Saturn."),
        ("**Answer:**\nIt is Rome.\n\nUser: really?", "It is Rome."),
        ("**Answer:** 😊\nIt is *Rome* 😊.", "It is Rome."),
        ("It is 3 * 4.", "It is three times four."),
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
        ("refusal", "Sorry, I don't know."),
        ("refusal", "I do not have enough information to answer that."),
        ("refusal", "Please provide the full question."),
        ("refusal", "I'm an AI and cannot know"),
        ("refusal", "Unfortunately I am not able to determine the answer."),
        ("refusal", "Could you please repeat that question?"),
        ("refusal", "It is not possible to answer the question."),
        ("refusal", "It is not possible to determine the answer to the question based on the given information."),
        ("refusal", "It is impossible to say before I have heard more."),
        ("refusal", "I can't say for sure."),
        ("refusal", "I can't say what it might be, I think."),
        ("refusal", "I think it is not possible to know about the apples."),
        ("refusal", "I cannot say anything about the apples."),
        ("refusal", "I cannot guess that."),
        ("refusal", "Well, I don't know the exact number of apples."),
        ("refusal", "I am a large language model and have no apples."),
        ("empty", "Here's what the assistant would say:"),
        ("quotes_instructions", "Here is what the assistant would say: it is Saturn."),
        ("quotes_instructions", "Hint: rings and ice."),
        ("quotes_instructions", "Keywords: rings, ice, dust."),
        ("quotes_instructions", "**Hidden hint:** rings and ice."),
        ("quotes_instructions", "Based on the hint, it is photosynthesis."),
        ("quotes_instructions", "It is ice, according to the given notes."),
        ("quotes_instructions", "The keywords suggest that it is photosynthesis."),
        ("role_label", "It is four. User: and how many more? Assistant: two"),
        ("role_label", "Assistant: It is forty of them."),
        ("too_short", "It is."),
        ("other_language", "Das ist der Fluss Rhein."),
        ("other_language", "De hoofdstad van Nederland is Amsterdam en niet Den Haag."),
        ("other_language", "Ich will so schnell wie ich kann zu dir."),
        ("other_language", "Ich will so schnell"),
        ("other_language", "La capitale de la France est Paris."),
        ("other_language", "Il fiume è molto lungo e bello."),
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


@pytest.mark.parametrize(
    "raw",
    [
        "I would guess around forty, but I can't tell exactly yet.",
        "I can't say for sure, but it is probably Saturn.",
        "I can't say that for sure. It may be Saturn, I think.",
        "I don't know yet, but I would say forty.",
        "It is impossible to know for sure, though it may be Saturn.",
        "I think it is a large language model that answers them.",
        "It is not possible to divide by zero.",
        "It is not possible to find time for both.",
    ],
)
def test_who_is_unsure_and_guesses_refuses_nothing(raw: str) -> None:
    assert usable(raw, 0) == raw


def test_a_short_hint_cannot_but_be_said() -> None:
    assert usable("It may be Rome, I think.", 2, hint="Rome.") == "It may be Rome, I think."
    with pytest.raises(Unusable, match="copies_hint"):
        usable("It is Rome.", 2, hint="It is Rome.")
    assert usable("Rome.", 4, hint="Rome.", min_words=10) == "Rome."
    with pytest.raises(Unusable, match="too_short"):
        usable("Rome.", 4, min_words=10)
    with pytest.raises(Unusable, match="too_short"):
        usable("It may be Rome.", 3, hint="Rome.", min_words=10)


LONG_HINT = (
    "There are twelve rows of red boats on the long lake. Each of the rows has four boats with a white sail on it. "
    "So there are forty eight boats in all, and that is the number of people who may row them at once."
)


@pytest.mark.parametrize(
    "raw",
    [
        " ".join(LONG_HINT.split(". ")[0:1]) + ".",
        ". ".join(LONG_HINT.split(". ")[:2]) + ".",
        LONG_HINT,  # too long to be stored whole: its first two sentences would stand
        f"Well, it is quite simple: {LONG_HINT}",
        f"I think so. {LONG_HINT.split('. ')[1]}.",
        " ".join(LONG_HINT.replace(".", ",").split()[4:34]),  # more than 60% of it, sentences run together
    ],
)
@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_sentence_of_a_long_hint_is_a_copy_too(level: int, raw: str) -> None:
    with pytest.raises(Unusable, match="copies_hint"):
        usable(raw, level, hint=LONG_HINT)


def test_what_says_a_long_hint_in_other_words_stands() -> None:
    raw = "I think there are twelve rows, and each row has four boats, so forty eight."
    assert usable(raw, 3, hint=LONG_HINT) == raw
    assert usable(LONG_HINT, 4, hint=LONG_HINT) == ". ".join(LONG_HINT.split(". ")[:2]) + "."


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("I think it is Rome. It has stood there for", "I think it is Rome."),
        ("I think it is Rome. It has stood there.", "I think it is Rome. It has stood there."),
        ("I think it is Rome\nAnd then it", "I think it is Rome"),
        ("Sure, here it is:\n\nI think it is Rome. It has stood", "I think it is Rome."),
    ],
)
def test_of_an_answer_that_was_cut_the_half_sentence_is_left_out(raw: str, said: str) -> None:
    assert usable(raw, is_cut=True) == said


def test_an_answer_cut_in_its_first_sentence_is_none() -> None:
    assert usable("I think it has stood there for") == "I think it has stood there for"
    with pytest.raises(Unusable, match="cut_off"):
        usable("I think it has stood there for", is_cut=True)


def test_a_refusal_that_is_the_true_answer_is_none_where_it_was_shown() -> None:
    hint = "I cannot say that word."
    assert usable(hint, 4, hint=hint) == hint
    with pytest.raises(Unusable, match="refusal"):
        usable(hint, 0, hint=hint)


def test_words_of_a_foreign_tongue_that_a_speaker_said_are_no_foreign_answer() -> None:
    assert not is_english(["das", "ist", "der", "rhein"])
    assert is_english(["das", "ist", "der", "rhein"], {"das", "ist", "der"})
    assert is_english(["das", "ist", "der"])


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
    assert 1 <= len(split_words(text)) <= 12
