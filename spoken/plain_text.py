"""Strips Markdown and emoji from a chat model's text.

One rule for what is trained on and for what is said live. `*` is a sign where people calculate ("3 * 4", "a*b"), and an
underscore where something is left blank or named; by the characters beside a mark, and the word before and after, it is
told which it is. So a text that is still being written can be read: what comes later changes its last word alone.
"""

import re
from typing import Final

import regex  # type: ignore[import-untyped]

_NO_EMOJI: Final = "©®™‼⁉ℹ↔-↙↩↪⤴⤵⬅-⬇➡♀♂♭♯✔✖➕➖➗▪▫"
"""Pictographs by Unicode that are signs with a reading, or marks of a list."""
_EMOJI: Final = rf"[[\p{{Extended_Pictographic}}\p{{Regional_Indicator}}\p{{Emoji_Modifier}}]--[{_NO_EMOJI}]]"
_JOINERS: Final = r"[\u200d\u20e3\ufe0e\ufe0f\U000e0020-\U000e007f]"
"""Parts of emoji that are none by themselves: joiner, keycap, the choice between text and picture, tags of flags."""
_PICTURES: Final = regex.compile(rf"(\s*)(?:{_EMOJI}{_JOINERS}*\s*)+|{_JOINERS}+", regex.V1)
_HEADING: Final = re.compile(r"(?m)^[^\S\n]*(?:#{1,6}|>)\s+")

_LINK: Final = re.compile(r"!?\[([^\[\]\n]{1,80})\]\([^()\s]{1,300}\)")
_SOURCE: Final = re.compile(r"(?<=[a-z)][.,;?!])(?: ?\[\d{1,2}\])+(?=\s|$)")
"""Numbers of sources behind a sentence: "It is Paris.[1][2]"."""

_FENCE: Final = re.compile(r"\s*```\w*\s*")

_MARK: Final = re.compile(r"(?<![*_`])[*_`]{1,8}(?![*_`])")
_BEFORE_WORD: Final = re.compile(r"""[\w"'“‘(\[$+-]""")
_AFTER_WORD: Final = re.compile(r"""[\w"'”’)\]%,.?!;:…]""")
_OPENS: Final = re.compile(r"""[\s"'“‘(\[/—–-]""")
_CLOSES: Final = re.compile(r"""[\s"'”’)\],.?!;:…/—–-]""")
_OPERAND_ENDS: Final = re.compile(r"(?:\d|\)|(?<![A-Za-z])[A-Za-z])\s*$")
_OPERAND_CHARACTERS: Final = 16
"""So far before a mark an operand may end; more spaces than that stand in no formula."""
_OPERAND_BEGINS: Final = re.compile(r"\s*[+-]?(?:\d|\(|[A-Za-z](?![A-Za-z]))")
"""A number, a bracket or a single letter: between two of them `*` is "times"."""


def strip_markdown(written: str) -> str:
    """Removes emoji, Markdown headings and emphasis, source numbers and link addresses; the result may be empty."""
    if _FENCE.fullmatch(written):
        return ""
    if not written.isascii():
        written = _PICTURES.sub(_replace_emoji, written)
    return _strip_emphasis(_SOURCE.sub("", _LINK.sub(r"\1", _HEADING.sub("", written))))


def _replace_emoji(picture: re.Match[str]) -> str:
    """What stands for emoji: nothing at either end, inside brackets and before a mark, else a space."""
    text, (start, end) = picture.string, picture.span()
    if picture[1] is None:  # joiners alone
        return ""
    is_before_mark = _CLOSES.match(text, end) is not None and not picture[0][-1].isspace()
    is_first = not start or text[start - 1] in "(["
    return "" if is_first or is_before_mark or end == len(text) else " "


def _strip_emphasis(text: str) -> str:
    pieces: list[str] = []
    at, is_open = 0, False
    for mark in _MARK.finditer(text):
        opens, closes = _find_sides(text, *mark.span())
        is_kept = not (opens or closes) or _is_meant(text, mark, is_open=is_open and closes, opens=opens)
        if not is_kept:
            is_open = opens
            pieces.append(text[at : mark.start()])
            at = mark.end()
    return "".join([*pieces, text[at:]])


def _find_sides(text: str, start: int, end: int) -> tuple[bool, bool]:
    """Whether a mark stands before a word, and whether after one; between two letters or two spaces it does neither."""
    left, right = text[start - 1 : start] or " ", text[end : end + 1] or " "
    opens = bool(_OPENS.match(left) and _BEFORE_WORD.match(right))
    return opens, not opens and bool(_AFTER_WORD.match(left) and _CLOSES.match(right))


def _is_meant(text: str, mark: re.Match[str], *, is_open: bool, opens: bool) -> bool:
    """Whether it is a sign all the same; what closes an emphasis never is."""
    if is_open:
        return False
    if "*" in mark[0]:
        before = text[max(mark.start() - _OPERAND_CHARACTERS, 0) : mark.start()]
        return bool(_OPERAND_ENDS.search(before) and _OPERAND_BEGINS.match(text, mark.end()))
    is_blank = mark[0].count("_") == len(mark[0]) > 2
    return is_blank or not opens
