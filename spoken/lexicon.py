"""Lexicon of names and terms that the rules or the speech engines would read incorrectly.

A lexicon is a file with lines `written<TAB>said`; lines that start with `#` are comments. The written form is matched
exactly, as a whole word (also before "'s"); the spoken form is words of ASCII letters, which become the dialogue's
words. If engines mispronounce such a word, a third column respells it for them: `Gödel<TAB>Godel<TAB>Gurdel` keeps
"Godel" in the row, and "Gurdel" is spoken. The default is `lexicon.tsv` beside this file.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from data_schemas import ids
from data_schemas.errors import ConfigError
from spoken.pronunciations import Pronunciations
from spoken.spoken_text import Unspeakable
from spoken.written.traced import TracedText

DEFAULT_LEXICON: Final = Path(__file__).with_name("lexicon.tsv")
_SAID: Final = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*(?: [A-Za-z]+(?:'[A-Za-z]+)*)*")
_CONSONANT: Final = re.compile(r"[b-df-gj-np-tv-z][a-z]+\b")
"""Start of a spoken form that is a word, while the written form may begin with the name of a letter: "mRNA"."""

_N_COLUMNS: Final = 3
_MAX_WRITTEN: Final = 80
_FIRST: Final = 0xE100
_PLACES: Final = 0xF8FF - _FIRST
"""Characters of the private use area replace entries while the rules read the rest; a text must not have any."""

_REMEDY: Final = (
    "Write one entry per line, `written<TAB>said`, such as `kg<TAB>kilograms`; for a word that should only sound "
    "different, add its spelling for engines in a third column, such as `Goethe<TAB>Goethe<TAB>Gerta`."
)


@dataclass(frozen=True)
class Lexicon:
    """Written forms with their spoken forms; and respellings of some spoken words for engines."""

    entries: Mapping[str, str]
    spelt: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Digest of its entries; part of the script stage's fingerprint. Respellings do not change a script."""
        return ids.digest("lexicon", sorted(self.entries.items()))

    @property
    def pronunciations(self) -> Pronunciations:
        """Its respellings, for text-to-speech, aligners and recognisers."""
        return Pronunciations(self.spelt)

    def merge_over(self, other: "Lexicon") -> "Lexicon":
        """Returns a lexicon with the entries of both; those of this one have priority.

        A respelling of the other lexicon is dropped if the word is a spoken form of this one.
        """
        said = set(self.entries.values())
        kept = {word: spelt for word, spelt in other.spelt.items() if word not in said}
        return Lexicon({**other.entries, **self.entries}, {**kept, **self.spelt})

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        """Pattern that matches every written form as a whole word, the longest first; None without entries."""
        if not self.entries:
            return None
        forms = "|".join(re.escape(form) for form in sorted(self.entries, key=len, reverse=True))
        return re.compile(rf"(?<![A-Za-z\d])(?:{forms})(?=(?:'s)?(?![A-Za-z\d]))")

    def replace_entries(self, text: TracedText) -> tuple[TracedText, dict[str, str]]:
        """Replaces each written form of an entry by one character of the private use area.

        Returns the text, and the spoken form for each of these characters. "an" before an entry becomes "a" if its
        spoken form begins with a lower-case consonant.

        Raises:
            Unspeakable: `symbol`: the text has such characters itself, or too many entries.
        """
        if re.search("[\ue000-\uf8ff]", text.text):
            raise Unspeakable("symbol", "a character of the private use area")
        if self._pattern is None:
            return text, {}
        held: dict[str, str] = {}

        def place(match: re.Match[str]) -> str:
            if match[0] not in held:
                if len(held) >= _PLACES:
                    raise Unspeakable("symbol", "the text has too many lexicon entries")
                held[match[0]] = chr(_FIRST + len(held))
            return held[match[0]]

        text = text.sub(self._pattern, place)
        said = {char: self.entries[form] for form, char in held.items()}
        named = "".join(char for char, words in said.items() if _CONSONANT.match(words))
        return (text.sub(rf"\b([Aa])n(?= [{named}])", r"\1") if named else text), said


def read_lexicon(path: Path) -> Lexicon:
    """Reads a lexicon from a file.

    Raises:
        ConfigError: the file cannot be read, or a line is not an entry; the message has file and line.
    """
    try:
        lines = path.read_text(
            encoding="utf-8-sig"
        ).splitlines()  # without the mark that some editors begin a file with
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The lexicon {path} cannot be read: {error}.", _REMEDY) from error
    entries: dict[str, str] = {}
    spelt: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        columns = [column.strip() for column in line.split("\t")]
        while len(columns) > _N_COLUMNS - 1 and not columns[-1]:
            columns.pop()
        if fault := _find_fault(columns, entries, spelt):
            raise ConfigError(f"{path}, line {number}: {fault}.", _REMEDY)
        entries[columns[0]] = columns[1]
        if len(columns) == _N_COLUMNS:
            spelt[columns[1]] = columns[2]
    return Lexicon(entries, spelt)


def load_lexicon(path: str | None) -> Lexicon:
    """Returns the default lexicon, with the entries of the file at `path` added or in place of its own; None: no file.

    Raises:
        ConfigError: see `read_lexicon`.
    """
    default = read_lexicon(DEFAULT_LEXICON)
    return default if path is None else read_lexicon(Path(path)).merge_over(default)


def _find_fault(columns: Sequence[str], entries: Mapping[str, str], spelt: Mapping[str, str]) -> str:
    """Returns what is wrong with the columns of a line, given the earlier lines; empty if nothing is."""
    if len(columns) == 1:
        return "there is no tab between the written form and how it is said"
    if len(columns) > _N_COLUMNS:
        return f"there are more than {_N_COLUMNS} columns"
    written, said = columns[:2]
    if not 0 < len(written) <= _MAX_WRITTEN:
        return f"the written form is empty or longer than {_MAX_WRITTEN} characters"
    if re.search("[\ue000-\uf8ff]", written):
        return "the written form has characters of the private use area"
    for column in columns[1:]:
        if not _SAID.fullmatch(column):
            return f"{column!r} is not words of the letters A to Z with single spaces"
    if written in entries:
        return f"{written!r} has an entry before"
    return _find_spelling_fault(said, columns[2], spelt) if len(columns) == _N_COLUMNS else ""


def _find_spelling_fault(said: str, spelling: str, spelt: Mapping[str, str]) -> str:
    """Returns what is wrong with a spelling for engines, given the earlier ones; empty if nothing is."""
    if " " in said:
        return f"{said!r} is not one word, and only of one word is there another spelling for engines"
    if spelt.get(said, spelling) != spelling:
        return f"{said!r} is spelt otherwise before: {spelt[said]!r}"
    return ""
