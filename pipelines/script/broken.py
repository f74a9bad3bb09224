"""Detects text that lost spaces or full stops, or has misprints, so that it can be rejected; nothing is corrected."""

import re
from itertools import combinations
from typing import Final

from pipelines.vocabulary import SMALL_WORDS, is_frequent, is_misprint, is_word, split_run_together, stands_alone
from spoken.spoken_text import make_word_set

_SMALL_AT_EDGE: Final = re.compile(
    r"of(?!f)[a-z]{3,}|the(?!o|a|is|b|n|r[aeim]|s|t[ai])[a-z]{3,}|(?:that|where|which|what)[a-z]{3,}|[a-z]{3,}(?<!o)of|[a-z]+for"
)
"""A small word joined to an unknown word with letters that no term has there: "thephasor", "whereihas", "vapof"."""

_LETTER_BEHIND: Final = re.compile(r"([a-z]{6,})[bcfgjkpqvwxzi]|([a-z]+s)[bcdfgjlnrvxz]")
"""A variable joined to a frequent word: "frequencyf"."""

_LOST_STOP: Final = re.compile(
    r"[a-z] (?:It|He|She|They|We|What|How many|How much|Find|Calculate) [a-z]+|\. Where each\b"
    r"|(?:^(?!If [^.?]*\.$)|[.?] )(?:If (?:(?! (?:you|he|she|they|it|we|there|then) )[^,.?])+\.|What the [^,.?]*\?)"
)
"""A sentence that begins where none ended, or ends before its main clause: "the trial lasts long It is …"."""

_HYPHENATED: Final = re.compile(r"(?<![\w'-])([A-Za-z][a-z]+)- ?([a-z]{2,})(?![\w'-])")

_BEFORE_HYPHEN: Final = make_word_set("non co neo post bi anti semi gastro socio")
"""Prefixes that occur before rare words too, and hardly at a line's end."""

_SPELT: Final = re.compile(r"\b(?!a b c\b)[a-z](?: [a-z]){2,}\b")
_NO_WORD: Final = re.compile(
    r"\ba c cording\b|\b(?:th|nd|rd|dis|tion|tions|ing|ment|ments|ly|ness|ity|ance|ence)\b"
    r"|\b(?:sec|lbm?|lbs|hrs?|mol|cm|mm|kg|ft|ml|psia|rpm)\b"
    r"|\b[A-Z](?:for|when|with|from|where)\b|(?<=[a-z] )s (?:most|the|defined|given|called|used|found)\b"
    r"|\b[B-GJ-RU-Z]is\b|\b(?:one|two|half|quarters?|[a-z]+ths?) in[.?;]"
)
"""Text that no rule could read as a word or a unit: "t h e", "Wis", "a quarter in.", "ten sec"."""

_ARTICLE: Final = re.compile(r"(?:^|(?<=[.?!] ))A([a-z]{4,}) (?=[a-z])")
_FAIRLY_LONG: Final = 6
_LONG_NAME: Final = 9
_AFTER_NAME: Final = (("and",), ("has",), ("was",), ("is",), ("had",))

_DOUBLED: Final = re.compile(
    r"\b(the|an?|of|to|in|and|for|with|by|from|are|it|he|she) \1\b|(?-i:\bthe an?\b|\ban? (?:the|an?)\b)"
    r"|\b(?!that\b|very\b|plus\b|zero\b|three\b|four\b|five\b|seven\b|eight\b|nine\b|\w+ty\b)([a-z]{4,}) \2\b",
    re.IGNORECASE,
)


def find_broken_span(written: str, spoken: str) -> str | None:
    """Returns a span that shows that a written text is broken at its source; None if there is none.

    Such spans are several words without their spaces, words split at a line's end or with a wrong letter, missing full
    stops, and repeated small words. Only rows of data sets are judged so, of which there are others; a live answer is
    spoken as it is.
    """
    if found := _LOST_STOP.search(spoken) or _NO_WORD.search(spoken):
        return found[0]
    for doubled in _DOUBLED.finditer(spoken):
        if f"{doubled[2]}-{doubled[2]}" not in written:  # "a carbon-carbon bond"
            return doubled[0]
    if spelt := next((each for each in _SPELT.finditer(spoken) if is_word(each[0].replace(" ", ""))), None):
        return spelt[0]
    for article in _ARTICLE.finditer(spoken):
        if is_word(article[1]) and not is_word(f"a{article[1]}"):
            return article[0].strip()
    if twin := _find_misspelt_name(spoken):
        return twin
    if cut := next(filter(_is_cut, _HYPHENATED.finditer(written)), None):
        return cut[0]
    words = re.findall(r"(?<![\w'-])[A-Za-z][a-z]+(?![\w'-])", spoken)
    return next((word for word in words if (_is_broken(word) if word.islower() else _is_broken_name(word))), None)


def _is_broken(word: str) -> bool:
    """Returns whether a lower-case word is a misprint, several joined words, or a word with a variable joined to it."""
    if is_word(word):
        return False
    behind = _LETTER_BEHIND.fullmatch(word)
    return (
        bool(split_run_together(word))
        or is_misprint(word)
        or _SMALL_AT_EDGE.fullmatch(word) is not None
        or (behind is not None and (is_word(behind[2]) if behind[2] else is_frequent(behind[1])))
    )


def _is_broken_name(word: str) -> bool:
    """Returns whether a capitalised word is several joined words: "Aspaceship", "Lewisand", but not "Legoland"."""
    if len(word) < _FAIRLY_LONG or is_word(word.lower()):
        return False
    parts = split_run_together(word.lower())
    if len(word) < _LONG_NAME:
        return parts[1:] in _AFTER_NAME
    return len(parts) > 2 or any(part in SMALL_WORDS for part in parts)


def _find_misspelt_name(spoken: str) -> str | None:
    """Returns a name that occurs in two spellings, "Ariella" and "Arialla"; None if there is none."""
    names = sorted(set(re.findall(r"\b[A-Z][a-z]{4,}\b", spoken)))
    pairs = ((left, right) for left, right in combinations(names, 2) if left[0] == right[0] and len(left) == len(right))
    return next((left for left, right in pairs if _differ_once(left, right)), None)


def _differ_once(left: str, right: str) -> bool:
    """Returns whether two texts of one length differ in one letter and are not both words."""
    is_once = sum(map(str.__ne__, left, right)) == 1
    return is_once and not (is_word(left.lower()) and is_word(right.lower()))


def _is_cut(match: re.Match[str]) -> bool:
    """Returns whether a hyphen splits one word, as at a line's end: "mul-tiplier", "dis- tance", but not "two-part"."""
    left, right = match[1].lower(), match[2]
    is_right_whole = is_word(right) if left in _BEFORE_HYPHEN else stands_alone(right.removesuffix("s"))
    return is_word(left + right) and not (stands_alone(left) and is_right_whole)
