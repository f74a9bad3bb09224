"""Words that voices and aligners are given in another spelling, by which they say and find them right.

A dialogue holds the true words ("Nietzsche"); the other spelling ("Neecha") goes to the synthesiser and the aligner
(`pipelines.speech.spelt`) and to nobody else.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from data_schemas import ids
from spoken.spoken_text import WORD


@dataclass(frozen=True)
class Pronunciations:
    """Spoken words, as they stand in a text, and how each is spelt for engines: as one word or several."""

    spelt: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """What identifies its content; part of the digest of engines that are told these spellings."""
        return ids.digest("pronunciations", sorted(self.spelt.items()))

    def respell_word(self, word: str) -> str:
        """How one spoken word is spelt, also with "'s" at its end; itself where nothing else is known of it."""
        plain = word.removesuffix("'s")
        return self.spelt[plain] + word[len(plain) :] if plain in self.spelt else word

    def respell_text(self, spoken_text: str) -> str:
        """A spoken text as engines are told it, marks and all."""
        return re.sub(WORD, lambda match: self.respell_word(match[0]), spoken_text)

    def respell_words(self, words: Iterable[str]) -> list[list[str]]:
        """The words that engines are told for each word."""
        return [self.respell_word(word).split() for word in words]
