"""Reduces the true answer to what a prompt shows of it: all of it, notes of it, or a few keywords.

A small model that sees a whole sentence repeats it, whatever the instruction is. So a prompt set can show less: the
content words, without those that hold the sentence together. The model then has to make a sentence of its own. Of a
short answer, too, each form shows less than the next: of one word, only `notes` and `hint` show it.

Like the prompt files, this determines requests: a change of what is shown requires a new `OracleStage.version`.
"""

import re
from collections.abc import Sequence

from spoken.spoken_text import make_word_set, split_words

HINT_FIELDS = ("hint", "notes", "half_notes", "keywords")
"""Names that levels 1 to 4 of a prompt set may use in braces."""

_PIECE = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*|[,.?!;:]")
_HOLDING = make_word_set(
    "a an the this that these those there their they them he she it its his her him we you your i my me our us "
    "is are was were be been being am do does did done has have had having will would should could can may might must "
    "and or but so because then than as if when while where which who what whose how why of in on at by for from to "
    "into onto with about over under after before between during through each both only also just very such "
    "it's that's he's she's there's"
)
"""Function words, which hold a sentence together and say nothing about an answer."""
_SAYING_LITTLE = make_word_set("answer correct right total makes equals sum more")
"""Content words that are not keywords of an answer."""
N_KEYWORDS = 2
NO_NOTES = "none"
"""Shown if the true answer has no such words."""


def make_hint_fields(hint: str, heard: str) -> dict[str, str]:
    """Returns the forms of the true answer that a prompt may show, by their names in `HINT_FIELDS`.

    Args:
        hint: the true answer.
        heard: what the user has said so far; its words are no keywords.
    """
    notes = _make_notes(hint)
    shown = {
        "hint": hint,
        "notes": ", ".join(notes) or NO_NOTES,
        "half_notes": ", ".join(_keep_half(notes)) or NO_NOTES,
        "keywords": ", ".join(find_keywords(hint, heard)) or NO_NOTES,
    }
    assert tuple(shown) == HINT_FIELDS
    return shown


def find_keywords(hint: str, heard: str) -> list[str]:
    """Returns the first content words of the true answer that the user has not said.

    They are at most two, at most a third of all content words, and longer than three letters.
    """
    said = {word.lower() for word in split_words(heard)}
    telling: dict[str, str] = {}
    every = _find_content_words(split_words(hint))
    for word in every:
        if len(word) > 3 and word.lower() not in said | _SAYING_LITTLE:
            telling.setdefault(word.lower(), word)
    return list(telling.values())[: min(N_KEYWORDS, len(every) // 3)]


def _find_content_words(words: Sequence[str]) -> list[str]:
    """Returns the words without function words, such as "the" or "is"."""
    return [word for word in words if word.lower() not in _HOLDING]


def _make_notes(hint: str) -> list[str]:
    """Returns the content words of a text, in order; those without another word or a mark between them are one note."""
    notes: list[list[str]] = [[]]
    for piece in _PIECE.findall(hint):
        if piece.lower() in _HOLDING or not piece[0].isalpha():
            notes.append([])
        else:
            notes[-1].append(piece)
    return [" ".join(note) for note in notes if note]


def _keep_half(notes: Sequence[str]) -> list[str]:
    """Returns every second note from the second one on, or the first half of the words of a single note."""
    if len(notes) == 1:
        words = notes[0].split()
        return [" ".join(words[: len(words) // 2])] if len(words) > 1 else []
    return list(notes[1::2])
