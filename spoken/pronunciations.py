"""Respelt words, with which speech engines and aligners pronounce and find them correctly.

A dialogue has the true words ("Nietzsche"); only the synthesiser and the aligner get the other spelling ("Neecha",
`pipelines.speech.spelt`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from data_schemas import ids
from spoken.spoken_text import WORD


@dataclass(frozen=True)
class Pronunciations:
    """Spoken words, as in a text, and their spellings for engines: one word or several."""

    spelt: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Digest of its content; part of the digest of engines that use these spellings."""
        return ids.digest("pronunciations", sorted(self.spelt.items()))

    def respell_word(self, word: str) -> str:
        """Returns the spelling of a word for engines, also with "'s" at its end; the word itself if it has none."""
        plain = word.removesuffix("'s")
        return self.spelt[plain] + word[len(plain) :] if plain in self.spelt else word

    def respell_text(self, spoken_text: str) -> str:
        """Returns a spoken text with its words in their spelling for engines, and its punctuation."""
        return re.sub(WORD, lambda match: self.respell_word(match[0]), spoken_text)

    def respell_words(self, words: Iterable[str]) -> list[list[str]]:
        """Returns, for each word, the words of its spelling for engines."""
        return [self.respell_word(word).split() for word in words]
