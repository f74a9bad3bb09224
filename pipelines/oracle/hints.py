"""What of the true answer a prompt shows: all of it, notes of it, or a few words.

A small model that sees a whole sentence says it again, whatever it is told. So a prompt set can show it less: the words
that tell something, without those that hold the sentence together. It then has to make a sentence of its own. Of a
short answer, too, each form shows less than the next: of one word, only `notes` and `hint` show it.

Requests are decided here as well as by the prompt files: who changes what is shown raises `OracleStage.version`.
"""

import re
from collections.abc import Sequence

from spoken.spoken_text import make_word_set, split_words

HINT_FIELDS = ("hint", "notes", "half_notes", "keywords")
"""Names that levels 1 to 4 of a prompt set may put in braces."""

_PIECE = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*|[,.?!;:]")
_HOLDING = make_word_set(
    "a an the this that these those there their they them he she it its his her him we you your i my me our us "
    "is are was were be been being am do does did done has have had having will would should could can may might must "
    "and or but so because then than as if when while where which who what whose how why of in on at by for from to "
    "into onto with about over under after before between during through each both only also just very such "
    "it's that's he's she's there's"
)
"""Words that hold a sentence together and tell nothing of an answer."""
_SAYING_LITTLE = make_word_set("answer correct right total makes equals sum more")
"""Telling words that are no keywords of an answer."""
N_KEYWORDS = 2
NO_NOTES = "none"
"""Shown where the true answer has no such words."""


def make_hint_fields(hint: str, heard: str) -> dict[str, str]:
    """The true answer in each form that a prompt may show, by name."""
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
    """The first telling words of the true answer that the user has not said: two, and no more than a third of all."""
    said = {word.lower() for word in split_words(heard)}
    telling: dict[str, str] = {}
    every = _find_content_words(split_words(hint))
    for word in every:
        if len(word) > 3 and word.lower() not in said | _SAYING_LITTLE:
            telling.setdefault(word.lower(), word)
    return list(telling.values())[: min(N_KEYWORDS, len(every) // 3)]


def _find_content_words(words: Sequence[str]) -> list[str]:
    return [word for word in words if word.lower() not in _HOLDING]


def _make_notes(hint: str) -> list[str]:
    """The telling words of a text, in order; those that stand side by side are one note."""
    notes: list[list[str]] = [[]]
    for piece in _PIECE.findall(hint):
        if piece.lower() in _HOLDING or not piece[0].isalpha():
            notes.append([])
        else:
            notes[-1].append(piece)
    return [" ".join(note) for note in notes if note]


def _keep_half(notes: Sequence[str]) -> list[str]:
    """Every second note, and of a lone one the first half of its words: never more than half."""
    if len(notes) == 1:
        words = notes[0].split()
        return [" ".join(words[: len(words) // 2])] if len(words) > 1 else []
    return list(notes[1::2])
