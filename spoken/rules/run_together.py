"""Recognises words that have lost a space inside ("whatis", "productsA"), which no reading can repair."""

import re
from typing import Final

from spoken.spoken_text import make_word_set

_MAX_LETTERS: Final = 20
"""Of 126,000 words of the CMU dictionary, two are longer; of such words in MMLU-Pro, nine of ten have lost a space."""

_LONG_WORDS: Final = make_word_set(
    "deinstitutionalization deinstitutionalisation hypercholesterolaemia dehydroepiandrosterone "
    "counterrevolutionaries electroencephalographic electroencephalography antidisestablishmentarianism "
    "psychopharmacological otorhinolaryngologist incomprehensibilities spectrophotometrically interdenominationally "
    "pseudohypoparathyroidism interdisciplinarities phosphatidylethanolamine esophagogastroduodenoscopy"
)
_CAPITAL_INSIDE: Final = re.compile(
    r"(?:Mc|Mac|De|La|Le|Di|Da|Du|Van|Von|Fitz|You|Pay|Face|Go|Java|Play|Micro|Star|Air|Ge|Gi|Ce|Wi|Ad|Open|Linked"
    r"|Whats|Power|Git|Snap|Tik|Chat|Type|Post|Space|Deep|Mongo|Web|Drop|Stack|Fire|Word|Sound|Black"
    r"|Door|Fed|Quick|Goo|Tre|Epi|Coin|Mega|Check)[A-Z][A-Za-z]*"
    r"|[a-z][A-Z][a-z]{2,}|apo[A-E]|[a-z]{1,3}[DR]NA(?:s|se|ses)?|[a-z]{1,2}[A-Z]|pKa|pKb|pOH|[kMGT]eV|CoA|PhDs?"
    r"|(?:H|Na)OAc|La[A-Z]eX|[A-Z][a-z]Xs?|ReLUs?"
)
"""Names with a capital inside, products and quantities with one small letter before: "McDonald", "iPhone", "pH"."""

_ENZYME: Final = re.compile("[A-Z][a-z]?s$|[DR]NAi$|[A-Z]{2}A?ses?$|[A-Z]ases?$")
"""The plural of an abbreviation, or an enzyme: "DNAs", "ATPase"."""

_NOT_A_NAME: Final = re.compile(r"a[A-Z][a-z]{2,}")
"""An article and a name: "aRogerian"."""

_GLUED: Final = re.compile(
    r"(?:what|how|it|there|this|that)(?:is|are|was|would|will)"
    r"|[a-z]{3,}(?:ofthe|would|should|which)|[a-z]{5,}inthe|[a-z]{8,}this",
    re.IGNORECASE,
)
"""Frequent small words without their space; no word of the CMU dictionary matches."""

_LETTER_AND: Final = re.compile(
    r"[A-Za-z][A-Z](?:and|is|in|of|for|with|to|at|the|from|if|as|are|has)|(?:of|is|in|at|by|if|as|or|an|on)[A-Z]"
)
"""A symbol joined to a small word: "tAand", "ofE"."""


def is_run_together(word: str) -> bool:
    """Returns whether the letters of a word show that it lost a space: "whatis", "productsA"; "isthe" is not found."""
    if len(word) > _MAX_LETTERS and word.lower() not in _LONG_WORDS:
        return True
    if re.search("[A-Z]{2,}[a-z]{2,}", word) and not _ENZYME.search(word):
        return True
    if re.fullmatch("(?:If|In|For|The|Of|Is)[A-Z]+", word) or _LETTER_AND.fullmatch(word):
        return True
    if re.search("[a-z][A-Z]", word) and (not _CAPITAL_INSIDE.fullmatch(word) or _NOT_A_NAME.fullmatch(word)):
        return True
    return _GLUED.fullmatch(word) is not None
