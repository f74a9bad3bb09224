"""What a rewriting of written text is: one form for another, with a name and an example of its own."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spoken.rules.rule import note
from spoken.written.traced import Traced

New = str | Callable[[re.Match[str]], str]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Rewrites what fits `pattern` as `new`; of the text `example` it makes `becomes`, as a test asks of each."""

    name: str
    pattern: re.Pattern[str]
    new: New
    example: str
    becomes: str

    def __call__(self, text: Traced) -> Traced:
        """The text with each place that fits rewritten."""
        made = text.sub(self.pattern, self.new)
        if made is not text:
            note(f"rewrite {self.name}")
        return made


def rewrite(name: str, pattern: str | re.Pattern[str], new: New, example: str, becomes: str) -> Rewrite:
    """A rewriting of a pattern that need not be compiled."""
    return Rewrite(name, re.compile(pattern), new, example, becomes)


def rewritten(text: Traced, table: Sequence[Rewrite]) -> Traced:
    """The text after each rewriting of a table, in its order."""
    for each in table:
        text = each(text)
    return text
