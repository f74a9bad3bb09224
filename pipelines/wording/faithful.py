"""Whether a new wording says the same: numbers, names and the answer survive, and its length is near the old one's."""

from collections import Counter
from typing import Final

from pipelines.quality.number_words import number_at, value_of
from pipelines.script.speakable import read_aloud
from pipelines.script.spoken import Spoken, Unspeakable, spoken_words

LEAST_SHARE: Final = 0.5
MOST_SHARE: Final = 1.6
"""Bounds of the new length as shares of the old one, in words: beyond them something was left out or made up."""


class NotFaithful(Exception):
    """A wording that cannot stand for the text it was made from; the message says why."""


def faithful(raw_text: str, said: str, answer: str | None) -> Spoken:
    """A model's wording of a spoken text, as it will be said.

    Args:
        raw_text: what the model wrote.
        said: the text in the rules' words.
        answer: the true answer as it is said, which must stand in the new wording; None for a question.

    Raises:
        NotFaithful: not speakable, too short or long, another number or a name missing, without the answer, or the
            old words again.
    """
    try:
        new = read_aloud(" ".join(raw_text.strip().strip('"').split()))
    except Unspeakable as refusal:
        raise NotFaithful(f"cannot be said, {refusal.reason}: {refusal.detail}") from refusal
    words, old = _lower(new.text), _lower(said)
    if not LEAST_SHARE * len(old) <= len(words) <= MOST_SHARE * len(old):
        raise NotFaithful(f"{len(words)} words for {len(old)}")
    if words == old:
        raise NotFaithful("the same words again")
    if (has := numbers_of(words)) != (had := numbers_of(old)):
        raise NotFaithful(f"numbers {sorted(has.elements())} for {sorted(had.elements())}")
    if missing := sorted(names_of(said) - set(words)):
        raise NotFaithful(f"without {', '.join(missing)}")
    if ("?" in said) != ("?" in new.text):
        raise NotFaithful("a question for a statement, or the other way round")
    if answer is not None and position(_lower(answer), words) is None:
        raise NotFaithful("without the answer")
    return new


def numbers_of(words: list[str]) -> Counter[str]:
    """The values of all runs of number words, each as often as it is said."""
    found: Counter[str] = Counter()
    at = 0
    while at < len(words):
        n_words = number_at(words, at)
        if n_words:
            found[value_of(words[at : at + n_words])] += 1
        at += max(n_words, 1)
    return found


def names_of(said: str) -> set[str]:
    """Words with a capital that no sentence begins with, in small letters; "I" is no name."""
    tokens = said.split()
    inside = [word for before, word in zip([".", *tokens], tokens, strict=False) if before[-1] not in ".?!"]
    return {each.lower() for word in inside if word[0].isupper() for each in spoken_words(word)} - {"i", "i'm", "i'll"}


def position(wanted: list[str], words: list[str]) -> int | None:
    """Where some words stand in others, both in small letters; None where they do not."""
    starts = range(len(words) - len(wanted) + 1)
    return next((at for at in starts if words[at : at + len(wanted)] == wanted), None)


def _lower(said: str) -> list[str]:
    return [word.lower() for word in spoken_words(said)]
