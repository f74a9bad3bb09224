"""How a question is asked aloud: with its options where they are few and short, else opened up to stand alone."""

import random
import re
from collections.abc import Sequence
from typing import Final

from pipelines.script.refusals import NotAskable, any_of
from pipelines.script.spoken import word_set

_NEGATED: Final = any_of(
    r"\b(?:EXCEPT|LEAST|NOT|except for)\b",
    r"\bexcept\b[^.]*[?:]?\s*$",
    r"\b(?:is|are|was|were|does|do|would|could|can|did|has|have|should|may|might|will)(?: not|n't)\b[^.?]*[?:.]?\s*$",
    r"\bcannot\b[^.?]*[?:.]?\s*$",
    r"\bleast (?:likely|accurate|important|appropriate)\b",
    flags=re.NOFLAG,
)
"""Anything else than a listed option would do as an answer."""

_KINDS_OF_TEXT: Final = (
    "(?:statement|sentence|option|choice|answer|expression|equation|list|set|pairs?|graph|combination|sequence"
    "|ordered pair|number|scenario|description|example|situation|conclusion|assertion|claim|quotation|quote|passage"
    "|argument|formula|arrangement|series|order|result|term|value|event|action|fact|interpretation|group|word|phrase"
    "|case|definition|condition|change|type of|property|characteristic|point|item|study|compound|molecule)s?"
)
_NEEDS_OPTIONS: Final = any_of(
    r"\b(?:which|what) (?:one )?of (?:these|those)\b",
    r"\b(?<!hich )one of the following\b",
    r"\b(?:all|any|each|none|two|both|some) of the following\b",
    rf"\b[Ww]hich (?:one )?(?:of the following )?(?:\w+ )?{_KINDS_OF_TEXT}\b",
    r"\b(?:[Ss]elect|[Cc]hoose|[Pp]ick|[Mm]ark) (?:the|all|one|from|an|your)\b",
    r"\bfrom the (?:choices|options|list)\b",
    r"\b(?:following|which) (?:is|are|was|were|would be)?\s*(?:the )?(?:true|false|correct|incorrect|valid|accurate"
    r"|wrong|right|a fact)\b",
    r"\bis (?:true|false|correct|incorrect)\??$",
    r"\b(?:is|are) (?:most )?(?:nearly )?(?:true|correct|accurate)\b[^.]*\?$",
    r"\b[Aa]\) .*\b[Bb]\) |\((?:A|a|i|1)\) .*\((?:B|b|ii|2)\) |\b[Ii]\. .*\b(?:II|ii)\. |\b1[.)] .*\b2[.)] ",
    r"\bthe following\s*[:.?]?\s*$",
    r"\bStatement (?:1|one|I)\b|\b(?:true|correct|false) statement\b",
    flags=re.DOTALL,
)
"""The options, or a list within the question, are what is asked about."""

_WHICH_OF: Final = re.compile(
    r"\b([Ww])hich (?:one )?(?:of|among|amongst) the following,?\s+"
    r"(?:((?:[\w-]+ ){0,3}?)([A-Za-z-]+[^\Wsui_]s)\b(?=\s+([A-Za-z]+))|([A-Za-z-]+))"
)
_VERBISH: Final = word_set(
    "is are was were would will can could may might must should has have had does do did best most more better "
    "correctly accurately describes explains represents provides contains causes occurs shows refers defines "
    "illustrates reflects gives makes produces involves indicates increases decreases results leads allows "
    "requires characterizes applies constitutes exhibits influenced contributed also often always generally "
    "typically usually primarily probably led summarizes supports comes determines identifies helps includes "
    "plays led caused came first gave made became played clearly ultimately directly likely reduces prevents "
    "creates distinguishes demonstrates exemplifies initiated lists affects controls belongs works uses describe "
    "explain represent provide contain cause occur show refer explains"
)
_IMPERATIVE: Final = re.compile(
    r"(?:(?:Then|Also|Now|Please|Hence|Thus|(?:If|For|Using|In|Assuming|Given|From|By|At) [^,]+,)\s+)?"
    r"(?:find|calculate|determine|compute|evaluate|solve|estimate|name|identify|describe|explain|give|state|express"
    r"|convert|simplify|consider|discuss|define|compare|distinguish|outline|trace|account|list|predict|obtain|derive"
    r"|tell|approximate|write|differentiate|integrate|factor|round|show|suggest|assess|rank|classify|specify|use|add"
    r"|subtract|multiply|divide)\b",
    re.IGNORECASE,
)
_LATE_IMPERATIVE: Final = re.compile(r"[,:] (?:then )?(?:find|calculate|compute|determine|evaluate|estimate)\b")
_ASKING: Final = re.compile(
    r"(?:(?:And|So|Then|But|Now),? )?(?:(?:at|in|to|for|on|by|under|of|from|with) )?"
    r"(?:what|which|who|whose|whom|when|where|why|how)\b",
    re.IGNORECASE,
)
_LAST_SENTENCE: Final = re.compile(
    r"(?:.*(?<!\b[A-Zv])(?<!\bvs)(?<!\b[DM]r)(?<!\bMrs)(?<!\bSt)[.?!][\"')]?\s+(?=[A-Z\"'$\d_]))?(.*)", re.DOTALL
)
_FINISH: Final = ("Can you finish this sentence: {stem}?", "How does this sentence end: {stem}?",
                  "How would you finish this: {stem}?")  # fmt: skip
_FILL: Final = ("Fill in the blank: {stem}.", "Can you fill in the blank? {stem}.")
_SHORT_CHOICE: Final = 6
"""Most words of an option in "Is it X, Y, or Z?"; longer ones are announced as choices."""


def tidy(question: str) -> str:
    """The question without its number, points or labels at the edges."""
    text = re.sub(r"^\s*\d+\.\d+-\d+\.?\s+(?=[A-Z])", "", question)
    text = re.sub(r"^\s*(?:Q(?:uestion)?\s*\d*\s*[:.]|\(?\d{1,3}[.)])\s+(?=[A-Z])", "", text.strip())
    return re.sub(r"\s*\(\s*\d+ (?:points?|marks?)\s*\)\s*$", "", text).strip()


def _last_sentence(text: str) -> tuple[str, str]:
    found = _LAST_SENTENCE.fullmatch(text)
    last = found[1] if found else text
    return text[: len(text) - len(last)], last


def _is_blank(text: str) -> bool:
    return re.search(r"_{2,}|\.{5,}", text) is not None


def _small(word: str) -> str:
    """A sentence's first word inside another sentence; capitals stay unless the word is a common one."""
    common = "The|A|An|In|On|At|It|If|When|To|For|By|According|One|Most|Some|All|This|That|There|As|During|After|Under"
    return word.lower() if re.fullmatch(common, word) else word


def _lower_start(text: str) -> str:
    first, space, rest = text.partition(" ")
    return _small(first) + space + rest


def _as_stem(before: str, last: str, rng: random.Random) -> str:
    stem = re.sub(r"[\s:,;.\-–—…_]+$", "", last)
    if not stem or stem.count("(") != stem.count(")"):
        raise NotAskable("not_a_question", last or before)
    return before + rng.choice(_FINISH).format(stem=f"{_lower_start(stem)} what")


def ask_open(question: str, rng: random.Random) -> tuple[str, bool]:
    """A question as it is asked without options, and whether its answer completes a sentence.

    Raises:
        NotAskable: `needs_options` or `not_a_question`.
    """
    text = re.sub(r"\b(?:which|one) (?:one )?of the following\s*[?:.]*$", "what?", tidy(question))
    if needy := _NEEDS_OPTIONS.search(text) or _NEGATED.search(_last_sentence(text)[1]):
        raise NotAskable("needs_options", needy[0][-80:])
    text = _WHICH_OF.sub(_open_which, text)
    if left := re.search(
        r"(?i)\bwhich of the following\b|\b(?:of|is|are|by|as|among) the following\b(?! (?:\w+ )*:)", text
    ):
        raise NotAskable("needs_options", left[0])
    before, last = _last_sentence(text)
    if _is_blank(last):
        stem = last.rstrip(" .:?")
        return before + rng.choice(_FILL).format(stem=stem), True
    if last.endswith("?"):
        return text, False
    bare = last.rstrip(" .:;,")
    if _ASKING.match(bare):
        return f"{before}{bare}?", False
    if _IMPERATIVE.match(bare) or _LATE_IMPERATIVE.search(bare):
        return f"{before}{bare}.", False
    if last.endswith((".", "!", '"')) or re.search(r"\?\s", text) or _is_blank(text):
        raise NotAskable("not_a_question", last[-80:])
    return _as_stem(before, last, rng), True


def _open_which(match: re.Match[str]) -> str:
    """ "Which of the following is ..." asks what; "which of the following gases is ..." asks which gas."""
    start, between, noun, verb, only = match.groups()
    first = (only or between or noun).split()[0].lower()
    if first in _VERBISH:
        return f"{'What' if start == 'W' else 'what'} {only or between + noun}"
    if only:
        return f"{start}hich {only}"
    return f"{start}hich {between}{noun if verb in {'are', 'were', 'have', 'do'} else _singular(noun)}"


def _singular(noun: str) -> str:
    if noun.endswith("ies"):
        return noun[:-3] + "y"
    if re.search(r"(?:x|ch|sh|ss)es$", noun):
        return noun[:-2]
    return noun[:-1] if re.search(r"[^sui]s$", noun) else noun


def ask_true_or_false(question: str) -> str:
    """A statement put to someone as true or false.

    Raises:
        NotAskable: it is not one statement.
    """
    text = re.sub(
        r"^(?:True or false|T/F)\s*[:?.]\s*|\s*\(?True or false\)?\s*[?.]?$", "", tidy(question), flags=re.IGNORECASE
    )
    if re.search(r"\bStatement (?:1|one|I)\b|\|", text):
        raise NotAskable("needs_options", text[:80])
    return f"{text} True or false?" if text.endswith("?") else f"True or false: {_lower_start(text.rstrip(' .:'))}."


def ask_with_options(question: str, options: Sequence[str]) -> tuple[str, bool]:
    """A question with its options read out, and whether the answer completes a sentence."""
    text = tidy(question)
    choices = [re.sub(r"[\s.;,]+$", "", option.strip()) for option in options]
    listed = f"{', '.join(choices[:-1])}, or {choices[-1]}"
    before, last = _last_sentence(text)
    if re.search(r"\bwhich (?:one )?of the following\b", last, re.IGNORECASE) and re.search(r"[?:.]?$", last):
        asked = re.sub(r"\b([Ww])hich (?:one )?of the following\b", r"\1hich of these", last).rstrip(" ?:.")
        return f"{before}{asked}: {listed}?", False
    if _is_blank(text):
        return f"Fill in the blank: {text.rstrip(' .:?')}. The choices are: {listed}.", True
    is_short = all(len(choice.split()) <= _SHORT_CHOICE for choice in choices)
    bare = last.rstrip(" .:;,")
    if last.endswith("?") or _ASKING.match(bare) or _IMPERATIVE.match(bare):
        asked = before + (last if last.endswith("?") else bare + ("?" if _ASKING.match(bare) else "."))
        return f"{asked} Is it {listed}?" if is_short else f"{asked} The choices are: {listed}.", False
    if last.endswith((".", "!", '"')):
        raise NotAskable("not_a_question", last[-80:])
    return f"{before}{bare}: {listed}?", True
