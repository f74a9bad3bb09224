"""What the last line of a solution states, as one sentence that says the result once.

A solution ends "So he has 40 - 10 = $30 left"; a person who has worked that out says "He has $30 left". A sentence is
made only where the line is plain enough for that; elsewhere the number is better said alone.
"""

import re
from typing import Final

from spoken.spoken_text import word_set

NUMBER: Final = r"(?<![\w.,])-?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)"
"""A written number that is no part of another."""

_FIGURE: Final = r"(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)"
_QUANTITY: Final = rf"\(*[$£€]? ?{_FIGURE}(?:/\d+)?[%$]?(?: ?[A-Za-z]+\.?(?:[ /-][a-z]+){{0,3}})?\)*%?"
_OPERATION: Final = rf"{_QUANTITY}(?:\s*[-+*/x×X÷–−]\s*{_QUANTITY})+"
_EQUATION: Final = re.compile(
    rf"(?<![\w.,$£€])(?:{_OPERATION}\s*=\s*)*(?P<worked>{_OPERATION})\s*=\s*(?P<result>[$£€]? ?{_FIGURE})"
)
"""A calculation of numbers alone, each with a word or two for what it counts, and what it comes to."""

_CONCLUDES: Final = re.compile(
    r"^(?:.* )?\b(?:so|thus|therefore|hence|which means(?: that)?|meaning(?: that)?|this means(?: that)?"
    r"|that means(?: that)?)\b,? (?!that\b|much\b|many\b|far\b|as\b|is\b|are\b)",
    re.IGNORECASE,
)
_CONNECTIVES: Final = re.compile(
    r"^(?:(?:so|thus|therefore|hence|then|finally|now|and|but|or|consequently|in conclusion|lastly|next|accordingly"
    r"|also|meaning|(?:this|that|it|which) (?:means|implies)|as a result|from this|from there|in other words"
    r"|afterwards?|after that)\b,? (?:that |then )?)+",
    re.IGNORECASE,
)
_CONDITION: Final = re.compile(
    r"^(?:since|because|as|if|when|given that|seeing as)\b.*, (?:then )?((?:[^,]|,(?=\d))+)$", re.IGNORECASE
)
_REASON: Final = re.compile(r",? because\b.*|, (?:since|as) .*")
_IS: Final = re.compile(rf"(?<=[a-z]{{2}}) ?= ?(?=[$£€]?{_FIGURE})")

_FINITE: Final = word_set(
    "is are was were will would can could should must has have had does do did equals becomes became needs costs takes "
    "pays spends makes earns buys gets saves eats sells weighs receives leaves contains collects gives owes lasts "
    "went took got bought sold gave drove drank wrote won ran lost ate caught threw"
)
"""Verbs that end what a sentence is about, wherever they stand."""

_PAST: Final = word_set(
    "spent paid made earned used received scored saved kept read found contained left needed lasted cost sent swam "
    "rode grew drew built brought taught slept"
)
"""Pasts that may also be participles: "the amount spent $45" is no sentence."""

_SUBJECTS: Final = word_set("he she they it there i who")
_BEFORE_VERB: Final = _SUBJECTS | word_set(
    "will would can could should must to did does do not still only now then each"
)
_JOINS: Final = word_set(
    "of for by in at to with only about another exactly just up worth performing him her them me an a additional extra "
    "or still currently now be been cost costs"
)
"""Words beside verbs that a result may follow."""

_MEASURED: Final = re.compile(
    r"(?:(?:the|his|her|their|its|each|\w+'s) )?(?:\w+ ){0,3}?(?:total|sum|number|amount|cost|price|time|difference"
    r"|weight|distance|profit|money|rest|percentage|score|average)\b",
    re.IGNORECASE,
)
_NO_SENTENCE: Final = re.compile(
    r"[^A-Za-z\d ,.$£€%'-]|\d ?-(?![a-z])|-\d|\d \d|\b(?![ai]\b)[a-z]\b(?!')|(?<![a-z])'(?!s\b)"
    r"|\b(?:we|us|you|your|let|equations?|answer|sides|divid\w+|multipl\w+|subtract\w*|add|adding|equal|find|solve"
    r"|calculate|which|respectively|fraction)\b"
    r"|\b(?:has|have|had|is|are|was|were|spent|paid|be|pay|of) is\b|[a-z]\. ",
    re.IGNORECASE,
)
_NO_START: Final = re.compile(
    r"(?:and|but|will|that the|if|since|because|when|as|while|given|is|are|this|these|those|total|number|result|take"
    r"|use|convert|combine|\w+ing)\b",
    re.IGNORECASE,
)
_NUMBER_FIRST: Final = re.compile(r" (?:[a-z]+ ){1,4}?(?:is|are|was|were|will|can|would|could|remain(?:s|ed)?)\b")
_COUNTED_TWICE: Final = re.compile(r"\b(?:number|amount) of (?:\w+ )?(\w+)\b.* \1$")
"""The number of roses is twenty two roses."""
_MAX_WORDS: Final = 24


def same_number(left: str, right: str) -> bool:
    """Whether two written numbers are the same: "1,200" and "1200.00"."""
    try:
        return float(left.replace(",", "")) == float(right.replace(",", ""))
    except ValueError:
        return False


def sentence_of(line: str, number: str) -> str | None:
    """The last line of a solution as one plain sentence that has the number once; None where it is not plain enough."""
    line = line.replace("’", "'").strip().rstrip(" .:,;")
    text = _EQUATION.sub(lambda found: _worked_out(found, number), line)
    text = _REASON.sub("", _CONNECTIVES.sub("", _CONCLUDES.sub("", text)))
    text = " ".join(_IS.sub(" is ", _CONDITION.sub(r"\1", text)).split())
    places = [found for found in re.finditer(NUMBER, text) if same_number(found[0], number)]
    if len(places) != 1 or len(text.split()) > _MAX_WORDS or _NO_START.match(text):
        return None
    if _NO_SENTENCE.search(text) or _COUNTED_TWICE.search(text):
        return None
    before, after = text[: places[0].start()].rstrip(" $£€"), text[places[0].end() :]
    is_stated = _states(before) if before else _NUMBER_FIRST.match(after) is not None
    return f"{text[:1].upper()}{text[1:]}" if is_stated else None


def calculation_of(line: str, number: str) -> str | None:
    """The calculation that comes to the number, as "40 - 10"; None where the line has none."""
    worked = [found["worked"].strip() for found in _EQUATION.finditer(line) if _comes_to(found, number)]
    return worked[-1] if worked else None


def _worked_out(found: re.Match[str], number: str) -> str:
    """What an equation comes to, where that is the number; another is left as it stands."""
    return f" {found['result']}" if _comes_to(found, number) else found[0]


def _comes_to(found: re.Match[str], number: str) -> bool:
    return same_number(found["result"].strip("$£€ "), number)


def _states(before: str) -> bool:
    """Whether the words before a result are a subject with its verb, to the last of which a result is joined."""
    words = [word.strip(",").lower() for word in before.split()]
    is_named = before[:1].isupper() and words[0] not in _FINITE and _MEASURED.match(before) is None
    verbs = {at for at, word in enumerate(words) if word in _FINITE}
    verbs |= {at + 1 for at, word in enumerate(words[:-1]) if word in _SUBJECTS}
    if is_named:
        verbs |= {at for at, word in enumerate(words) if word in _PAST or word.endswith("ed")}
    last = words[-1]
    is_verb_place = len(words) > 1 and words[-2] in _BEFORE_VERB
    is_joined = last in _JOINS | _FINITE | _PAST or last.endswith("ed") or is_verb_place
    return is_joined and not before.endswith(",") and bool(verbs - {0})
