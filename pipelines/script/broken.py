"""Words that lost a space: parted where that is sure, else found, so that the text can be refused."""

import re
from typing import Final

from pipelines.script.spoken import word_set
from pipelines.script.traced import Traced

_MAX_LETTERS: Final = 20
"""Of 126,000 words of the CMU dictionary two are longer; of those in MMLU-Pro that are, nine of ten lost a space."""

_LONG_WORDS: Final = word_set(
    "deinstitutionalization deinstitutionalisation hypercholesterolaemia dehydroepiandrosterone "
    "counterrevolutionaries electroencephalographic electroencephalography antidisestablishmentarianism "
    "psychopharmacological otorhinolaryngologist incomprehensibilities spectrophotometrically interdenominationally "
    "pseudohypoparathyroidism interdisciplinarities phosphatidylethanolamine esophagogastroduodenoscopy"
)
_CAPITAL_INSIDE: Final = re.compile(
    r"(?:Mc|Mac|De|La|Le|Di|Da|Du|Van|Von|Fitz|You|Pay|Face|Go|Java|Play|Micro|Star|Air|Ge|Gi|Ce|Wi|Ad|Open|Linked"
    r"|Whats|Power|Git|Snap|Tik|Door|Fed|Quick|Goo|Tre|Epi|Coin|Mega|Check)[A-Z][A-Za-z]*"
    r"|[a-z][A-Z][a-z]{2,}|apo[A-E]|[a-z]{1,3}[DR]NA(?:s|se|ses)?|[a-z]{1,2}[A-Z]|pKa|pKb|pOH|[kMGT]eV|CoA|PhDs?"
    r"|La[A-Z]eX|[A-Z][a-z]Xs?|ReLUs?"
)
"""Names with a capital inside, products and quantities with one small letter before: "McDonald", "iPhone", "pH"."""

_NOT_A_NAME: Final = re.compile(r"a[A-Z][a-z]{2,}")
"""The article and a name: "aRogerian"."""

_SMALL_WORDS: Final = (
    "is|in|of|the|and|to|by|from|with|for|that|does|do|or|an|on|at|if|when|what|how|as|are|was|were|than|which|who"
    "|has|have|had|not|be|it|its|this|if|did|can|nor|but|into|about|given|assume|assuming|value|values|called|named"
    "|where|rate|constant|about|molar|atomic|contains|find|using"
)
_PARTED_CAPITAL: Final = re.compile(rf"(?<![A-Za-z'])({_SMALL_WORDS})(?=[A-Z][a-z]{{2,}}|[A-Z]{{1,2}}(?![A-Za-z]))")
_PARTED_AFTER_WORD: Final = re.compile(r"(?<![A-Za-z])([a-z]{4,})(?=[A-Z](?![A-Za-z]))")
"""A whole word and one capital: "productsA"."""

_PARTED_ARTICLE: Final = re.compile(r"(?<![A-Za-z'])(a)(?=[A-Z][a-z]{3,})")
_PARTED_THE: Final = re.compile(
    r"\b(in|of|for|to|on|at|by|from|with|and|is|that)(the)\b(?!')|\b(the)(most|following|same)\b"
    r"|\b(what|how|there|this|that)(is|are|was|were|would|will)\b",
    re.IGNORECASE,
)
_KEPT_WHOLE: Final = word_set("tothe withthe")
_DIGITS_AFTER: Final = re.compile(rf"(?<![A-Za-z\d])((?:{_SMALL_WORDS}|[a-z]{{4,}}|[A-Z][a-z]{{3,}}))(?=\d)")
_DIGITS_BEFORE: Final = re.compile(r"(?<![A-Za-z_^])(\d+(?:\.\d+)?)(?=(?!th\b)[a-z]{4,}(?![\d_^(]))")
_GLUED: Final = re.compile(
    r"(?:what|how|it|there|this|that)(?:is|are|was|would|will)"
    r"|[a-z]{3,}(?:ofthe|would|should|which)|[a-z]{5,}inthe|[a-z]{8,}this",
    re.IGNORECASE,
)
"""Frequent small words without the space beside them; none of the CMU dictionary's words matches."""


def mend_words(text: Traced) -> Traced:
    """Spaces put back where only one reading is left: "in3 years", "fromthe", "isLiberman", "last10years"."""
    text = text.sub(_PARTED_THE, lambda m: " ".join(part for part in m.groups() if part))
    text = text.sub(_PARTED_CAPITAL, r"\1 ").sub(_PARTED_AFTER_WORD, r"\1 ").sub(_PARTED_ARTICLE, r"\1 ")
    text = text.sub(_DIGITS_AFTER, r"\1 ").sub(_DIGITS_BEFORE, r"\1 ")
    return text.sub(r"(?<=[A-Za-z,;])(_{2,})|(_{2,})(?=[A-Za-z])", lambda m: f" {m[0]} ")


def is_run_together(word: str) -> bool:
    """Whether a word of ASCII letters has surely lost a space inside."""
    if len(word) > _MAX_LETTERS and word.lower() not in _LONG_WORDS:
        return True
    if re.search("[A-Z]{2,}[a-z]{2,}", word) and not re.search("[A-Z][a-z]?s$|[DR]NA(?:ses?|ases?|i)$", word):
        return True
    if re.fullmatch("(?:If|In|For|The|Of|Is)[A-Z]+", word):
        return True
    if re.search("[a-z][A-Z]", word) and (not _CAPITAL_INSIDE.fullmatch(word) or _NOT_A_NAME.fullmatch(word)):
        return True
    return _GLUED.fullmatch(word) is not None
