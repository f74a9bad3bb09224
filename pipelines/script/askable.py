"""Why an item cannot be asked aloud, and the wording that shows it: what points at something that is not said."""

import re
from typing import Final

from spoken.spoken_text import word_set

REASONS: Final = frozenset(
    {
        "needs_options",  # cannot be answered without its options, and they cannot be read out
        "answer_refers_to_options",  # "A and B", "all of the above" where it is not sure what stands above
        "needs_picture",  # speaks of a picture, table, figure or text that is not said
        "needs_writing",  # asks for or about something written: programs, formal logic, tables run into lines
        "not_a_question",  # no question found in it
        "answer_of_other_kind",  # a question for yes or no, and an answer that is neither
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


def any_of(*patterns: str, flags: re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
    """One pattern of several, one a line where they are listed."""
    return re.compile("|".join(patterns), flags)


_LETTER: Final = r"\(?(?:[A-J]|[ivx]{1,4}|[IVX]{1,4})\)?"
_REFERS_TO_OPTIONS: Final = any_of(
    r"(?i:\b(?:all|none|any|both|neither|either|some|two|three|more than one|one) of (?:the )?"
    r"(?:above|these|those|them|following|statements|options|choices|answers|others?)\b)",
    r"(?i:\b(?:options?|choices?|answers?|statements?)) \(?(?:[A-J]|[IVX]+|\d)\b",
    r"(?i:\bthe above\b)",
    r"(?i:\b(?:first|second|latter|former) (?:two|three) (?:choices|options))",
    r"^\(?(?:[A-J]|[IVX]{1,4}|[ivx]{1,4})\)?$",
    rf"^{_LETTER}(?:(?:,|,? and| or|&|,? but not) ?{_LETTER})+(?: only| are.*)?\.?$",
    r"^(?i:(?:both|neither|either) \(?[A-J]\)? (?:and|n?or) \(?[A-J]\b)",
    r"^[IVX\d]+(?:(?:,| and|, and) [IVX\d]+)* only",
    r"^\(?[IVX]{1,4}\)?(?:,|$)",
    r"\bI (?:and|or) II\b",
    r"\b[B-J] and [B-J]\.?$",
    r"(?i:\bnone of (?:it|them)$|^none$|^(?:all|none),)",
    r"^(?i:(?:both|neither)(?:\.?$| .*statements?))",
    r"^(?i:(?:true|false|yes|no),? (?:true|false|yes|no)\b)",
    r"^(?i:(?:not )?wrong, )",
    flags=re.NOFLAG,
)

_OF_ITS_OWN: Final = re.compile(
    r"(?P<told>\b(?P<what>[a-z]{4,})\b[^.?!;]*,[^.?!;]*)\b(?:one|some|both|two|all|any) of (?:these|those) (?P=what)\b"
)
"""What an answer itself has named before: "two pikes, where only one of these pikes is fed"."""

_NEEDS_WRITING: Final = any_of(
    r"\b(?:predicate|propositional) logic\b|\b(?:proposition|consequence) in PL\b|\bbest translation\b",
    r"\bwell[- ]formed formula|\bwff\b|\b(?:use|using|construct|complete) (?:an? )?(?:\w+ )?truth tables?\b",
    r"(?:\b[A-Da-d]{4}\b\W+){5,}",
    r"(?:>>|<<)(?=.*\bPython\b)",
    r"\bprogram below\b|\bREPEAT \w+ TIMES\b",
    r"\bfollowing (?:code|program|pseudo-?code|script|list of steps|sequence of characters)\b",
    r"\bFORTRAN\b|\bBASIC (?:program|statement)|\bprogram segment\b|\bsubroutine\b",
    r"\bcode (?:fragment|segment|snippet)\b|\bpseudo-?code\b|\bint main\b",
    r"\bdot diagram\b|\bstructural formula\b|\bsketch\b",
    r"\bdraw (?:the|a) (?:\w+ )?(?:graph|diagram|structure|curve|figure|circuit|tree)\b",
    r"(?:(?<![\w.])-?\d[\d.]*\s+){5,}|(?:(?<![\w.,-])\d{1,2}\s+){4,}",
    r"[^\s.?!][ \t\u00a0]{3,}\S.*[^\s.?!][ \t\u00a0]{3,}\S",
)
"""Programs, formal logic, drawings, and rows of a table run into one line."""

_CELLS_SPAN: Final = 14
_CELLS_MIN: Final = 9
_CELLS_MIN_UNJOINED: Final = 5
"""In MMLU-Pro 9 numbers among 14 words, or 5 where no mark or small word joins them, are a table nearly always."""
_CELL: Final = re.compile(r"[-+$(]?\d[\d.,]*(?<!,)%?\)?")
_JOINING: Final = word_set(
    "the a an of is are was and or in to at by for with from on if has have that = + × x * / - → • · ⋅ \\cdot"
)
_COLUMNS: Final = re.compile(r"\S[ \t\u00a0]{3,}\S")
_COLUMNS_OF_MONEY: Final = re.compile(r"\$\d[\d,]*(?:\.\d+)?(?:(?<=\d)\s+\$\d[\d,]*(?:\.\d+)?){2,}")
_PAIR_OF_CELLS: Final = re.compile(
    r"(?<![\w.,/^_({-])(?<![=+×*/-] )(?<!\d )\$?\d+(?:,\d{3})*(?:\.\d+)?%? "
    r"(?=\$?(?:\d+(?:,\d{3})*)?\.?\d+(?![\w/^]| ?[×x/]))"
)
_MAX_PAIRS: Final = 2
"""Two numbers side by side with nothing between them are cells; twice they may be a slip."""

_OPENED: Final = re.compile(r"\bopen (?:parenthesis|bracket|brace)\b")
_MAX_BRACKETS: Final = 4


def check_wording(question: str, answer: str) -> None:
    """Refuses a question about something written.

    Raises:
        NotAskable: `needs_writing`.
    """
    if columns := _COLUMNS_OF_MONEY.fullmatch(answer.strip()):
        raise NotAskable("needs_writing", columns[0][:80])
    if written := _NEEDS_WRITING.search(question) or _COLUMNS.search(re.sub(r"[^\S\n]+(?=\\mathrm)", " ", answer)):
        raise NotAskable("needs_writing", written[0][:80])
    if table := _run_of_cells(question):
        raise NotAskable("needs_writing", table[:80])
    if len(pairs := _PAIR_OF_CELLS.findall(question)) > _MAX_PAIRS:
        raise NotAskable("needs_writing", " … ".join(pairs)[:80])


def _run_of_cells(text: str) -> str | None:
    """Words of a table whose cells were run together: mostly numbers, or many numbers and nothing that joins them."""
    words = text.split()
    is_cell = [_CELL.fullmatch(word) is not None for word in words]
    joins = [word[-1] in ",;.?!" or word.lower().strip("(") in _JOINING for word in words]
    for at in range(len(words) - _CELLS_SPAN + 1):
        span = slice(at, at + _CELLS_SPAN)
        if sum(is_cell[span]) >= (_CELLS_MIN if any(joins[span]) else _CELLS_MIN_UNJOINED):
            return " ".join(words[span])
    return None


def check_brackets(spoken: str) -> None:
    """Refuses a sentence that has so many brackets that nobody keeps them apart by ear.

    Raises:
        NotAskable: `needs_writing`.
    """
    for sentence in re.split(r"(?<=[.?!;]) ", spoken):
        if (n_opened := len(_OPENED.findall(sentence))) > _MAX_BRACKETS:
            raise NotAskable("needs_writing", f"{n_opened} brackets in: {sentence[-50:]}")


def refers_to_options(text: str) -> bool:
    """Whether an option speaks of the options themselves: "none of the above", "A and B", "II only"."""
    bare = _OF_ITS_OWN.sub(r"\g<told>", text.strip())
    return _REFERS_TO_OPTIONS.search(bare) is not None
