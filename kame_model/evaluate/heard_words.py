"""Whether a recogniser hears what the model says by its own text: if not, figures by ear tell of the sound alone."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rapidfuzz.distance import Levenshtein

_MOST_ERRORS: Final = 0.8
"""Of more errors in a word the recogniser hears something else than the text."""


def count_word_errors(text: Sequence[str], heard: Sequence[str]) -> list[int] | None:
    """Wrong, missing and added words of what was heard, and the words of the text; None: it has none."""
    return [Levenshtein.distance(text, heard), len(text)] if text else None


def warn_unheard(rows: Sequence[Mapping[str, Any]], titles: Sequence[str]) -> Iterator[str]:
    """A warning for a report where `heard_word_errors` of rows is above 80 %, with their titles."""
    told = zip(rows, titles, strict=True)
    unheard = dict.fromkeys(title for row, title in told if (row.get("heard_word_errors") or 0.0) > _MOST_ERRORS)
    if unheard:
        yield (
            f"**{'; '.join(unheard)}: what the recogniser writes has little to do with the model's text: figures by "
            "ear tell nothing of this voice.**\n"
        )
