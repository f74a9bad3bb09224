"""Splits streamed text into sentences, each as soon as it is complete."""

import re
from typing import Final

from spoken.plain_text import strip_markdown
from spoken.sentences import find_sentence_end

MOST_CHARS: Final = 240
"""A longer sentence is split after a clause, or else after a word: about 15 s of speech to wait for."""

_CLAUSE = re.compile(r"[,;:—](?=\s)")
_FENCE = "```"
_NO_WORDS = " *_`#-"
"""The characters of a line between paragraphs, and leftover marks."""


class SentenceSplitter:
    """Splits a text that arrives in pieces into sentences, without Markdown and code blocks, which are not spoken."""

    def __init__(self) -> None:
        self._text = ""
        self._is_code = False  # inside a code block, which is not read out
        self._is_opening = False  # still in the line that opened it, in which it may end anywhere

    def add(self, piece: str) -> list[str]:
        """Adds a piece; returns the sentences that it completes, without Markdown and code blocks. An uncertain end
        waits: "3." may become "3.5". An unfinished sentence of more than `MOST_CHARS` is returned in parts.
        """
        self._text += piece
        found: list[str] = []
        while (end := self._find_end()) is not None:
            found.append(self._text[:end])
            self._text = self._text[end:]
        return [each for each in map(self._clean_sentence, found) if each]

    def take_rest(self) -> str:
        """Returns the remaining text without Markdown, at the end of the answer; it may be empty."""
        text, self._text = self._text, ""
        return self._clean_sentence(text)

    def _clean_sentence(self, sentence: str) -> str:
        """Returns the spoken part of a sentence, which is empty in a code block.

        A fence at its start begins or ends a code block; a block of one line ends at the next fence in the line. What
        follows the end is spoken.
        """
        starts_with_fence = sentence.lstrip().startswith(_FENCE)
        if not self._is_code:
            if not starts_with_fence:
                return _remove_markup(sentence)
            self._is_code = self._is_opening = True
            sentence, starts_with_fence = sentence.partition(_FENCE)[2], False
        if starts_with_fence or (self._is_opening and _FENCE in sentence):
            self._is_code = False
            # "```python" in a block can only be a fence, also where a model forgot the one before
            return self._clean_sentence(sentence.partition(_FENCE)[2]) if strip_markdown(sentence) else ""
        self._is_opening = self._is_opening and not sentence.endswith("\n")
        return ""

    def _find_end(self) -> int | None:
        """Returns the index of the end of the first sentence, or where too long a one is split; None: not yet known."""
        end = find_sentence_end(self._text)
        return _find_cut(self._text) if end is None and len(self._text) > MOST_CHARS else end


def _remove_markup(sentence: str) -> str:
    """Returns the spoken part of a sentence, which may be empty."""
    plain = strip_markdown(sentence).strip()
    return plain if plain.strip(_NO_WORDS) else ""


def _find_cut(text: str) -> int:
    """Returns the index at which too long a text is split: in its first `MOST_CHARS` characters, after the last comma
    or the like, else at the last space, else after all of them.
    """
    head = text[:MOST_CHARS]
    clauses = [match.end() for match in _CLAUSE.finditer(head)]
    return clauses[-1] if clauses else head.rfind(" ") if " " in head.strip() else MOST_CHARS
