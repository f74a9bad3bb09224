"""How names and terms are said where the rules or the speech engines would get them wrong.

A lexicon is a file of lines `written<TAB>said`, `#` starting a comment. The written form is matched as it stands, as a
whole word (also before "'s"); how it is said is words of ASCII letters. Ours is `lexicon.tsv` beside this file.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from data_schemas import ids
from data_schemas.errors import ConfigError
from pipelines.script.spoken import Unspeakable
from pipelines.script.traced import Traced

OURS: Final = Path(__file__).with_name("lexicon.tsv")
_SAID: Final = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*(?: [A-Za-z]+(?:'[A-Za-z]+)*)*")
_MAX_WRITTEN: Final = 80
_FIRST: Final = 0xE100
_PLACES: Final = 0xF8FF - _FIRST
"""Characters of the private use area stand for entries while the rules read the rest; none may be in a text."""

HELD: Final = f"[{chr(_FIRST)}-{chr(_FIRST + _PLACES)}]"
"""Pattern of a character that stands for an entry."""

_REMEDY: Final = "Write one entry a line, `written<TAB>said`, such as `SQL<TAB>sequel`."


@dataclass(frozen=True)
class Lexicon:
    """Written forms and how they are said."""

    entries: Mapping[str, str]

    @property
    def digest(self) -> str:
        """What identifies its content; part of the script stage's fingerprint."""
        return ids.digest("lexicon", sorted(self.entries.items()))

    def over(self, other: "Lexicon") -> "Lexicon":
        """Both, where this one's entries come first."""
        return Lexicon({**other.entries, **self.entries})

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        if not self.entries:
            return None
        forms = "|".join(re.escape(form) for form in sorted(self.entries, key=len, reverse=True))
        return re.compile(rf"(?<![A-Za-z\d])(?:{forms})(?=(?:'s)?(?![A-Za-z\d]))")

    def hold(self, text: Traced) -> tuple[Traced, dict[str, str]]:
        """The text with one character in place of each entry found, and what those characters are said as.

        Raises:
            Unspeakable: `symbol`: the text has characters of the private use area of its own.
        """
        if re.search("[\ue000-\uf8ff]", text.text):
            raise Unspeakable("symbol", "a character of the private use area")
        if self._pattern is None:
            return text, {}
        held: dict[str, str] = {}

        def place(match: re.Match[str]) -> str:
            if match[0] not in held:
                if len(held) >= _PLACES:
                    raise Unspeakable("symbol", "more entries of the lexicon than one text may have")
                held[match[0]] = chr(_FIRST + len(held))
            return held[match[0]]

        return text.sub(self._pattern, place), {char: self.entries[form] for form, char in held.items()}


def read_lexicon(path: Path) -> Lexicon:
    """The lexicon of a file.

    Raises:
        ConfigError: the file cannot be read, or a line is no entry; tells file and line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The lexicon {path} cannot be read: {error}.", _REMEDY) from error
    entries: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        written, tab, said = line.partition("\t")
        written, said = written.strip(), said.strip()
        if fault := _fault(written, bool(tab), said, entries):
            raise ConfigError(f"{path}, line {number}: {fault}.", _REMEDY)
        entries[written] = said
    return Lexicon(entries)


def lexicon_of(path: str | None) -> Lexicon:
    """Ours, under that of the file at `path` if there is one.

    Raises:
        ConfigError: as `read_lexicon`.
    """
    ours = read_lexicon(OURS)
    return ours if path is None else read_lexicon(Path(path)).over(ours)


def _fault(written: str, has_tab: bool, said: str, earlier: Mapping[str, str]) -> str:
    if not has_tab:
        return "there is no tab between the written form and how it is said"
    if not 0 < len(written) <= _MAX_WRITTEN:
        return f"the written form is empty or longer than {_MAX_WRITTEN} characters"
    if re.search("[\ue000-\uf8ff]", written):
        return "the written form has characters of the private use area"
    if not _SAID.fullmatch(said):
        return f"{said!r} is not words of the letters A to Z with single spaces"
    if written in earlier:
        return f"{written!r} has an entry before"
    return ""
