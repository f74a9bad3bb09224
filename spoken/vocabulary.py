"""English words, by the CMU Pronouncing Dictionary that ships with pocketsphinx; words that lost a space or broke at a
line's end are mended by it.

A word that the dictionary does not have may be a term of science, so it is parted only where one reading is left:
"ofthe", "temperatureof", "theparcel", "electromagneticradiation", but neither "chitin" nor "asymptomatic".
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from spoken.segments import are_frequent, are_small, is_likelier, is_listed, segmented
from spoken.spoken_text import word_set
from spoken.written.traced import Traced

_SURE_FIRST: Final = word_set(
    "the of and this that these which with from what is was has how must why their been between it"
)
_SURE_LAST: Final = word_set(
    "of the to and by for from with that this than has have between through which should may are will would their "
    "those where what"
)
_SURE_INSIDE: Final = word_set("the of and with from between through")
_LAST_AFTER_LONG: Final = word_set("is in at on as be it if")
"""Ends of many words of Latin and Greek ("albumin", "vaginalis"), so they are parted only from longer words."""

_FUNCTION: Final = (
    word_set(
        "a an as at be can if in is it its on or to for what when then they who our all but nor does did not into there"
    )
    | _SURE_FIRST
    | _SURE_LAST
)
_FIRST_IF_BROKEN: Final = word_set("a an be can for to its if on or than")
_LAST_IF_BROKEN: Final = _LAST_AFTER_LONG | {"a"}
"""Words parted only in texts that lost spaces elsewhere too."""

_SHORT_CONTENT: Final = word_set("two one six ten air gas man sum oil law car day new old use end sea sun area")

_SHORTEST: Final = 4
_LONG: Final = 6
_FAIRLY_LONG: Final = 5
_VERY_LONG: Final = 7
_LONGEST: Final = 48
_ENDINGS: Final = tuple(
    (ending, stem)
    for stem, endings in {"": "s es ed d ing ly al ally ity able ness ic", "e": "ed ing able"}.items()
    for ending in endings.split()
)
_CUT: Final = word_set("con com dia dis re im trans sur ob ab ac per en in de pro")
_AFTER_CUT: Final = word_set(
    "sign signed signs form formed cover covered creation create creates lay press pressed sent count counts fuse "
    "bound "
    "store stored mark marked dress lease serve served treat treated turn turned edit law laws house depth line lines "
    "shore country state group patient"
)
"""What stands after "re-" or "in-" with a hyphen of its own: "re-sign" is not "resign"."""

_BOUND: Final = word_set(
    "proto pseudo semi poly tri hyper endo thermo hydro electro inter intra psycho neuro tetra penta chloro cyto immuno"
)
"""Beginnings of words that are none by themselves, though lists of words have them."""
_NEVER: Final = word_set("induration seisin offence offences hereof thereof whereof therefor")
_SUFFIXES: Final = word_set(
    "ture tures ance ence able ably ing ed er ers ly ment ments ness tion tions sion ous ity ive al ally ism ist "
    "arianism oration"
)
_PREFIXES: Final = word_set("re un de ex bi no so up by we my me he go do us am pre non pro sub anti")
_UNKNOWN: Final = re.compile(r"(?<![\w'\\^_{$-])[a-z]{4,48}(?![\w'^_}-])")
_GLUED_OF: Final = re.compile(r"(?<![\w'-])of((?![ft])[a-z]{9,40})(?![\w'-])")
"""No word of the dictionary that begins so goes on with another letter than these and is as long."""

_GLUED_FIRST: Final = re.compile(
    r"(?<![\w'-])(The|What|Which|How|When|Where|Find|If|Using|Assume|Calculate|With|For|This|There)[a-z]{2,40}(?![\w'-])"
)
_GLUED_NOUN: Final = re.compile(
    r"(?<![\w'-])([a-z]{3,}(?:ity|tion|sion|ness|ment|ance|ence|ism))(of|is|in|and|for|due|to|at|as)(?![\w'-])"
)
_GLUED_NAME: Final = re.compile(
    r"(?<![\w'-])([A-Z][a-z]{3,})(number|barrier|method|equation|effect|theory|cycle|constant|principle|model|process"
    r"|approximation|distribution|theorem|formula)(?![\w'-])"
)
_AFTER_UNIT: Final = re.compile(
    r"(?<=\d)([ -]?)([Pp]sia?|psig|lbm|lbf|lbs?|cms?|mm|nm|km|kg|mg|gms?|ft|rpm|mph|atm|sec|hrs?|min|ml|[kM]eV|Mev|mW"
    r"|[kM]?Pa|[kKM]?Hz|diopters?|rad|amu|[kK]?cal|Btu|BTU|kmol)([a-z]{2,30})(?![\w^-])"
)
_AFTER_POWER: Final = re.compile(r"(?<=\^\d)([a-z])(where|when|and|for|is)\b")
_BROKEN_AT_HYPHEN: Final = re.compile(r"(?<![\w'-])([A-Za-z][a-z]+)- ?([a-z]{2,})(?![\w'-])")


@cache
def _words() -> frozenset[str]:
    """The dictionary's 125,000 words of letters alone, in lower case."""
    from pocketsphinx import get_model_path

    lines = Path(get_model_path("en-us/cmudict-en-us.dict")).read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if (word := line.partition(" ")[0]).isalpha() and word.isascii())


def is_word(word: str) -> bool:
    """Whether a word in lower case, or what an ending was added to, is in the dictionary or the larger list."""
    words = _words()
    return (
        is_listed(word)
        or word in words
        or any(
            word.endswith(ending) and len(word) >= len(ending) + 3 and word[: -len(ending)] + stem in words
            for ending, stem in _ENDINGS
        )
    )


def is_content(part: str, shortest: int = _SHORTEST) -> bool:
    """Whether a part of a word is in the dictionary itself and long enough to be no chance find."""
    return len(part) >= shortest and part in _words()


def _in_two(word: str, is_broken: bool) -> Iterator[tuple[str, ...]]:
    for at in range(1, len(word)):
        left, right = word[:at], word[at:]
        is_bolder = is_broken and (_begins(left, right) or _ends(left, right))
        if is_bolder or _is_pair(left, right) or _are_long(left, right, _FAIRLY_LONG if is_broken else _LONG):
            yield left, right


def _is_pair(left: str, right: str) -> bool:
    """Two words, at least one of them such a small word that the other cannot have begun or ended with it by chance."""
    if left in _FUNCTION and right in _FUNCTION:
        return True
    if left in _SURE_FIRST and is_content(right, _FAIRLY_LONG if left == "is" else _SHORTEST):
        return True
    if left == "the" and len(right) >= _FAIRLY_LONG and is_word(right):
        return True
    if right in _SURE_LAST and is_content(left):
        return True
    if right in _LAST_AFTER_LONG and is_content(left, _LONG):
        return not left.endswith("al")
    return _short(left, right) or _are_very_long(left, right)


def _short(left: str, right: str) -> bool:
    return left in {"the", "of"} and right in _SHORT_CONTENT


def _begins(left: str, right: str) -> bool:
    return (left in _FIRST_IF_BROKEN and is_content(right)) or (
        left in {"in", "as", "at"} and is_content(right, _LONG) and not right.endswith(("ity", "ible", "able"))
    )


def _ends(left: str, right: str) -> bool:
    return right in _LAST_IF_BROKEN and (is_content(left, _FAIRLY_LONG) or (right != "a" and is_content(left)))


def _are_long(left: str, right: str, shortest: int) -> bool:
    are_words = is_content(left, shortest) and is_content(right, shortest) and right not in _SUFFIXES
    return are_words and are_frequent((left, right))


def _are_very_long(left: str, right: str) -> bool:
    """Two words of the larger list, so long that no term is made of them: "angularmomenta"."""
    return min(len(left), len(right)) >= _VERY_LONG and is_word(left) and is_word(right)


def _in_three(word: str) -> Iterator[tuple[str, ...]]:
    for first in range(1, len(word) - 1):
        for last in range(first + 1, len(word)):
            left, middle, right = word[:first], word[first:last], word[last:]
            long = [is_content(part, _FAIRLY_LONG) for part in (left, middle, right)]
            starts, ends = left in _SURE_FIRST or left in _FIRST_IF_BROKEN, right in _SURE_LAST
            if (
                (left in _FUNCTION and middle == "the" and long[2])
                or (starts and long[1] and (ends or long[2]))
                or (left == "the" and len(middle) >= _FAIRLY_LONG and is_word(middle) and is_content(right))
                or (long[0] and long[1] and ends)
                or (long[0] and middle in _SURE_INSIDE and long[2])
            ):
                yield left, middle, right


@lru_cache(maxsize=20_000)
def parted(word: str, is_broken: bool = False) -> tuple[str, ...]:
    """The words that were run together in an unknown word of lower case; the word alone where that is not sure.

    Args:
        is_broken: whether its text has surely lost spaces elsewhere; then less sure partings are made.
    """
    if word in _NEVER or len(word) > _LONGEST or is_word(word):
        return (word,)
    if are_small(pieces := segmented(word, is_broken=True)) and len(pieces) > 1:
        return pieces
    found = list(_in_two(word, is_broken)) or list(_in_three(word))
    if len(found) > 1:
        found = [parts for parts in found if any(part in _FUNCTION for part in parts)] or found
    if len(found) > 1:
        found = [parts for parts in found if parts[0] == "the"]
    return found[0] if len(found) == 1 else _with_prefixes_joined(segmented(word, is_broken))


def _with_prefixes_joined(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Parts in which a beginning that is no word by itself stands with the rest of its word: "protoplasms"."""
    kept: list[str] = []
    for part in parts:
        if kept and kept[-1] in _BOUND and (is_word(kept[-1] + part) or is_word((kept[-1] + part).removesuffix("s"))):
            kept[-1] += part
        else:
            kept.append(part)
    return tuple(kept)


def part_words(text: Traced, is_broken: bool = False) -> Traced:
    """Spaces put back into words that lost them, and words put together that broke at a line's end.

    Args:
        is_broken: whether the text has surely lost spaces where this does not look.
    """
    if "-" in text.text:
        text = text.sub(_BROKEN_AT_HYPHEN, _put_together)
    text = text.sub(_AFTER_UNIT, _part_unit).sub(_AFTER_POWER, r"\1 \2")
    parted_first = text.sub(_GLUED_FIRST, _part_first)
    unknown = [word for word in _UNKNOWN.findall(text.text) if word not in _words()]
    is_broken = is_broken or parted_first.text != text.text or any(len(parted(word)) > 1 for word in unknown)
    text = parted_first.sub(_GLUED_OF, r"of \1").sub(_GLUED_NOUN, r"\1 \2").sub(_GLUED_NAME, _part_named)
    return text.sub(_UNKNOWN, lambda match: " ".join(parted(match[0], is_broken)))


def _part_first(match: re.Match[str]) -> str:
    """A sentence's first word, an article or the like, with others run into it; other capitals may begin names."""
    pieces = parted(match[0].lower(), is_broken=True)
    return " ".join(pieces).capitalize() if pieces[0] == match[1].lower() else match[0]


def _part_named(match: re.Match[str]) -> str:
    """ "Nusseltnumber": what bears somebody's name."""
    return match[0] if is_word(match[0].lower()) else f"{match[1]} {match[2]}"


def _part_unit(match: re.Match[str]) -> str:
    """ "20cmslong", "15psiaand": a unit and the word after it."""
    gap, unit, rest = match.groups()
    is_sure = rest in _FUNCTION or is_content(rest) or len(parted(rest, is_broken=True)) > 1
    if (gap and unit + rest in _words()) or not is_sure:
        return match[0]
    rest = " ".join(parted(rest, is_broken=True))
    return f"{gap}{'cm' if unit == 'cms' else unit} {rest}"


def _put_together(match: re.Match[str]) -> str:
    """ "mul-tiplier" and "repay-able" are one word, "two-part" and "re-sign" are not."""
    left, right = match[1].lower(), match[2]
    if " " in match[0] and right in _FUNCTION:
        return match[0]  # "mono- and disaccharides"
    if not is_word(left) and len(pieces := parted(left + right)) > 1 and len(pieces[0]) > len(left):
        return f"{match[1]}{' '.join(pieces)[len(left) :]}"  # "contrib-uteto"
    is_cut = left in _CUT and right not in _AFTER_CUT
    is_known = left + right in _words() or (left not in _PREFIXES and is_word(left + right))
    is_one = is_known and (
        is_cut
        or " " in match[0]
        or right in _SUFFIXES
        or not _stands_alone(left)
        or not _stands_alone(right)
        or (left not in _PREFIXES and is_likelier(left + right, (left, right)))
    )
    return match[1] + right if is_one else match[0]


def _stands_alone(part: str) -> bool:
    return part in _FUNCTION or part in _PREFIXES or (len(part) > 2 and part in _words())
