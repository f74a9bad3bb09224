"""Compares a recogniser's words with the model's own text; a high error rate means that its audio is unintelligible."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rapidfuzz.distance import Levenshtein

_MOST_ERRORS: Final = 0.8
"""Word error rate above which the recogniser's words have little to do with the text."""


def count_word_errors(text: Sequence[str], heard: Sequence[str]) -> list[int] | None:
    """Returns [word errors (substitutions, deletions, insertions), words of the text]; None if the text has none."""
    return [Levenshtein.distance(text, heard), len(text)] if text else None


def warn_unheard(rows: Sequence[Mapping[str, Any]], titles: Sequence[str]) -> Iterator[str]:
    """Yields at most one warning for a report, which names the rows whose `heard_word_errors` is above 80 %.

    Args:
        rows: rows of figures.
        titles: the title of each row.
    """
    titled_rows = zip(rows, titles, strict=True)
    unheard = dict.fromkeys(title for row, title in titled_rows if (row.get("heard_word_errors") or 0.0) > _MOST_ERRORS)
    if unheard:
        yield (
            f"**{'; '.join(unheard)}: what the recogniser hears has little to do with the model's text, so figures "
            "by the recogniser are not meaningful for this voice.**\n"
        )
