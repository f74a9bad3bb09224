"""Sentence splitting of written text, including text that is still being streamed.

The cascade speaks sentence by sentence, and only unspeakable sentences of an answer are left out
(`spoken.chat_answers`). Joining two sentences costs little, but a sentence split in two is garbled; so in case of doubt
no sentence ends.
"""

import re
from typing import Final

from spoken.rules.abbreviations import FULL, MAY_END, PLACES
from spoken.rules.rule import starts_sentence
from spoken.rules.unit_names import IRREGULAR, REGULAR, WORDS_AS_UNITS

_END: Final = re.compile(r"(?<![.?!…])(?P<stop>[.?!…]++)[\"'”’)\]*_`]*+(?=(?P<gap>\s+)(?P<next>\S*\s?))|\n")
_BEFORE_WORD: Final = re.compile(r"[\s(\[\"'“‘*_`/-]")
_LONGEST: Final = 40
"""Maximum length of a word before a point that does not end its sentence."""

_SIGNS: Final = frozenset("=+×÷/<>≤≥≠≈→")
"""Signs that continue a formula after a factorial or dots: "5! = 120"."""

_NEVER_ENDS: Final = frozenset({*FULL.keys() - MAY_END, "St", "v", "wt", "gr"})
_UNITS: Final = frozenset(each for each in (*REGULAR, *IRREGULAR) if each.isalpha()) - {*WORDS_AS_UNITS}
_ORDINARY: Final = re.compile(r"(?!(?:incl|govt|resp|temp|misc)\b)[a-z]{4,}|(?!Assoc\b|Calif\b|Corps\b)[A-Z][a-z]{4,}")
"""Form of a word after which a point ends a sentence, whatever follows. It includes names of five letters, so that a
cascade need not wait for the next word to say "It is Paris."."""
_INITIALS: Final = re.compile(r"\d*[A-Za-z](?:\.[A-Za-z])*")
_LISTED: Final = re.compile(r"\d{1,2}")


def find_sentence_end(text: str, start: int = 0) -> int | None:
    """Returns the index at which the sentence that starts at `start` ends, after its punctuation or line break.

    Returns None if no end is certain yet, because text may follow.

    The end of a line ends a sentence. A point does not after "Dr." or a list number, nor before a lower-case letter
    unless after an ordinary word; after "U.S.", "etc." or "5 ft." only if the next word typically begins sentences.
    """
    for end in _END.finditer(text, start):
        if end["stop"] is None:
            return end.end()
        if (ends := _is_sentence_end(text[start : end.start()], end["stop"], end["next"])) is None:
            return None
        if ends:
            return end.start("gap")
    return None


def _is_sentence_end(before: str, stop: str, following: str) -> bool | None:
    """Returns whether a mark ends a sentence; None if that depends on text that has not arrived yet.

    Args:
        before: the sentence up to the mark.
        stop: the mark, such as "." or "?!".
        following: the next word, with the space after it if that has arrived.
    """
    word = _BEFORE_WORD.split(before[-_LONGEST:])[-1]
    if (stop == "." and _is_ordinary(word)) or not ("." in stop or "…" in stop or re.search(r"[\d)]$", before)):
        return True
    if not following:
        return None
    if following[0].islower() or (stop != "." and following[0] in _SIGNS):
        return False
    return stop != "." or _is_point_sentence_end(before, word, following)


def _is_ordinary(word: str) -> bool:
    """Returns whether a point after a word always ends the sentence: it is no abbreviation and no unit."""
    return _ORDINARY.fullmatch(word) is not None and not (word in FULL or word in PLACES or word in _UNITS)


def _is_point_sentence_end(before: str, word: str, following: str) -> bool | None:
    """Returns whether a point after `word` ends a sentence; None if that depends on text that has not arrived yet."""
    is_numbered = word.lower() in PLACES and following[0] in "(0123456789"
    if word in _NEVER_ENDS or is_numbered or _is_listed(before, word):
        return False
    is_unit = word in _UNITS and re.search(r"\d[ -]?$", before[: -len(word)][-_LONGEST:]) is not None
    if not (is_unit or word in MAY_END or _INITIALS.fullmatch(word)):
        return True
    return starts_sentence(f" {following.rstrip(', ')} ") if following[-1].isspace() else None


def _is_listed(before: str, word: str) -> bool:
    """Returns whether a number before a point is that of a list: at the start, after ":" or ";", or the next number."""
    if _LISTED.fullmatch(word) is None:
        return False
    rest = before[: -len(word)].rstrip(" *_`")
    return not rest or rest.endswith((":", ";")) or re.search(rf"\b{int(word) - 1}\. ", rest) is not None


def split_sentences(text: str) -> list[str]:
    """Returns the sentences of a complete text, each with its punctuation and without surrounding spaces."""
    sentences, at = [], 0
    while (end := find_sentence_end(text, at)) is not None:
        sentences.append(text[at:end].strip())
        at = end
    return [each for each in (*sentences, text[at:].strip()) if each]
