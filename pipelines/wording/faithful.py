"""Whether a new wording says the same: numbers, names and the answer survive, and its length is near the old one's."""

from typing import Final

from data_schemas.number_words import number_at, value_of
from pipelines.script.speakable import read_aloud
from pipelines.script.spoken import Spoken, Unspeakable, last_place, lowered_words, spoken_words

LEAST_SHARE: Final = 0.5
MOST_SHARE: Final = 1.6
"""Bounds of the new length as shares of the old one, in words: beyond them something was left out or made up."""


_NEGATIONS: Final = frozenset({"no", "not", "never", "none", "neither", "nor", "without", "except", "minus", "cannot"})


class NotFaithful(Exception):
    """A wording that cannot stand for the text it was made from; the message says why."""


def faithful(raw_text: str, said: str, answer: str, *, must_answer: bool) -> Spoken:
    """A model's wording of a spoken text, as it will be said.

    Args:
        raw_text: what the model wrote.
        said: the text in the rules' words.
        answer: the true answer as it is said.
        must_answer: whether the new wording must hold the answer, or must not hold it where the old one did not.

    Raises:
        NotFaithful: not speakable, too short or long, numbers, names or negations that are not the old ones in their
            order, without the answer, giving it away, or the old words again.
    """
    try:
        new = read_aloud(" ".join(raw_text.strip().strip('"').split()))
    except Unspeakable as refusal:
        raise NotFaithful(f"cannot be said, {refusal.reason}: {refusal.detail}") from refusal
    words, old, wanted = lowered_words(new.text), lowered_words(said), lowered_words(answer)
    if not LEAST_SHARE * len(old) <= len(words) <= MOST_SHARE * len(old):
        raise NotFaithful(f"{len(words)} words for {len(old)}")
    if words == old:
        raise NotFaithful("the same words again")
    if (has := numbers_of(words)) != (had := numbers_of(old)):
        raise NotFaithful(f"numbers {has} for {had}")
    if missing := sorted(set(names_of(said)) - set(words)):
        raise NotFaithful(f"without {', '.join(missing)}")
    if (n_new := sum(map(is_negation, words))) != (n_old := sum(map(is_negation, old))):
        raise NotFaithful(f"{n_new} negations for {n_old}")
    if ("?" in said) != ("?" in new.text):
        raise NotFaithful("a question for a statement, or the other way round")
    has_answer = last_place(wanted, words) is not None
    if must_answer and not has_answer:
        raise NotFaithful("without the answer")
    if not must_answer and has_answer and last_place(wanted, old) is None:
        raise NotFaithful("gives the answer away")
    return new


def numbers_of(words: list[str]) -> list[str]:
    """The values of all runs of number words, in their order: who has five and gives two does not have two."""
    found: list[str] = []
    at = 0
    while at < len(words):
        n_words = number_at(words, at)
        if n_words:
            found.append(value_of(words[at : at + n_words]))
        at += max(n_words, 1)
    return found


def is_negation(word: str) -> bool:
    """Whether a word, in small letters, turns its sentence into the opposite."""
    return word in _NEGATIONS or word.endswith("n't")


def names_of(said: str) -> set[str]:
    """Words with a capital that no sentence begins with, in small letters; "I" is no name."""
    tokens = said.split()
    inside = [word for before, word in zip([".", *tokens], tokens, strict=False) if before[-1] not in ".?!"]
    return {each.lower() for word in inside if word[0].isupper() for each in spoken_words(word)} - {"i", "i'm", "i'll"}
