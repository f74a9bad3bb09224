"""Questions and answers that a listener could not follow: they point at something that is not said."""

import re
from typing import Final

from data_schemas.records import Item

REASONS: Final = frozenset(
    {
        "needs_options",  # cannot be answered without its options, and they are too many or too long to be read out
        "answer_refers_to_options",  # "all of the above", "A and B"
        "needs_picture",  # speaks of a picture, table or figure
        "many_blanks",  # two or more blanks to fill in: a listener cannot tell which word goes where
        "needs_writing",  # asks for or about something written: programs, logical formulas
        "not_a_question",  # no question found in it
        "question_too_long",
        "answer_too_long",
    }
)
"""Why an item cannot be asked aloud, beside the reasons of `spoken.REASONS`."""


class NotAskable(Exception):
    """An item that cannot be asked and answered aloud.

    Args:
        reason: one of `REASONS`.
        detail: the span that shows it.
    """

    def __init__(self, reason: str, detail: str) -> None:
        if reason not in REASONS:
            raise ValueError(f"{reason!r} is no reason for refusing an item; they are {sorted(REASONS)}")
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail

    def __reduce__(self) -> tuple[type["NotAskable"], tuple[str, str]]:
        return type(self), (self.reason, self.detail)


_VISUAL: Final = (
    "(?:picture|image|figure|diagram|cartoon|graph|chart|map|photo|photograph|painting|table|illustration|exhibit"
    "|drawing|poster|sketch|circuit|plot|matrix|histogram|schedule)"
)


def any_of(*patterns: str, flags: re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
    """One pattern of several, one a line where they are listed."""
    return re.compile("|".join(patterns), flags)


_POINTS_AT_PICTURE: Final = any_of(
    rf"\b{_VISUAL}s? (?:above|below|shown|at (?:the )?(?:right|left)|on the (?:right|left)|shows|depicts)\b",
    rf"\b(?:above|below|following|accompanying|attached|preceding) {_VISUAL}s?\b",
    rf"\b(?:shown|pictured|depicted|illustrated|sketched|drawn|given) in the {_VISUAL}\b",
    r"\b(?:shown|pictured|depicted|illustrated|sketched|drawn|listed|tabulated|given) (?:below|above|here)\b",
    r"\bas shown\b",
    r"\bshaded (?:area|region|part)\b",
    r"\bthe (?:figure|diagram|cartoon|illustration)\b",
    r"\b(?:see|refer to|in|from) fig\.",
    r"\b(?:Table|Figure|Fig\.|Exhibit|Scenario) ?\d+(?:[-.]\d+)?(?! and table)\b",
)
"""For items without a picture, where "table" and "picture" are mostly things."""

_SPEAKS_OF_PICTURE: Final = any_of(
    rf"\b(?<!\bpublic )(?!figures? of speech\b){_VISUAL}s?\b",
    r"\b(?:shown|depicted|pictured|displayed|portrayed|observ(?!ed that\b)\w+|look(?:ing)? at|visible)\b",
    r"\b(?:scene|artifact|scenario)\b",
    r"\b(?:above|below|here|left|right|background|foreground|labell?ed|shaded|panel)\b",
    r"\bcurves? (?:[A-Z]\w{0,2}|illustrates?|represents?|shows?|looks?|has|have|shift\w*)\b",
    r"\brepresents?\b.*\brepresents?\b",
    r"\b(?:these|those|this (?!year|time|question|sentence|case)\w+)\b",
    r"\b(?:painters?|artists?|author|decorative|embroider\w+|murals?|statues?|sculptures?|portraits?|reliefs?)\b",
    r"\bsymbols on\b",
)
"""For items that come with a picture: anything that may be in it, or point at it."""

_LETTER: Final = r"\(?(?:[A-Jivx]|[IVX]{1,4})\)?"
_REFERS_TO_OPTIONS: Final = any_of(
    r"\b(?:all|none|any|both|neither|either|some|two|three|more than one|one) of (?:the )?"
    r"(?:above|these|those|them|following|statements|options|choices|answers|others?)\b",
    r"\b(?:options?|choices?|answers?|statements?) \(?(?:[A-J]|[IVX]+|\d)\b",
    r"\bthe above\b",
    r"\b(?:first|second|latter|former) (?:two|three) (?:choices|options)",
    r"^\(?[A-Jivx]{1,4}\)?$",
    rf"^{_LETTER}(?:(?:,|,? and| or|&|,? but not) ?{_LETTER})+(?: only| are.*)?\.?$",
    r"^(?:both|neither|either) \(?[A-J]\)? (?:and|n?or) \(?[A-J]\b",
    r"^[IVX\d]+(?:(?:,| and|, and) [IVX\d]+)* only",
    r"^\(?[IVX]{1,4}\)?(?:,|$)",
    r"\bI (?:and|or) II\b",
    r"\b[A-J] and [A-J]\.?$",
    r"\bnone$|^all$|^(?:all|none),",
    r"^(?:both|neither)(?:\.?$| .*statements?)",
    r"^(?:true|false|yes|no), ?(?:true|false|yes|no)\b",
    r"^(?:not )?wrong, ",
)

_NEEDS_WRITING: Final = any_of(
    r"\b(?:predicate|propositional) logic\b|\bproposition in PL\b|\bbest translation\b",
    r"\bwell[- ]formed formula|\bwff\b|\btruth tables?\b",
    r"\bfollowing (?:code|program|pseudo-?code|script|matrix|list of steps|argument|equations?|system of equations)\b",
    r"\bfollowing (?:data|dataset|table|reaction|statements?:?$|series|sequence of characters|pairs of)\b",
    r"\bcode (?:fragment|segment|snippet)\b|\bpseudo-?code\b|\bSQL\b|\bPython\b|\bint main\b",
    r"\bmatrix\b|\bdot diagram\b|\bstructural formula\b|\bthe balanced equation\b",
    r"\([b-e]\) ?[A-Z]|\bpart \([a-e]\)",
)
"""Programs, formal logic, chemical equations, and questions in lettered parts."""


_SEVERAL_BLANKS: Final = re.compile(r"_{2,}[^_]*[^_\s][^_]*_{2,}")
"""Blanks side by side are one, for an answer of two words."""


def check_question(item: Item) -> None:
    """Refuses a question about what only the eye can have.

    An item that comes with a picture is judged more strictly: any mention of something seen.

    Raises:
        NotAskable: `needs_picture`, `needs_writing` or `many_blanks`.
    """
    if several := _SEVERAL_BLANKS.search(item.question):
        raise NotAskable("many_blanks", several[0][-80:])
    pattern = _POINTS_AT_PICTURE if item.picture is None else _SPEAKS_OF_PICTURE
    if seen := pattern.search(item.question):
        raise NotAskable("needs_picture", seen[0])
    if item.options and (written := _NEEDS_WRITING.search(item.question)):
        raise NotAskable("needs_writing", written[0])


def refers_to_options(text: str) -> bool:
    """Whether an option speaks of the options themselves: "none of the above", "A and B", "II only"."""
    return _REFERS_TO_OPTIONS.search(text.strip()) is not None
