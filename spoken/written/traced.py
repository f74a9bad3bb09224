"""A text that is rewritten step by step and keeps the written origin of each character."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TracedText:
    """`text`, and for each of its characters the written span `[start, end)` that it came from."""

    text: str
    origins: tuple[Span, ...]

    @classmethod
    def from_written(cls, written: str) -> "TracedText":
        """Makes a traced text from a written text, without changes."""
        return cls(written, tuple((at, at + 1) for at in range(len(written))))

    @classmethod
    def join(cls, pieces: Iterable["TracedText"]) -> "TracedText":
        """Joins pieces of one written text in their order."""
        kept = list(pieces)
        origins = tuple(origin for piece in kept for origin in piece.origins)
        return cls("".join(piece.text for piece in kept), origins)

    def __getitem__(self, part: slice) -> "TracedText":
        return TracedText(self.text[part], self.origins[part])

    def find_span(self, start: int, end: int) -> Span:
        """Returns the written span of the characters `[start, end)` of `text`, of which there must be at least one."""
        covered = self.origins[start:end]
        return min(first for first, _ in covered), max(last for _, last in covered)

    def make_replacement(self, start: int, end: int, new: str) -> "TracedText":
        """Returns `new` alone as a traced text, which is to replace the characters `[start, end)`.

        Characters of the old text that `new` keeps, at its start, at its end or as one run, keep their origin. The
        others get the span of the characters that they replace, of all old characters if they are only inserted, or,
        as spaces around one run, that of the run's first or last character.
        """
        old = self[start:end]
        if not new or not old.text:
            return TracedText(new, (self._get_span(start),) * len(new))
        if (kept := old.text.rfind(new.strip())) >= 0 and new.strip():
            lead = len(new) - len(new.lstrip())
            middle = old.origins[kept : kept + len(new.strip())]
            tail = len(new) - lead - len(middle)
            return TracedText(new, (middle[0],) * lead + middle + (middle[-1],) * tail)
        head = _count_common(old.text, new)
        tail = _count_common(old.text[head:][::-1], new[head:][::-1])
        changed = old[head : len(old.text) - tail]
        whole = changed.find_span(0, len(changed.text)) if changed.text else old.find_span(0, len(old.text))
        middle = (whole,) * (len(new) - head - tail)
        return TracedText(new, old.origins[:head] + middle + old.origins[len(old.text) - tail :])

    def _get_span(self, position: int) -> Span:
        """Returns the written span of the character at a position, or of the last one; (0, 0) if there are none."""
        if not self.origins:
            return 0, 0
        return self.origins[min(position, len(self.origins) - 1)]

    def sub(self, pattern: str | re.Pattern[str], new: str | Callable[[re.Match[str]], str]) -> "TracedText":
        """Returns the text with all matches of a pattern replaced, as by `re.sub`, and the origin of each character.

        Without a match, this object itself is returned.
        """
        compiled = re.compile(pattern) if isinstance(pattern, str) else pattern
        pieces, at = [], 0
        for match in compiled.finditer(self.text):
            made = match.expand(new) if isinstance(new, str) else new(match)
            pieces += [self[at : match.start()], self.make_replacement(match.start(), match.end(), made)]
            at = match.end()
        return TracedText.join([*pieces, self[at:]]) if pieces else self

    def translate(self, table: dict[str, str]) -> "TracedText":
        """Returns the text with each character replaced by its entry in the table, of any length; others are kept."""
        if not any(char in table for char in self.text):
            return self
        made = [table.get(char, char) for char in self.text]
        origins = tuple(origin for new, origin in zip(made, self.origins, strict=True) for _ in new)
        return TracedText("".join(made), origins)


def _count_common(left: str, right: str) -> int:
    """Returns the number of characters that two texts have in common at their start."""
    for at, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return at
    return min(len(left), len(right))
