"""Checks that a new wording keeps numbers, names, negations, directions and the answer, and about the same length.

Words can be compared, meaning cannot: a wording with all the right words may still change who does what to whom.
"""

from typing import Final

from pipelines.meaning import find_names
from pipelines.wording.opposites import count_negations, find_opposites
from spoken.number_words import count_number_words, parse_number_words
from spoken.reader import read_aloud
from spoken.spoken_text import SpokenText, Unspeakable, find_last_words, split_lower_words, split_words

LEAST_SHARE: Final = 0.5
MOST_SHARE: Final = 1.6
"""Bounds of the new length as shares of the old one, in words; beyond them something was omitted or invented."""


class NotFaithful(Exception):
    """A wording that cannot replace the text it was made from; the message says why."""


def check_wording(raw_text: str, said: str, answer: str, *, must_answer: bool) -> SpokenText:
    """Checks that a model's wording keeps the meaning of a spoken text, and returns its spoken form.

    Args:
        raw_text: what the model wrote.
        said: the text in the rules' words.
        answer: the true answer in spoken form.
        must_answer: whether the new wording must contain the answer, or must not unless the old one did.

    Raises:
        NotFaithful: it cannot be spoken, is too short or too long, repeats the old words, has other numbers or another
            order of them, other names, more or fewer negations, words of another direction, is a question in place of a
            statement or the reverse, lacks the answer, or gives it away.
    """
    try:
        new = read_aloud(" ".join(raw_text.strip().strip('"').split()))
    except Unspeakable as refusal:
        raise NotFaithful(f"cannot be said, {refusal.reason}: {refusal.detail}") from refusal
    words, old, wanted = split_lower_words(new.text), split_lower_words(said), split_lower_words(answer)
    if not LEAST_SHARE * len(old) <= len(words) <= MOST_SHARE * len(old):
        raise NotFaithful(f"{len(words)} words for {len(old)}")
    if words == old:
        raise NotFaithful("the same words again")
    if (has := list_numbers(words)) != (had := list_numbers(old)):
        raise NotFaithful(f"numbers {has} for {had}")
    has_answer = find_last_words(wanted, words) is not None
    if must_answer and not has_answer:
        raise NotFaithful("without the answer")
    if not must_answer and has_answer and find_last_words(wanted, old) is None:
        raise NotFaithful("gives the answer away")
    _check_meaning(said, new.text)
    return new


def _check_meaning(said: str, new: str) -> None:
    """Checks that a wording keeps names, the number of negations, direction ("more", "less") and kind of sentence.

    Raises:
        NotFaithful: it does not.
    """
    words, old = split_lower_words(new), split_lower_words(said)
    if missing := sorted(list_kept_words(said) - set(map(_strip_possessive, words))):
        raise NotFaithful(f"without {', '.join(missing)}")
    if added := sorted(list_kept_words(new) - set(map(_strip_possessive, old))):
        raise NotFaithful(f"{', '.join(added)} is new")
    if (n_new := count_negations(words)) != (n_old := count_negations(old)):
        raise NotFaithful(f"{n_new} negations for {n_old}")
    if contrary := find_opposites(old, words):
        raise NotFaithful(f"points another way: {', '.join(contrary)}")
    if ("?" in said) != ("?" in new):
        raise NotFaithful("a question for a statement, or the other way round")


def list_numbers(words: list[str]) -> list[str]:
    """Returns the numbers in a list of spoken words, as digits and in order."""
    found: list[str] = []
    at = 0
    while at < len(words):
        n_words = count_number_words(words, at)
        if n_words:
            found.append(parse_number_words(words[at : at + n_words]))
        at += max(n_words, 1)
    return found


def list_kept_words(said: str) -> set[str]:
    """Returns the names, acronyms and letters of a spoken text but "I" and "A", in lower case and without "'s"."""
    capitals = {word for word in split_words(said) if _strip_possessive(word).isupper()} - {"I", "A"}
    return {_strip_possessive(word).lower() for word in find_names(said) | capitals}


def _strip_possessive(word: str) -> str:
    """Returns a word without "'s" at its end."""
    return word.removesuffix("'s")
