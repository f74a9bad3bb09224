"""Marks of formatting, tags, addresses and dollar signs about formulas, rewritten before LaTeX is opened."""

import re
from typing import Final

from spoken.spoken_text import Unspeakable
from spoken.written.rewrite import Rewrite, rewrite

_ENTITIES: Final = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&nbsp;": " ", "&quot;": '"', "&#39;": "'", "&deg;": "°"}
_MATHS: Final = (
    r"\$\$?( ?\d+ ?/ ?\d+(?: ?, ?\d+ ?/ ?\d+)* ?(?=\$)| ?\d[\d.]* ?[-+] ?\d[^$a-z]{0,20}[a-z] ?(?=\$)"
    r"|[^$]{0,400}?[\\^_={}(+<>][^$]{0,400}?"
    r"|-?[A-Za-z(|][^$]{0,160}?|-?\d[\d.,]*"
    r"|(?![^$]*[a-z]{3})\d[^$]{0,40}?[A-Za-zÅ|!)}])\$\$?(?!\d)"
)
_TAG: Final = r"(?i)</?(?:b|i|u|em|strong|small|span|font|p|br|div|center|tt|mark)(?: [^<>]{0,80})?/?>"
_ADDRESS: Final = (
    r"(?:https?://)?(?:www\.)?(?P<labels>(?:[A-Za-z0-9-]{1,40}\.){1,4}(?:com|org|net|edu|gov|io|uk|de))"
    r"(?![\w.]*@)(?P<path>/(?:[^\s,;)]{0,80}(?<![.?!:]))?)?(?![A-Za-z@])"
)
_PATH: Final = re.compile(r"(?:/[A-Za-z]+(?:-[A-Za-z]+)*)+")


def _say_address(match: re.Match[str]) -> str:
    """A web address as its labels and dots, and its path where that is words and nothing else."""
    path = (match["path"] or "").rstrip("/")
    if path and not _PATH.fullmatch(path):
        raise Unspeakable("markup", match[0])
    return match["labels"].replace(".", " dot ") + path.replace("/", " slash ").replace("-", " dash ")


def _say_mail(match: re.Match[str]) -> str:
    return f"{match[1].replace('.', ' dot ')} at {match[2].replace('.', ' dot ')}"


MARKUP: Final[tuple[Rewrite, ...]] = (
    rewrite("calculation", r"<<[^<>]*>>", "", "She has <<2*3=6>>6 eggs", "She has 6 eggs"),
    rewrite("raised tag", r"(?i)<sup>([^<>]{1,20})</sup>", r"^{\1}", "m<sup>2</sup>", "m^{2}"),
    rewrite("lowered tag", r"(?i)<sub>([^<>]{1,20})</sub>", r"_{\1}", "H<SUB>2</SUB>O", "H_{2}O"),
    rewrite("power in a program", r"(?<=[\d)\]]|(?<![A-Za-z])[A-Za-z])(?P<gap> ?)\*\*(?P=gap)"
            r"(?:(?P<sign>[-+]?)(?P<power>\d+(?:\.\d+)?|[A-Za-z](?![A-Za-z]))(?![\d*]|\.\d)|(?=\())",
            lambda m: f"^{{{m['sign']}{m['power']}}}" if m["power"] else "^",
            "2**3 + x ** -n + 5**(n + 1)", "2^{3} + x^{-n} + 5^(n + 1)"),
    rewrite("bold", r"(?<![\w)\]*])\*\*(?=[^\s*])([^*\n]+)(?<=\S)\*\*(?![\w(*])", r"\1",
            "**Note:** she has **5** eggs", "Note: she has 5 eggs"),
    rewrite("bold by lines", r"(?<![\w_])__(?=[^\W_])([^_\n]+)(?<=\S)__(?![\w_])", r"\1",
            "He __must__ go to __ now", "He must go to __ now"),
    rewrite("tag", _TAG, " ", "so <b>it</b> is", "so  it  is"),
    rewrite("entity", "|".join(_ENTITIES), lambda m: _ENTITIES[m[0]], "salt &amp; tea", "salt & tea"),
    rewrite("mail", r"\b([\w.]{1,40})@((?:\w{1,40}\.){1,4}\w{2,6})\b", _say_mail,
            "write to ann@lake.org", "write to ann at lake dot org"),
    rewrite("address", _ADDRESS, _say_address,
            "see https://www.lake.org/fish/old-pike.", "see lake dot org slash fish slash old dash pike."),
    # dollar signs: of money in a formula, of formulas run together, of a letter before its noun
    rewrite("thousands in LaTeX", r"(?<=\d),\\!(?=\d{3})", ",", r"1,\!250", "1,250"),
    rewrite("money between dollars", r"\$ *(\\\$ ?\d[\d.,]*) *\$", r"\1 ", r"It is $ \$60 $ now", r"It is \$60  now"),
    rewrite("formula between two dollars", r"\$\$([^$]*[\\=^][^$]*)\$\$(?!\$)", r" \1 ", "$$y = 2$$", " y = 2 "),
    rewrite("formulas run together", r"(?<=[^$\s])\$\$(?=[^$\s.,;:?)])", "$ $", "$x$$y$", "$x$ $y$"),
    rewrite("letter before its noun", r"\$ ?([A-Za-z]) ?\$-(?=[a-z])", r"\1-", "an $n$-sided tile", "an n-sided tile"),
)  # fmt: skip
"""Tried on the text as it is written."""

FORMULA: Final = rewrite("formula between dollars", _MATHS, r" \1 ", "if $x = 2$ holds", "if  x = 2  holds")

_MARKUP: Final = re.compile(r"</?[a-zA-Z][^<>]{0,200}>|<!--|```|#include|</|/\*|\*/|\*\*|&[a-z]{2,8};")
_NOT_MARKUP: Final = re.compile(r"<[A-Za-z]\w?(?:, ?[A-Za-z]\w?)*>")
_TABLE: Final = re.compile(r"\|[^|\n]{0,60}\n[^|\n]{0,60}\||\|[^|]{0,40} \| [^|]{0,40}\|(?=\s|$)")


def check_markup(text: str) -> None:
    """Refuses what no rewriting has taken away.

    Raises:
        Unspeakable: `markup`.
    """
    for markup in _MARKUP.finditer(text):
        if not _NOT_MARKUP.fullmatch(markup[0]):
            raise Unspeakable("markup", markup[0])


def check_table(text: str) -> None:
    """Refuses cells between bars.

    Raises:
        Unspeakable: `table`.
    """
    if _TABLE.search(text):
        raise Unspeakable("table", text[text.index("|") :][:40])
