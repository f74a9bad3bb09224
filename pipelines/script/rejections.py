"""The reasons for which an item cannot be asked aloud, and patterns that show them."""

import re
from collections.abc import Sequence
from typing import Final

from spoken.number_words import find_cardinal
from spoken.spoken_text import Unspeakable, make_word_set, split_lower_words

REASONS: Final = frozenset(
    {
        "needs_options",  # cannot be answered without its options, and they cannot be read out
        "answer_refers_to_options",  # "A and B", or "all of the above" if what is above is uncertain
        "needs_picture",  # mentions a picture, table, figure or text that is not read out
        "needs_writing",  # asks for or about something written: programs, formal logic, tables run into lines
        "not_a_question",  # contains no question
        "answer_of_other_kind",  # a yes-no question with another answer
        "question_too_long",
        "answer_too_long",
    }
)
"""Why an item cannot be asked aloud, in addition to the reasons of `spoken_text.REASONS`."""


class NotAskable(Exception):
    """An item that cannot be asked and answered aloud.

    Args:
        reason: one of `REASONS`.
        detail: the span of text that shows it.
    """

    def __init__(self, reason: str, detail: str) -> None:
        if reason not in REASONS:
            raise ValueError(f"{reason!r} is not a reason to reject an item; the reasons are {sorted(REASONS)}")
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail

    def __reduce__(self) -> tuple[type["NotAskable"], tuple[str, str]]:
        return type(self), (self.reason, self.detail)


def join_patterns(*patterns: str, flags: re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
    """Compiles a pattern that matches where any of these patterns does."""
    return re.compile("|".join(patterns), flags)


_LETTER: Final = r"\(?(?:[A-J]|[ivx]{1,4}|[IVX]{1,4})\)?"
_REFERS_TO_OPTIONS: Final = join_patterns(
    r"(?i:\b(?:all|none|any|both|neither|either|some|two|three|more than one|one) of (?:the )?"
    r"(?:above|these|those|them|following|statements|options|choices|answers|others?)\b)",
    r"(?i:\b(?:options?|choices?|answers?|statements?)) \(?(?:[A-J]|[IVX]+|\d)\b",
    r"(?i:\bthe above\b|\beach of (?:these|the following)\b)",
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
    r"(?P<named>\b(?P<what>[a-z]{4,})\b[^.?!;]*,[^.?!;]*)\b(?:one|some|both|two|all|any) of (?:these|those) (?P=what)\b"
)
"""What an answer itself has named before: "two pikes, where only one of these pikes is fed"."""

_NEEDS_WRITING: Final = join_patterns(
    r"\b(?:predicate|propositional) logic\b|\b(?:proposition|consequence) in PL\b|\bbest translation\b",
    r"\bwell[- ]formed formula|\bwff\b|\b(?:use|using|construct|complete) (?:an? )?(?:\w+ )?truth tables?\b",
    r"(?:\b[A-Da-d]{4}\b\W+){5,}",
    r"(?:>>|<<)(?=.*\bPython\b)",
    r"\bprogram below\b|\bREPEAT \w+ TIMES\b",
    r"\bfollowing (?:code|program|pseudo-?code|script|list of steps|sequence of characters)\b",
    r"\b(?:formulas?|sentences?) of PL\b|\boutput of (?!the (?:firm|plant))\W",
    r"\bFORTRAN\b|\bBASIC (?:program|statement)|\bprogram segment\b|\bsubroutine\b",
    r"\bcode (?:fragment|segment|snippet)\b|\bpseudo-?code\b|\bint main\b",
    r"\bdot diagram\b|\bstructural formula\b|\bsketch\b",
    r"\bdraw (?:the|a) (?:\w+ )?(?:graph|diagram|structure|curve|figure|circuit|tree)\b",
    r"(?:(?<![\w.])-?\d[\d.]*\s+){5,}|(?:(?<![\w.,-])\d{1,2}\s+){4,}",
    r"[^\s.?!][ \t\u00a0]{3,}\S.*[^\s.?!][ \t\u00a0]{3,}\S",
)
"""Programs, formal logic, drawings, and rows of a table run into one line."""

_GLOSSED_LIST: Final = re.compile(r"\b[A-Z]{2,} \([a-z][^()]*\),[^()]*\([^()]*\),")
"""A list of abbreviations with parentheses: by ear, with only commas, they cannot be matched."""

_NESTED_SCRIPT: Final = re.compile(
    r"[_^] ?[{(] ?[^(){}]*(?:[/^(]|\\(?:frac|ln|log|sin|cos))|\^[-+]?\d+ ?/ ?\d|\^\(\d+\^"
)
"""An exponent or index that is a fraction, a power or a function."""
_SET_TO: Final = re.compile(r"(?<![A-Za-z])([A-Za-z])(?:_\{?\w+\}?)?\$?(?: ?=| is (?:an?|the|its) )")
_UNIT_LETTER: Final = re.compile(r"(?<![A-Za-z_^])\d[\d.,]*[ $]*([gmAVWJCNTKFHLsh])(?![\w'°/^]| ?[-+*=])")
_MISTYPED: Final = re.compile(
    r"\b(?:Na|K|H|Ag|Ca|P|Mg)C[I1](?![a-z])|CI_?\d|\bH20\b|\bC02\b|\b[NS]0_?[234]|\d0_2\b|\d\.\d+o\b"
    r"|\d [1I] 0th\b|F°|\d\^0(?![\d.])|\d ?m ?μ"
    r"|\d ?N (?:(?:[a-z]+ )?(?:acid|base|solution)|HCl|NaOH|H_?2SO)|\bcl_2|/hr- ?\(|-0[KCF]\b|\d ?\. ?[ckm] m\b"
    r"|\([A-Z]+-[A-Z]{2,}\) ?/|\b[a-z]t-[12]\b|\bN\(-?\d[^)]*,"
)
"""Formulas and units with unusual letters, digits or dots, or with a hyphen for a minus: "(P-MC)/P"; the parameters of
a distribution, "N(800, 14400)"."""
_STOP_INSIDE: Final = re.compile(r"[a-z]{4,}\. [a-z]{4,}")

_CELLS_SPAN: Final = 14
_CELLS_MIN: Final = 9
_CELLS_MIN_UNJOINED: Final = 5
"""In MMLU-Pro 9 numbers among 14 words, or 5 without punctuation or small words between them, are nearly always a
table."""
_CELL: Final = re.compile(r"[-+$(]?\d[\d.,]*(?<!,)%?\)?")
_JOINING: Final = make_word_set(
    "the a an of is are was and or in to at by for with from on if has have that = + × x * / - → • · ⋅ \\cdot"
)
_COLUMNS: Final = re.compile(r"\S[ \t\u00a0]{3,}\S")
_COLUMNS_OF_MONEY: Final = re.compile(r"\$\d[\d,]*(?:\.\d+)?(?:(?<=\d)\s+\$\d[\d,]*(?:\.\d+)?){2,}")
_PAIR_OF_CELLS: Final = re.compile(
    r"(?<![\w.,/^_({-])(?<![=+×*/-] )(?<!\d )\$?\d+(?:,\d{3})*(?:\.\d+)?%? "
    r"(?=\$?(?:\d+(?:,\d{3})*)?\.?\d+(?![\w/^]| ?[×x/]))"
)
_MAX_PAIRS: Final = 2
"""Two adjacent numbers with nothing between them are cells; up to two such pairs may be a slip."""

_A_NUMBER: Final = "(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|[a-z]+(?:teen|(?:ee|r|f|x|n|h|v)ty))"
_NO_LISTENING: Final = join_patterns(
    r"\b(?:open|close) (?:parenthesis|bracket|brace)\b|\bdot dot dot\b|\bin angle brackets\b"
    r"|\b(?:tilde|backslash|arrow)\b|\bslash\b.*\bslash\b",
    r", which is (?:less|greater) than\b|\bthe norm of\b|\bvector [a-z]\b|\b(?:integral|limit|sum) (?:from|as|over)\b",
    r"\bstatement four\b|\bpart two\b|\bblank\b.*\bblank\b.*\bblank\b|\bm angle\b",
    rf"(?-i:, [a-d], {_A_NUMBER}\b|, l, |(?<!')\b(?!k T\b)[b-z] [A-Z]\b)",
    r"(?-i:\b[A-Z] (?:to|from) [A-Z] (?:to|from)\b|\b[A-Z]\w+ I and \w+ (?:two|three)\b)",
    r"\b(?:plus|minus)(?: (?!is\b)\w+){1,4} over\b",
    r"\bupsilon\b|\b(?:squared|cubed), \w+ (?:plus|minus|equals)\b|\bUnit: ",
    rf"\b(?:dollars|cents|percent|units) {_A_NUMBER}\b(?! payment)",
    r"\b(?:each|all|any) of (?:these|the following)\b[^?]*\bexcept: first, [^;]*; or second\b",
)
"""Signs called by name, chains, adjacent cells, and more statements, parts or blanks than a listener can keep apart;
"all of these except" before two choices."""

_OF_FORMULA: Final = re.compile(
    r"\b(?:to the power of(?: minus)?|equals|squared|cubed|over|sub|prime|plus|minus|the square root of"
    r"|divided by|[b-hj-z]|(?:(?!I\b)[A-Z] )*[B-HJ-Z])\b(?!')"
)
_MOST_OF_FORMULA: Final = 14
_MOST_IN_ANSWER: Final = 4
"""Maximum number of words of formulas in a question, and in an answer; single letters count."""

_ESSAY: Final = re.compile(
    r"[.?!] (?:Briefly )?(?:Discuss|Trace|Outline|Illustrate|Characterize|Compare|Comment|Summarize|Contrast)\b"
    r"|\band discuss\b|\b(?:Define|Describe|Explain|Discuss) [^.?]*\. (?:Describe|In what|How|What|Why|Explain|Give)\b"
)
"""A second instruction after a first one."""

_COUNT: Final = re.compile(
    r"\b[Hh]ow (?:many|much(?= (?:[a-z]+ )?(?:does|do|did|will|would|is|was|money|time|more|less)\b))\b"
)
_MEASURE: Final = re.compile(
    r"(?:\bhow (?:far|long|tall|deep|heavy|fast|high|wide)\b|\bhow much [^.?]*\bweigh"
    r"|\bwhat (?:is|was|will be) (?:the|his|her|their|its) (?:\w+ ){0,3}"
    r"(?:depth|length|height|weight|distance|width|speed|time)\b"
    r"|\bwhat (?:depth|length|height|weight|distance|width|speed)\b)"
    r"(?![^.?]*(?:\b(?:in|per|defined)\b|minimum age))[^.?]*\?$",
    re.IGNORECASE,
)
"""A question for a size or a time that names no unit, to which a bare number is no answer."""

_WHOLES: Final = make_word_set("half quarter none no all both twice only never once infinitely a an more")
_ASKS_TWICE: Final = re.compile(r"(?:, and|;) (?:what|how|where|when|find|which)\b[^?]*\?$", re.IGNORECASE)
_SEVERAL: Final = re.compile(
    rf"\b(?!{_A_NUMBER}\b)[a-z]+[,;] {_A_NUMBER}\b"
    r"|;.*;|^\S+(?: \S+){0,3};|: .*: | equals .* equals .* equals |, [A-Z][a-z]+ [a-z]+ .*\bis\b"
)
"""An answer of several values."""


def check_wording(question: str, answer: str, options: Sequence[str] = ()) -> None:
    """Checks that a question can be understood by ear: no program, formal logic, drawing or table, and no misprints.

    Raises:
        NotAskable: `needs_writing`, for programs, formal logic, drawings and tables.
        Unspeakable: `formula` for an exponent or index that is itself a formula, or a letter that is both a variable
            and a unit; `broken_text` for a full stop that ends no sentence or a misprint in a formula.
    """
    both = "\n".join((question, answer, *options))
    if nested := _NESTED_SCRIPT.search(both):
        raise Unspeakable("formula", nested[0])
    variables = set(_SET_TO.findall(both))
    if unit := next((each for each in _UNIT_LETTER.finditer(both) if each[1] in variables), None):
        raise Unspeakable("formula", unit[0])
    if broken := _STOP_INSIDE.search(question) or _MISTYPED.search(both):
        raise Unspeakable("broken_text", broken[0])
    if columns := _COLUMNS_OF_MONEY.fullmatch(answer.strip()):
        raise NotAskable("needs_writing", columns[0][:80])
    if written := _NEEDS_WRITING.search(question) or _COLUMNS.search(re.sub(r"[^\S\n]+(?=\\mathrm)", " ", answer)):
        raise NotAskable("needs_writing", written[0][:80])
    if glossed := _GLOSSED_LIST.search(f"{question}\n{answer}"):
        raise NotAskable("needs_writing", glossed[0][:80])
    if table := _find_run_of_cells(question):
        raise NotAskable("needs_writing", table[:80])
    if len(pairs := _PAIR_OF_CELLS.findall(question)) > _MAX_PAIRS:
        raise NotAskable("needs_writing", " … ".join(pairs)[:80])


def _find_run_of_cells(text: str) -> str | None:
    """Returns words of a text that are a table whose cells were run together; None if there is no such place."""
    words = text.split()
    is_cell = [_CELL.fullmatch(word) is not None for word in words]
    joins = [word[-1] in ",;.?!" or word.lower().strip("(") in _JOINING for word in words]
    for at in range(len(words) - _CELLS_SPAN + 1):
        span = slice(at, at + _CELLS_SPAN)
        if sum(is_cell[span]) >= (_CELLS_MIN if any(joins[span]) else _CELLS_MIN_UNJOINED):
            return " ".join(words[span])
    return None


def find_unclear_words(spoken: str, most_of_formula: int = _MOST_IN_ANSWER) -> str | None:
    """Returns words that a listener cannot keep apart; None if there are none.

    They are signs called by name, or words of formulas if there are more than `most_of_formula`.
    """
    if sign := _NO_LISTENING.search(spoken):
        return sign[0][-80:]
    found = _OF_FORMULA.findall(spoken)
    return " … ".join(found)[:80] if len(found) > most_of_formula else None


def check_heard(question: str, answer: str) -> None:
    """Checks that a spoken question and its answer can be followed by ear, and that the answer is what is asked for.

    Raises:
        NotAskable: `needs_writing` if it is mostly a formula or has several values as answer; `answer_of_other_kind` if
            an essay is asked for, a number and the answer has none, or two things and the answer is one.
    """
    if lost := find_unclear_words(question, _MOST_OF_FORMULA) or find_unclear_words(answer):
        raise NotAskable("needs_writing", lost)
    if several := _SEVERAL.search(answer):
        raise NotAskable("needs_writing", several[0][:80])
    if essay := _ESSAY.search(question):
        raise NotAskable("answer_of_other_kind", essay[0])
    first = _strip_frame(answer).split()[0].lower()
    is_one_value = find_cardinal(first) is not None and " and " not in answer
    if is_one_value and (twice := _ASKS_TWICE.search(question)) and twice.start() > 0:
        raise NotAskable("answer_of_other_kind", twice[0][-80:])
    is_bare = all(
        find_cardinal(word) is not None or word == "point" for word in split_lower_words(_strip_frame(answer))
    )
    if is_bare and _MEASURE.search(question):
        raise NotAskable("answer_of_other_kind", answer[:80])
    is_count = _COUNT.search(question.rsplit(". ", 1)[-1]) is not None
    if is_count and not any(find_cardinal(word) or word in _WHOLES for word in split_lower_words(answer)):
        raise NotAskable("answer_of_other_kind", answer[:80])


def _strip_frame(answer: str) -> str:
    """Returns a spoken answer without the words that introduce it, such as "That would be"."""
    return re.sub(r"^(?:That's|That would be|It's|The answer is) (?:minus )?", "", answer)


def refers_to_options(text: str) -> bool:
    """Returns whether an option refers to the options themselves: "none of the above", "A and B", "II only"."""
    bare = _OF_ITS_OWN.sub(r"\g<named>", text.strip())
    return _REFERS_TO_OPTIONS.search(bare) is not None
