"""Which part of what a chat model writes is its answer: the first paragraph that says something.

Training judges an answer when it is whole, the server while it is being written. So a label before the answer, or a
line for another speaker, refuses an oracle of training, and is cut off live: either way nothing of them is whispered.
"""

from typing import Final

import regex  # type: ignore[import-untyped]

from spoken.conversation import ROLE_LABEL
from spoken.plain_text import strip_markdown

OWN_LABEL: Final = regex.compile(r"(?i)^\W*(?:Assistant|AI)(?: \(\w+\))?:\s*")
"""What a model writes before its own words as if it wrote down the conversation."""
OTHER_LABEL: Final = regex.compile(r"(?i)^\W*(?:hidden |secret )?(?:hint|keyword|note|clue|answer|guess)s?\W*:\s*")
"""What it calls its answer by, in the words of its instruction."""
ROLE: Final = regex.compile(rf"(?i)(?<![^\s.?!\"']){ROLE_LABEL}")
"""Where it begins to speak for somebody."""
_ANNOUNCEMENT: Final = regex.compile(
    r"(?i)\W*(?:(?:sure|certainly|absolutely|of course|okay|ok)\b\W*)?"
    r"(?:here(?:['’]s| is| are| goes)\b[^.?!:]*|(?:my|the) (?:\w+ )?(?:answer|guess|reply|response)(?: is)?)\W*:?\s*"
)


def strip_paragraph(line: str) -> str:
    """A line as plain text, without quotation marks around it."""
    return strip_markdown(line).strip().strip('"').strip()


def says_nothing(paragraph: str) -> bool:
    """Whether a whole paragraph is empty, or only announces the next one ("Sure, here is my guess:")."""
    return not paragraph or paragraph.endswith(":")


def may_announce(begun: str) -> bool:
    """Whether a paragraph that begins so may come to only announce the next one."""
    return _ANNOUNCEMENT.fullmatch(begun, partial=True) is not None


def cut_own_words(paragraph: str) -> tuple[str, bool]:
    """A paragraph without its label, up to where it speaks for somebody else; and whether it does."""
    own = OTHER_LABEL.sub("", OWN_LABEL.sub("", paragraph))
    other = ROLE.search(own)
    return (own[: other.start()], True) if other else (own, False)
