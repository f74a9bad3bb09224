"""Analyses the wording of a question: whether it asks, instructs or is incomplete, and whether it needs its options."""

import re
from dataclasses import dataclass
from typing import Final, Literal

from pipelines.script.rejections import join_patterns

_NEGATED: Final = join_patterns(
    r"\b(?:EXCEPT|LEAST|NOT|except for)\b",
    r"\bexcept\b[^.]*[?:]?\s*$",
    r"\b(?:is|are|was|were|does|do|would|could|can|did|has|have|should|may|might|will)(?: not|n't)\b[^.?]*[?:.]?\s*$",
    r"\bcannot\b[^.?]*[?:.]?\s*$",
    r"\bleast (?:likely|accurate|important|appropriate)\b",
    flags=re.NOFLAG,
)
"""Almost anything other than a listed option would be an answer."""

_ASKS_FOR_NOT: Final = join_patterns(
    r"\b(?:Which|which of)\b(?: (?!if\b|when\b|that\b|who\b)[\w'-]+){0,4} (?:not|cannot|can't|never)\b(?! only)",
    r"\b[Ww](?:hich|hat|ho)\b(?! (?:percent|fraction|number|amount|part|share|proportion|(?:is|are|was|were) the\b))"
    r"[^.?]*\b(?:NOT|CANNOT|EXCEPT|NEVER)\b",
    r"\b[Ww](?:hich|hat)\b[^.?]* with the exception of\b",
    flags=re.NOFLAG,
)
"""A question for what is not the case, which has countless answers: "Which ratio CANNOT be …"."""

_KINDS_OF_TEXT: Final = (
    "(?:statement|sentence|option|choice|answer|expression|equation|list|set|pairs?|graph|combination|sequence"
    "|ordered pair|number|scenario|description|example|situation|conclusion|assertion|claim|quotation|quote|passage"
    "|argument|formula|arrangement|series|order|result|term|value|event|action|fact|interpretation|group|word|phrase"
    "|case|definition|condition|change|type of|property|characteristic|point|item|study|compound|molecule)s?"
)
_NEEDS_OPTIONS: Final = join_patterns(
    r"\b(?:which|what) (?:one )?of (?:these|those)\b",
    r"\b(?<!hich )one of the following\b",
    r"\b(?:all|any|each|none|two|both|some) of the following\b",
    rf"\b[Ww]hich (?:one )?(?:of the following )?(?:\w+ )?{_KINDS_OF_TEXT}\b",
    r"\b(?:[Ss]elect|[Cc]hoose|[Pp]ick|[Mm]ark) (?:the|all|one|from|an|your)\b",
    r"\bfrom the (?:choices|options|list)\b",
    r"^\W*Which (?:is|are) the \w+(?: \w+)?\?$",
    r"\b[Ww]hich (?:one )?(?:of the )?\w+ (?:(?:given|listed|shown) )?below\b",
    r"\b(?:following|which) (?:is|are|was|were|would be)?\s*(?:the )?(?:true|false|correct|incorrect|valid|accurate"
    r"|wrong|right|a fact)\b",
    r"\bis (?:true|false|correct|incorrect)\??$",
    r"\b(?:is|are) (?:most )?(?:nearly )?(?:true|correct|accurate)\b[^.]*\?$",
    r"\b[Aa]\) .*\b[Bb]\) |\((?:A|a|i|1)\) .*\((?:B|b|ii|2)\) |\b[Ii]\. .*\b(?:II|ii)\. ",
    r"\b1[.)] (?=[A-Za-z]).*\b2[.)] [A-Za-z]",
    r"\bthe following\s*[:.?]?\s*$",
    r"\bStatement (?:1|one|I)\b|\b(?:true|correct|false) statement\b",
    flags=re.DOTALL,
)
"""The options, or a list within the question, are the subject of the question."""

_IMPERATIVE: Final = re.compile(
    r"(?:(?:Then|Also|Now|Please|Hence|Thus|(?:If|For|Using|In|Assuming|Given|From|By|At) [^,]+,)\s+)?"
    r"(?:find|calculate|determine|compute|evaluate|solve|estimate|name|identify|describe|explain|give|state|express"
    r"|convert|simplify|consider|discuss|define|compare|distinguish|outline|trace|account|list|predict|obtain|derive"
    r"|tell|approximate|write|differentiate|integrate|factor|round|show|suggest|assess|rank|classify|specify|use|add"
    r"|subtract|multiply|divide|prove|verify|choose|select|pick|match|fill|complete|draw|sketch|analyze|analyse"
    r"|discus+e?s|illustrate|briefly (?:describe|explain|discuss)|characterize|summarize|think of|represent|apply"
    r"|perform|order|arrange|translate|test|check|write|construct|design|rewrite|reduce|expand|graph|prepare"
    r"|change the|return)\b",
    re.IGNORECASE,
)
_LATE_IMPERATIVE: Final = re.compile(
    r"[,:;.] (?:[Tt]hen )?(?:please )?"
    r"(?:[Ff]ind|[Cc]alculate|[Cc]ompute|[Dd]etermine|[Ee]valuate|[Ee]stimate|obtain|give|name|identify|predict)\b"
    r"|\b(?:find|calculate|determine|compute) (?:the|its|their|how|what|whether)\b"
)
_ASKING: Final = re.compile(
    r"(?:(?:And|So|Then|But|Now),? )?(?:(?:at|in|to|for|on|by|under|of|from|with) )?"
    r"(?:(?:what|which|who|whose|whom|why|how)\b"
    r"|(?:when|where) (?:did|does|do|is|are|was|were|will|would|should|can)\b)",
    re.IGNORECASE,
)
_ASKING_AT_START: Final = re.compile(
    r"(?:(?:At|In|To|For|On|By|From|With) )?(?:What|Which|How|At what|what|which|how)\b.*\b"
    r"(?:is|are|was|were|will|would|does|do|did|can|should|must|has|have)\b.*\.$"
)
_ASKING_LATE: Final = re.compile(
    r"[,;:] (?:then )?(?:(?:at|in|to|for|on|by) )?(?:what|how (?:many|much|long|far|fast|large|big|high))\b[^,;:]*$"
    r"|\b(?:is|are|was|were|by|as) (?:what|which of (?:these|those))$"
)
_ASKS_INSIDE: Final = re.compile(r"(?<![a-z,] )(?<!\")\b(?:How (?:much|many|far|long|fast)|What (?:is|are)) [a-z]")
_OPEN_ENDS: Final = (
    " is",
    " are",
    " likely",
    " should",
    " will",
    " be",
    " that",
    " because",
    " by",
    " to",
    " evidence",
)
_SUPPOSES: Final = re.compile(r"(?:Assum(?:e|ing)|Take|Neglect|Note|Let|Use|Ignore|Hint|Give|Express)\b")
"""The start of a sentence of assumptions after the question."""

BREAKS_OFF: Final = re.compile(
    r"\b(?:is|are|was|were|be|been|the|an?|of|by|to|that|with|for|as|(?<!\d )(?<!\) )in|on|at|from|into|than|and|or"
    r"|because|called|known|has|have|had|will|would|should|can|could|may|might|must|not|its|their|his|her|most|more"
    r"|likely|probably|if|when|include|includes|including|means|through|about|between|during|under|which|who|what|whether"
    r"|regarding)$"
)
"""The last word of an incomplete sentence; one that only defines a thing may end otherwise."""

_WAITS: Final = re.compile(r"\b(?:is|are|was|were|will|should|would|may|can)(?: (?:in|by|to|on|for|be|at|with|of))?$")
_AIMS: Final = re.compile(r"\bto (?:find|calculate|determine|compute)\b")
"""A purpose inside an incomplete sentence is not an instruction: "a suit to determine …, title is in"."""

_CLAUSE: Final = re.compile(r"(?:When|While|Before|After|If|Because|Since|Although|Once|Until|Unless)\b[^,]*:\s*$")
"""A clause before its main one: "When asking a friend for money:"."""

BLANK: Final = re.compile(r"_{2,}|\.{5,}")
_LAST_SENTENCE: Final = re.compile(
    r"(?:.*(?<!\b[A-Zv])(?<!\bvs)(?<!\b[DM]r)(?<!\bMrs)(?<!\bSt)(?:[.?!][\"')]?\s+|(?<=[\d\")])\n\s*)(?=[A-Z\"'$\d_]))?(.*)",
    re.DOTALL,
)

Kind = Literal["asks", "blank", "stem", "states"]


@dataclass(frozen=True, slots=True)
class QuestionShape:
    """A question's text split before its last sentence, and the kind of that.

    `asks`: it contains a question or an instruction; `blank`: words are left blank; `stem`: it is incomplete and the
    answer continues it; `states`: none of these.
    """

    kind: Kind
    before: str
    last: str


_NOTED: Final = re.compile(
    r"^(.*[.?!] )?((?:[^.?!]|\.(?=\d))*\?) \(((?!Units?\b)[A-Z][a-z][^()?]{3,}?)\)\s*$", re.DOTALL
)
"""A question followed by a note: "… the force? (Neglect friction.)"; the note is moved before it."""

_GIVEN_LAST: Final = re.compile(r"\? [(\[]([A-Za-z](?:_\{?\w+\}?)? ?= ?[^()\[\]?,;]{1,30})[)\]]\.?\s*$")
"""A value given after the question: "… the force? [m = 3 kg]"; it is moved into the question."""

_OF_SEVERAL: Final = r"(?!\(1\)(?s:.*?[.?!;]\s+\(2\)\s+[A-Z]))"
"""Not the number of the first of several parts, the others of which are spoken too."""

_LEFT_OUT: Final = re.compile(r"(?<=[a-z]{2}) \.\.\. (?=[a-z]{2})")
"""An ellipsis inside a question of one sentence is a blank."""


def tidy_question(question: str) -> str:
    """Returns a question without numbers, points and labels at its edges, and without upper-case emphasis ("NOT").

    Notes and values that follow the question are moved into it, and slips of its typesetting are corrected.
    """
    text = re.sub(r"^\s*\d+\.\d+(?:-\d+\.?|\.?\([a-z]\))\s+(?=[A-Z])", "", question)
    text = re.sub(rf"^\s*(?:Q(?:uestion)?\s*\d*\s*[:.]|{_OF_SEVERAL}\(?\d{{1,3}}[.)])\s+(?=[A-Z])", "", text.strip())
    text = re.sub(r"\s*\(\s*\d+ (?:points?|marks?)\s*\)\s*$", "", text).strip()
    text = re.sub(r"\b(?:NOT|EXCEPT|LEAST|MOST|BEST|ONLY|FALSE|TRUE|INCORRECT|CORRECT)\b", lambda m: m[0].lower(), text)
    text = re.sub(r"\s+[.:]$", "", text)
    text = re.sub(r"(?<=[a-z]{2}[.?!])(?=(?:[A-Z][a-z]+|A|I) [a-z\d])", " ", text)
    text = _NOTED.sub(lambda m: f"{m[1] or ''}{m[3].rstrip('.')}. {m[2]}", text)
    text = _GIVEN_LAST.sub(r", where \1?", text)
    text = re.sub(r"(?<=\? )(return|answer|give|assume|round|use|express|note)\b", lambda m: m[1].capitalize(), text)
    if '"' not in text and len(left_out := re.findall(_LEFT_OUT, text)) == 1:
        text = text.replace(left_out[0], " _____ ")
    text = re.sub(r"\b([Aa])(?:\(n\)| ?\(an\)|/an)(?!\w)", r"\1", text)
    text = re.sub(r"\b(is|are) ?[/(] ?(?:are|is)\)?(?= )", r"\1", text)
    text = re.sub(r"\b(options|choices|answers|statements|alternatives) below\b", r"\1", text)
    return re.sub(r"(statement|answer|option|choice|factor)\(s\)", r"\1s", text)


def find_shape(text: str) -> QuestionShape:
    """Returns the kind of a question, and its text split before the last sentence; `tidy_question` has tidied it."""
    found = _LAST_SENTENCE.fullmatch(text)
    last = found[1] if found else text
    before = text[: len(text) - len(last)]
    if BLANK.search(text):
        return QuestionShape("blank", before, last)
    bare = last.rstrip(" .:;,…")
    is_open = not last.endswith((".", "!", '"', ")"))
    is_told = is_instruction(last) and not (
        _IMPERATIVE.match(last) is None and _WAITS.search(bare) and _AIMS.search(last)
    )
    asks = is_told or _ASKING.match(bare) is not None or _ASKS_INSIDE.search(bare) is not None
    if before and is_open and not asks and "?" not in last and BREAKS_OFF.search(bare):
        return QuestionShape("stem", before, last)
    is_quoted = '?"' in before and "?" not in re.sub(r'\?"', "", text)
    if (
        ("?" in text and not (is_quoted and text.endswith(_OPEN_ENDS)))
        or _ASKS_INSIDE.search(text)
        or is_instruction(last)
        or _ASKING.match(bare)
        or _ASKING_LATE.search(bare)
    ):
        return QuestionShape("asks", before, last)
    if before and _SUPPOSES.match(last):
        return QuestionShape("asks", before, last)
    if before and is_open and re.fullmatch(r"Consider [^.?!]*\. ", before):
        return QuestionShape("stem", before, last)
    if before and (has_instruction(before) or _has_unmarked_question(before)):
        return QuestionShape("asks", before, last)
    return QuestionShape("states" if last.endswith((".", "!", '"')) else "stem", before, last)


def has_pause(sentence: str) -> bool:
    """Returns whether a speaker pauses between an incomplete sentence and what completes it, as after a clause."""
    is_clause = _CLAUSE.match(sentence) is not None and BREAKS_OFF.search(sentence.rstrip(" .:")) is None
    return is_clause or sentence.rstrip(" .:").endswith(",")


def is_instruction(sentence: str) -> bool:
    """Returns whether a sentence instructs to find, name or explain something."""
    return _IMPERATIVE.match(sentence) is not None or _LATE_IMPERATIVE.search(sentence) is not None


def has_instruction(text: str) -> bool:
    """Returns whether any sentence of a text is an instruction."""
    return any(is_instruction(sentence) for sentence in re.split(r"(?<=[.:?])\s+", text))


def _has_unmarked_question(text: str) -> bool:
    """Returns whether any sentence of a text asks without a question mark: "At what temperature will it boil."."""
    return any(_ASKING_AT_START.match(sentence) for sentence in re.split(r"(?<=[.:])\s+", text))


def asks_by_word(sentence: str) -> bool:
    """Returns whether a sentence begins with a question word or asks by one near its end, whatever its punctuation."""
    return _ASKING.match(sentence) is not None or _ASKING_LATE.search(sentence) is not None


def is_question(sentence: str) -> bool:
    """Returns whether a sentence, given without its final mark, must end with a question mark.

    That is so if it asks by a question word, is no instruction, and has no question mark inside.
    """
    return asks_by_word(sentence) and not is_instruction(sentence) and "?" not in sentence


def find_negation(question: str) -> str | None:
    """Returns the words by which a question asks for what is not the case; None if it does not."""
    found = _ASKS_FOR_NOT.search(question)
    return found[0][-80:] if found else None


def find_need_of_options(text: str) -> str | None:
    """Returns the words that show that a question cannot be asked without its options; None if it can."""
    last = find_shape(text).last
    found = _NEEDS_OPTIONS.search(text) or _NEGATED.search(last)
    return found[0][-80:] if found else None
