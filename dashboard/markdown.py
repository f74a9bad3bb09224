"""Renders untrusted Markdown, such as a checkpoint's card, as safe HTML."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.token import Token
from markupsafe import Markup

MOST_BYTES: Final = 1 << 20
"""Maximum size of a file in bytes; the rest is cut off with a notice."""
_FRONT_MATTER = re.compile(r"\A---\r?\n.*?\r?\n---\r?\n", re.DOTALL)
_WEB_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_LEVELS_DOWN: Final = 1

FindAddress = Callable[[str], str | None]
"""Function from a picture's reference to its URL; None if it is not shown."""


def read_markdown(folder: Path, name: str) -> str | None:
    """Reads the first `MOST_BYTES` of a file of a folder as text, with a notice if the rest is cut off.

    Returns None if the file cannot be read, or is a link that leads out of the folder.
    """
    path = (folder / name).resolve()
    try:
        if not path.is_relative_to(folder.resolve()) or not path.is_file():
            return None
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError:
        return None
    text = content[:MOST_BYTES].decode("utf-8", errors="replace")
    return text if len(content) <= MOST_BYTES else f"{text}\n\n(What follows is left out: the file is too long.)"


def render_markdown(text: str, find_address: FindAddress = lambda name: None) -> Markup:
    """Renders Markdown as HTML: HTML in it is escaped, and links may lead only to web pages.

    Args:
        text: CommonMark with tables; front matter is removed.
        find_address: returns the URL of a picture; others are shown as their titles.
    """
    reader = MarkdownIt("commonmark", {"html": False, "maxNesting": 20}).enable("table")
    reader.validateLink = lambda address: True  # type: ignore[method-assign,assignment]  # each is looked at below
    for name, rule in _RULES.items():
        reader.add_render_rule(name, rule)
    tokens = reader.parse(_FRONT_MATTER.sub("", text, count=1))
    _make_safe(tokens, find_address)
    # everything in it went through the reader's own escaping, or this module's
    return Markup(reader.renderer.render(tokens, reader.options, {}))  # noqa: S704


def _make_safe(tokens: Sequence[Token], find_address: FindAddress) -> None:
    """Removes unsafe addresses from tokens in place, and lowers headings by a level, below the page's own.

    A link keeps its address if it begins with http:// or https://; its text stays in any case. A picture gets the URL
    that `find_address` returns for its reference, or is shown as its title.
    """
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + _LEVELS_DOWN)}"
        elif token.type == "link_open":
            address = str(token.attrGet("href"))
            token.attrs = (
                {"href": address, "rel": "noreferrer nofollow"} if _WEB_ADDRESS.match(address) else {"class": "no-link"}
            )
        elif token.type == "image":
            found = find_address(str(token.attrGet("src")))
            token.attrs = {} if found is None else {"src": found}
        _make_safe(token.children or (), find_address)


def _render_table_open(*_: Any) -> str:
    """Renders the start of a table inside an element that can be scrolled, also by keyboard."""
    return '<div class="scroll" tabindex="0" role="region" aria-label="Table"><table>\n'


def _render_table_close(*_: Any) -> str:
    """Renders the end of a table and of its element."""
    return "</table></div>\n"


def _render_fence(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    """Renders a code block as escaped text that can be scrolled by keyboard."""
    return f'<pre tabindex="0"><code>{escapeHtml(tokens[index].content)}</code></pre>\n'


def _render_image(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    """Renders a picture; without a source, its title in italics."""
    token = tokens[index]
    title = escapeHtml(token.content)
    source = token.attrGet("src")
    return f'<img src="{escapeHtml(str(source))}" alt="{title}">' if source else f"<em>{title}</em>"


_RULES: Final[Mapping[str, Callable[..., str]]] = {
    "table_open": _render_table_open,
    "table_close": _render_table_close,
    "fence": _render_fence,
    "code_block": _render_fence,
    "image": _render_image,
}
"""Overridden rendering rules: wide content can be scrolled, also by keyboard."""
