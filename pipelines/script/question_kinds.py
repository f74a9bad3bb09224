"""Classifies spoken questions by kind, and finds the words of a question that a listener would repeat."""

import re
from typing import Final, Literal

from spoken.spoken_text import make_word_set, split_words

Kind = Literal[
    "sum", "number", "what", "which", "who", "why", "when", "where", "how", "finish", "choice", "verdict", "task"
]

_MEASURES: Final = "(?:many|much|long|old|tall|far|fast|high|wide|deep|heavy|big)"
_SUMS: Final = "(?:total|sum|average|difference|combined|number|cost|price|amount|weight|speed|ratio|percentage)"
_SIGNS: Final[tuple[tuple[str, Kind], ...]] = (
    (r"\btrue or false\b", "verdict"),
    (r"\bfill in the blank\b", "finish"),
    (r"\bis it [^?]*, or [^?]*\?$|\bchoices are: |\bof these: |: [^.?]*, or [^.?]*\?$", "choice"),
    (rf"\bhow {_MEASURES}\b|\bwhat(?:'s| is| was| are| were) (?:the|his|her|their) {_SUMS}\b", "number"),
    (r"\bwhat (?:percent(?:age)?|fraction|amount|speed|distance|height|length|weight)\b", "number"),
)
"""The frames in which `questions.py` puts questions, then what asks for a number wherever it occurs."""

_NUMBERS: Final = make_word_set(
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand half twice double percent"
)
"""Words that make a question for a number a sum: without any, the number is known and not calculated."""

_AUXILIARY: Final = r"(?:is|are|was|were|do|does|did|has|have|had|will|would|can|could|should|may|might|must)\b"
_LAST: Final = re.compile(r"(?:^|[.?!;:] )([^.?!;:]+)[.?!]?$")
_ASKING: Final = (
    re.compile(rf"(?:^|, )(?:(?:and|so|then|but) )?(what|who|why|when|where|how) {_AUXILIARY}"),
    re.compile(r"(?:^|, |\b(?:in|on|at|to|for|from|of|by|with|about|under|than) )(what|which|whose|whom|who|how)\b"),
    re.compile(r"\b(what|why|how)\b"),
)
"""The question word that is meant, the surest sign first: in "when he slept, what did she do?" it is not "when"."""

_KINDS: Final[dict[str, Kind]] = {
    "what": "what", "which": "which", "who": "who", "whose": "who",
    "whom": "who", "why": "why", "when": "when", "where": "where", "how": "how",
}  # fmt: skip
_VERDICT: Final = re.compile(rf"(?:^|, ){_AUXILIARY}")

_NO_VERDICT: Final = re.compile(r"\b(?:can|could|will|would) you\b[^.?!]*\?$|\bor\b[^.?!]*\?$", re.IGNORECASE)

_COUNTED: Final = re.compile(rf"\b(how (?:many|much) (?:[a-z]+ ){{1,4}}?)(?={_AUXILIARY})", re.IGNORECASE)
_NAMED: Final = re.compile(rf"\b((?:which|what) (?:[a-z]+ ){{1,3}}?)(?={_AUXILIARY})", re.IGNORECASE)
_ASKED_FOR: Final = re.compile(
    r"\b(?:what|which|who) (?:is|are|was|were) ((?:the|a|an) (?:[\w']+ ?){1,7})\?$", re.IGNORECASE
)
_NO_NOUN: Final = make_word_set(
    "it they he she you we i that this these those there when if happens to of in on at by for with and or not his her "
    "their its who which what the a an"
)
_MAX_NAMED_WORDS: Final = 7


def classify_question(question: str) -> Kind:
    """Returns the kind of a spoken question: by its wording, else by the question word of its last sentence.

    One without a question mark at its end, or without a question word or auxiliary verb that asks, is a `task`.
    """
    text = question.lower()
    for pattern, kind in _SIGNS:
        if re.search(pattern, text):
            return "sum" if kind == "number" and not _NUMBERS.isdisjoint(split_words(text)) else kind
    if not text.endswith("?"):
        return "task"
    last = find_last_sentence(text)
    for asking_word in _ASKING:
        if asking := asking_word.search(last):
            return _KINDS[asking[1]]
    return "verdict" if _VERDICT.search(last) else "task"


def is_verdict(question: str) -> bool:
    """Returns whether a question is a yes-no question; "Can you find …?" and "Is it hot or cold?" are not."""
    return classify_question(question) == "verdict" and _NO_VERDICT.search(question) is None


def find_last_sentence(text: str) -> str:
    """Returns the last sentence of a spoken text, without its final mark."""
    found = _LAST.search(text)
    return (found[1] if found else text).strip()


def find_echo(question: str) -> str | None:
    """Returns what is asked for, in the question's words: "how many apples", "which gas", "the capital of France".

    Returns None if that is uncertain, or if the question reads out its options.
    """
    kind = classify_question(question)
    if kind in {"choice", "verdict", "finish", "task"}:
        return None
    sentence = question[len(question) - len(question.rstrip().rsplit(". ", 1)[-1]) :]
    for pattern in (_COUNTED, _NAMED):
        found = pattern.search(sentence)
        if found and not _NO_NOUN & set(found[1].lower().split()[1:]):
            return _lower_start(found[1].strip())
    asked = _ASKED_FOR.search(sentence)
    if asked is None or len(asked[1].split()) > _MAX_NAMED_WORDS:
        return None
    return _lower_start(asked[1])


def _lower_start(text: str) -> str:
    """Returns a text with its first letter in lower case."""
    return text[0].lower() + text[1:]
