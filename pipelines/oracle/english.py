"""Detects whether a few spoken words are English, by a dictionary and by function words of other languages.

The dictionary (CMU's, 125,000 words) has names from all countries, so half the words of a German sentence may be in it;
function words are better evidence. Nearly all words of both lists are not English; those that also occur in English
names count less.
"""

from collections.abc import Sequence, Set
from typing import Final

from pipelines.vocabulary import is_word
from spoken.spoken_text import make_word_set

MIN_WORDS: Final = 4
"""Texts with fewer words are not judged, since names and numbers alone look like any language."""
MOST_FOREIGN: Final = 0.25
"""Share of words from which a text with a foreign function word is not English."""
MOST_UNKNOWN: Final = 0.5
"""Share of unknown words above which a text without one is not English: scientific terms are in no dictionary either.
"""

_TELLING: Final = make_word_set(
    "ich ist das und nicht ein eine einen einem dem wie auch wir sie wird auf "  # German
    "het een niet zijn wordt ook maar hij dat deze voor naar "  # Dutch
    "est une dans avec qui pas sont cette ils elle nous vous "  # French
    "que una para pero muy esta tiene "  # Spanish
    "il che della sono molto nel gli uno "  # Italian
    "uma nao mais tem voce "  # Portuguese
    "jest nie tak jego att det som inte "  # Polish, Swedish
)
_IN_NAMES: Final = make_word_set("de la le les las los des el en van von der den di da du et un se es del al och como")


def is_english(words: Sequence[str], known: Set[str] = frozenset()) -> bool:
    """Returns whether a text is English, given its words in lower case; fewer than `MIN_WORDS` always count as English.

    Args:
        known: words that the speakers themselves said, which never count as foreign.
    """
    if len(words) < MIN_WORDS:
        return True
    own = [word for word in words if word not in known]
    telling = sum(word in _TELLING for word in own)
    odd = sum(word in _IN_NAMES or not is_word(word) for word in own if word not in _TELLING)
    if telling:
        return telling + odd < MOST_FOREIGN * len(words)
    return odd <= MOST_UNKNOWN * len(words)
