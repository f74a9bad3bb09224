"""Words that are none: two or more run together by a source that lost its spaces."""

import re
from typing import Final

from pipelines.script.spoken import word_set

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
    r"|Whats|Power|Git|Snap|Tik|Door|Fed|Quick)[A-Z][A-Za-z]*"
    r"|[a-z][A-Z][a-z]{2,}|apo[A-E]|[a-z]{1,3}[DR]NA(?:s|se|ses)?|[a-z]{1,2}[A-Z]|pKa|pKb|[kMGT]eV|CoA|PhDs?|La[A-Z]eX|[A-Z][a-z]Xs?"
)
"""Names with a capital inside, products and quantities with one small letter before: "McDonald", "iPhone", "pH"."""

_NOT_A_NAME: Final = re.compile(r"a[A-Z][a-z]{2,}")
"""The article and a name: "aRogerian"."""

_GLUED: Final = re.compile(
    r"(?:in|of|for|to|on|at|by|from|with|and|is|that)the|themost"
    r"|(?:what|how|it|there|this|that)(?:is|are|was|would|will)"
    r"|[a-z]{3,}(?:ofthe|would|should|which)|[a-z]{5,}inthe|[a-z]{8,}this",
    re.IGNORECASE,
)
"""Frequent small words without the space beside them; none of the CMU dictionary's words matches."""


def is_run_together(word: str) -> bool:
    """Whether a word of ASCII letters has surely lost a space inside."""
    if len(word) > _MAX_LETTERS and word.lower() not in _LONG_WORDS:
        return True
    if re.search("[a-z][A-Z]", word) and (not _CAPITAL_INSIDE.fullmatch(word) or _NOT_A_NAME.fullmatch(word)):
        return True
    return _GLUED.fullmatch(word) is not None
