"""Finds the answer in a chat model's text: the first paragraph that says something.

Training checks a complete answer, the server one that is being written. A label before the answer, or a line of another
speaker, rejects an oracle of training, and is cut off live, so it never becomes oracle text.
"""

from typing import Final

import regex  # type: ignore[import-untyped]

from spoken.conversation import ROLE_LABEL
from spoken.plain_text import strip_markdown

OWN_LABEL: Final = regex.compile(r"(?i)^\W*(?:Assistant|AI)(?: \(\w+\))?:\s*")
"""Label that a model writes before its own words, as if it wrote down the conversation."""
OTHER_LABEL: Final = regex.compile(r"(?i)^\W*(?:hidden |secret )?(?:hint|keyword|note|clue|answer|guess)s?\W*:\s*")
"""Label of the answer, in the words of the model's instruction."""
ROLE: Final = regex.compile(rf"(?i)(?<![^\s.?!\"']){ROLE_LABEL}")
"""Start of a line for another speaker."""
_ANNOUNCEMENT: Final = regex.compile(
    r"(?i)\W*(?:(?:sure|certainly|absolutely|of course|okay|ok)\b\W*)?"
    r"(?:here(?:['’]s| is| are| goes)\b[^.?!:]*|(?:my|the) (?:\w+ )?(?:answer|guess|reply|response)(?: is)?)\W*:?\s*"
)


def strip_paragraph(line: str) -> str:
    """Returns a line of a chat model's text without Markdown, emoji and surrounding straight quotation marks (")."""
    return strip_markdown(line).strip().strip('"').strip()


def says_nothing(paragraph: str) -> bool:
    """Returns whether a complete paragraph is empty, or announces the next one: it ends with a colon."""
    return not paragraph or paragraph.endswith(":")


def may_announce(begun: str) -> bool:
    """Returns whether an incomplete paragraph that begins like this may turn out to only announce the next one."""
    return _ANNOUNCEMENT.fullmatch(begun, partial=True) is not None


def cut_own_words(paragraph: str) -> tuple[str, bool]:
    """Returns a paragraph without its own label ("AI:", "Answer:"), cut before a turn's label, and if it was cut."""
    own = OTHER_LABEL.sub("", OWN_LABEL.sub("", paragraph))
    other = ROLE.search(own)
    return (own[: other.start()], True) if other else (own, False)
