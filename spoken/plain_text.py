"""Strips Markdown and emoji from a chat model's text, in the same way for training data and for live answers.

`*` is a sign in calculations ("3 * 4", "a*b"), and an underscore where something is left blank or named; this is
decided by the characters next to the mark and the words before and after. A text can therefore be stripped while it is
being written: what follows changes only its last word.
"""

import re
from typing import Final

import regex  # type: ignore[import-untyped]

_NO_EMOJI: Final = "©®™‼⁉ℹ↔-↙↩↪⤴⤵⬅-⬇➡♀♂♭♯✔✖➕➖➗▪▫"
"""Pictographs by Unicode that have a reading, or are list markers."""
_EMOJI: Final = rf"[[\p{{Extended_Pictographic}}\p{{Regional_Indicator}}\p{{Emoji_Modifier}}]--[{_NO_EMOJI}]]"
_JOINERS: Final = r"[\u200d\u20e3\ufe0e\ufe0f\U000e0020-\U000e007f]"
"""Parts of emoji that are not emoji themselves: joiner, keycap, variation selectors for text and picture, flag tags."""
_PICTURES: Final = regex.compile(rf"(\s*)(?:{_EMOJI}{_JOINERS}*\s*)+|{_JOINERS}+", regex.V1)
_HEADING: Final = re.compile(r"(?m)^[^\S\n]*(?:#{1,6}|>)\s+")

_LINK: Final = re.compile(r"!?\[([^\[\]\n]{1,80})\]\([^()\s]{1,300}\)")
_SOURCE: Final = re.compile(r"(?<=[a-z)][.,;?!])(?: ?\[\d{1,2}\])+(?=\s|$)")
"""Numbers of sources after a sentence: "It is Paris.[1][2]"."""

_FENCE: Final = re.compile(r"\s*```\w*\s*")

_MARK: Final = re.compile(r"(?<![*_`])[*_`]{1,8}(?![*_`])")
_BEFORE_WORD: Final = re.compile(r"""[\w"'“‘(\[$+-]""")
_AFTER_WORD: Final = re.compile(r"""[\w"'”’)\]%,.?!;:…]""")
_OPENS: Final = re.compile(r"""[\s"'“‘(\[/—–-]""")
_CLOSES: Final = re.compile(r"""[\s"'”’)\],.?!;:…/—–-]""")
_OPERAND_ENDS: Final = re.compile(r"(?:\d|\)|(?<![A-Za-z])[A-Za-z])\s*$")
_OPERAND_CHARACTERS: Final = 16
"""Maximum distance of an operand before a mark; formulas do not have more spaces than that."""
_OPERAND_BEGINS: Final = re.compile(r"\s*[+-]?(?:\d|\(|[A-Za-z](?![A-Za-z]))")
"""A number, a bracket or a single letter: between two of them, `*` means "times"."""


def strip_markdown(written: str) -> str:
    """Returns a text without emoji, source numbers, link addresses and the marks of headings, quotations and emphasis.

    It may be empty, as for the first or last line of a code block.
    """
    if _FENCE.fullmatch(written):
        return ""
    if not written.isascii():
        written = _PICTURES.sub(_replace_emoji, written)
    return _strip_emphasis(_SOURCE.sub("", _LINK.sub(r"\1", _HEADING.sub("", written))))


def _replace_emoji(picture: re.Match[str]) -> str:
    """Returns what replaces emoji: nothing at an end of the text, after a bracket or before a mark; else a space."""
    text, (start, end) = picture.string, picture.span()
    if picture[1] is None:  # only joiners
        return ""
    is_before_mark = _CLOSES.match(text, end) is not None and not picture[0][-1].isspace()
    is_first = not start or text[start - 1] in "(["
    return "" if is_first or is_before_mark or end == len(text) else " "


def _strip_emphasis(text: str) -> str:
    """Returns a text without `*`, `_` and backticks that format words; those that are signs or blanks are kept."""
    pieces: list[str] = []
    at, is_open = 0, False
    for mark in _MARK.finditer(text):
        opens, closes = _find_sides(text, *mark.span())
        is_kept = not (opens or closes) or _is_sign(text, mark, is_open=is_open and closes, opens=opens)
        if not is_kept:
            is_open = opens
            pieces.append(text[at : mark.start()])
            at = mark.end()
    return "".join([*pieces, text[at:]])


def _find_sides(text: str, start: int, end: int) -> tuple[bool, bool]:
    """Returns whether a mark may open an emphasis, before a word, and whether it may close one, after a word.

    Both are False between two letters or two spaces.
    """
    left, right = text[start - 1 : start] or " ", text[end : end + 1] or " "
    opens = bool(_OPENS.match(left) and _BEFORE_WORD.match(right))
    return opens, not opens and bool(_AFTER_WORD.match(left) and _CLOSES.match(right))


def _is_sign(text: str, mark: re.Match[str], *, is_open: bool, opens: bool) -> bool:
    """Returns whether a mark is a sign ("3 * 4") or a blank, and not formatting.

    Args:
        is_open: whether it may close an emphasis that is open; then it is formatting.
        opens: whether it may open one.
    """
    if is_open:
        return False
    if "*" in mark[0]:
        before = text[max(mark.start() - _OPERAND_CHARACTERS, 0) : mark.start()]
        return bool(_OPERAND_ENDS.search(before) and _OPERAND_BEGINS.match(text, mark.end()))
    is_blank = mark[0].count("_") == len(mark[0]) > 2
    return is_blank or not opens
