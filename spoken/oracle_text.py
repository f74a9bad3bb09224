"""Filters a chat model's answer while it is being written: only whole sentences within a word limit become oracle text.

Training filters the finished answer (`pipelines.oracle.validate`); the live server filters a stream, with the same
result. The first sentence is released word by word, except for words that may begin a refusal to answer; each later
sentence is released when it is complete. Words that say "I don't know" are held back until the model guesses anyway.
"""

from collections.abc import Sequence
from typing import Final

import regex  # type: ignore[import-untyped]

from data_schemas.errors import RequestError
from spoken.refusals import IS_UNSURE, REFUSAL, find_refusal

ENDS_SENTENCE: Final = (".", "?", "!")
_REFUSES: Final = regex.compile(REFUSAL)  # `re` finds no beginnings of refusals
_IS_UNSURE: Final = regex.compile(IS_UNSURE)
_MARKS: Final = ",.?!;:"
_REFUSED: Final = "The chat model refuses to answer."


def count_usable_words(words: Sequence[str], max_words: int, *, is_ended: bool) -> int:
    """Returns the number of words of the first whole sentences that fit the limit; 0 if not even the first one fits.

    Args:
        words: spoken words of the answer, with their punctuation.
        max_words: the word limit.
        is_ended: whether the answer is complete, so that its last word ends a sentence even without punctuation.
    """
    for n_words in range(min(max_words, len(words)), 0, -1):
        if words[n_words - 1].endswith(ENDS_SENTENCE) or (is_ended and n_words == len(words)):
            return n_words
    return 0


class UnusableAnswer(RequestError):
    """The answer would have been rejected in training. The back-end works, and asking again would return the same."""


class OracleTextFilter:
    """Filters one answer as its spoken words arrive.

    Args:
        max_words: the word limit.

    Attributes:
        is_over: the answer has ended or reached the limit; no further words are released.
    """

    def __init__(self, max_words: int) -> None:
        self.is_over = False
        self._max_words = max_words
        self._words: list[str] = []
        self._n_out = 0  # words that were released
        self._n_whole = 0  # words of whole sentences

    def add_words(self, said: str) -> str:
        """Adds words of the answer, and returns all that can be released now, each followed by a space; "" if none.

        Words that come when the filter is over are ignored.

        Raises:
            UnusableAnswer: the model refuses to answer.
        """
        for word in said.split():
            if not self.is_over:
                self._add_word(word)
        return self._release(self._count_sure_words())

    def drop_open_sentence(self) -> None:
        """Discards the unreleased words of the current sentence, which cannot be spoken to its end."""
        del self._words[max(self._n_whole, self._n_out) :]

    def finish(self, *, is_cut: bool) -> str:
        """Returns the words that are still to be released at the end of the answer, each followed by a space.

        If the answer was cut off or has reached the word limit, an incomplete last sentence is dropped, unless it is
        the first.

        Raises:
            UnusableAnswer: it was cut off in its first sentence before any word was released, or it refuses to answer.
        """
        if is_cut and not (self._n_whole or self._n_out):
            raise UnusableAnswer("The answer was cut off in its first sentence.")
        is_open = self.is_over or is_cut
        self.is_over = True
        n_words = (self._n_whole or self._count_sure_words()) if is_open else len(self._words)
        if find_refusal(" ".join(self._words[:n_words])):
            raise UnusableAnswer(_REFUSED)
        return self._release(n_words)

    def _add_word(self, word: str) -> None:
        """Adds one word; at the word limit it is discarded, and the filter is over.

        Raises:
            UnusableAnswer: the words so far refuse to answer.
        """
        if len(self._words) == self._max_words:
            self.is_over = True
            return
        self._words.append(word)
        if _REFUSES.search(self._join_plain()):
            self.is_over = True
            raise UnusableAnswer(_REFUSED)
        self._n_whole = count_usable_words(self._words, self._max_words, is_ended=False)
        self.is_over = self._n_whole == self._max_words

    def _count_sure_words(self) -> int:
        """Returns how many words can be released now: whole sentences, or the first one up to a possible refusal."""
        n_words = self._n_whole or len(self._words)
        text = "".join(f"{word.lower()} " for word in self._words[:n_words])
        unsure = _IS_UNSURE.search(text, partial=not self._n_whole)
        if unsure and (unsure.partial or find_refusal(text)):
            n_words = len(text[: unsure.start()].split())
        begun = None if self._n_whole else _REFUSES.search(plain := self._join_plain(), partial=True)
        return n_words if begun is None else min(n_words, len(plain[: begun.start()].split()))

    def _join_plain(self) -> str:
        """Returns the words in lower case without punctuation, each followed by a space."""
        return "".join(f"{word.strip(_MARKS).lower()} " for word in self._words)

    def _release(self, n_words: int) -> str:
        """Releases the first `n_words` words; returns those not released before, each followed by a space."""
        new = self._words[self._n_out : n_words]
        self._n_out = max(self._n_out, n_words)
        return "".join(f"{word} " for word in new)
