"""A streamed answer is filtered to what training would have kept, as soon as that is certain."""

import pytest

from spoken.oracle_text import OracleTextFilter, UnusableAnswer, count_usable_words
from spoken.refusals import find_refusal

FOUR = (
    "It is the liver that cleans the blood of all those who live.",
    "It takes out whatever the body cannot use, and it never rests.",
    "Doctors have known so for about two hundred years now.",
    "And that is why nobody lives long without one in the body.",
)


def whispered(text: str, max_words: int = 30, *, is_cut: bool = False) -> list[str]:
    """What leaves with each word, and at the end."""
    stream = OracleTextFilter(max_words)
    return [*(stream.add_words(word) for word in text.split()), stream.finish(is_cut=is_cut)]


@pytest.mark.parametrize(
    ("said", "is_ended", "n_words"),
    [
        ("It is far. It is", True, 5), ("It is far. It is", False, 3), ("It is far. It is very far.", True, 3),
        ("It is far away from here. Yes.", True, 0), ("It is", False, 0), ("", True, 0),
    ],
)  # fmt: skip
def test_of_an_answer_count_the_words_of_whole_sentences_that_fit(said: str, is_ended: bool, n_words: int) -> None:
    assert count_usable_words(said.split(), 5, is_ended=is_ended) == n_words


def test_whole_sentences_as_far_as_they_fit() -> None:
    text = " ".join(FOUR)
    assert "".join(whispered(text)).strip() == " ".join(FOUR[:2])
    stream = OracleTextFilter(30)
    stream.add_words(text)
    assert stream.is_over
    assert len("".join(whispered("so it goes on and " * 20)).split()) == 30, "a first sentence that is too long"


def test_the_first_sentence_leaves_word_by_word_and_later_ones_whole() -> None:
    left = whispered("The liver does. It takes out much. And so")
    assert left == ["The ", "liver ", "does. ", "", "", "", "It takes out much. ", "", "", "And so "]


def test_half_a_sentence_of_an_answer_that_was_cut_is_left_out_and_what_is_nothing_else_is_unfit() -> None:
    assert "".join(whispered("The liver does. It takes out", is_cut=True)) == "The liver does. "
    assert "".join(whispered("The liver does. It takes out much.", is_cut=True)).endswith("much. ")
    stream = OracleTextFilter(30)
    assert stream.add_words("I'm") == ""
    with pytest.raises(UnusableAnswer, match="cut off"):
        stream.finish(is_cut=True)


@pytest.mark.parametrize(
    "answer",
    [
        "I'm sorry, but I cannot help with that.", "I am very sorry, I do not have that.",
        "Apologies, but there is nothing here to be said.", "As an AI, I have no view of it.",
        "I am just an AI and know nothing of this.", "I cannot help you with such a question.",
        "I won't answer that, for it is a trick.", "I don't have enough information about this farm.",
        "Please provide the rest of the question now.", "Could you please repeat the question for me?",
        "There is not enough information in it.", "As a voice assistant, I have never seen one.",
        "There is more information to be given first.",
    ],
)  # fmt: skip
def test_no_word_of_a_refusal_is_whispered(answer: str) -> None:
    assert find_refusal(answer)
    stream, left = OracleTextFilter(30), ""
    words = answer.split()
    while not stream.is_over and words:
        try:
            left += stream.add_words(words.pop(0))
        except UnusableAnswer as error:
            left += f"<{error}>"
    left, mark, _ = left.partition("<The chat model refuses to answer.>")
    assert mark
    assert left in ("", "There is ")
    assert stream.is_over


@pytest.mark.parametrize(
    ("answer", "n_held"),
    [
        ("I think it is one of the big planets.", 1),
        ("I can see that it is sixty.", 1),
        ("It is sixty, as anybody would have said.", 1),
        ("Sorry is what people say to be kind.", None),
        ("The answer is about thirty sheep.", 0),
    ],
)
def test_what_only_begins_like_a_refusal_is_held_back_for_a_word(answer: str, n_held: int | None) -> None:
    stream, most = OracleTextFilter(30), 0
    words = answer.split()
    try:
        n_out = 0
        for number, word in enumerate(words, 1):
            n_out += len(stream.add_words(word).split())
            most = max(most, number - n_out)
    except UnusableAnswer:
        assert n_held is None
    else:
        assert most == n_held
