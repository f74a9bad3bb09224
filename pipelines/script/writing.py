"""Written text before it is read: one form for each mark, no LaTeX, no formatting, one line."""

import re
import unicodedata
from typing import Final

from pipelines.script.broken import mend_words
from pipelines.script.latex import has_latex, open_latex
from pipelines.script.notation import in_usual_notation
from pipelines.script.slips import without_slips
from pipelines.script.spoken import Unspeakable, word_set
from pipelines.script.traced import Traced
from pipelines.script.typography import flattened_powers, in_one_form
from pipelines.script.units import UNIT

_ACCENTED: Final = frozenset("àáâãäåāăçćčèéêëēěėìíîïīñńňòóôõöōőøùúûüūůűýÿšśşžźżřłąęğďťÉÈÊÇÅÖÜÄÑÁÀÂÍÓÔÚÎŠŽĀŚŌØČ")
"""Letters folded to their base. Others with marks are mostly text broken by a wrong decoding, such as "Ã" and "ȇ"."""

_LIGATURES: Final = {"ø": "o", "Ø": "O", "ł": "l", "œ": "oe", "æ": "ae", "Æ": "Ae", "ﬂ": "fl", "ﬁ": "fi", "ﬀ": "ff",
                     "ﬃ": "ffi", "ß": "ss", "ѵ": "v"}  # fmt: skip
_VULGAR: Final = {"½": "1/2", "¼": "1/4", "¾": "3/4", "⅓": "1/3", "⅔": "2/3", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5",
                  "⅘": "4/5", "⅙": "1/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8"}  # fmt: skip
_VULGAR_SPACED: Final = {sign: f" {fraction} " for sign, fraction in _VULGAR.items()}
_SUPERSCRIPTS: Final = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿˣ", "0123456789-+nx", strict=True))
_SUBSCRIPTS: Final = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋ₙₓₐₑᵢⱼₖₘₜ", "0123456789+-nxaeijkmt", strict=True))
_WRONGLY_DECODED: Final = {
    "Ã©": "é", "Ã¨": "è", "Ã¼": "ü", "Ã¶": "ö", "Ã¤": "ä", "Ã±": "ñ", "Ã³": "ó", "Ã¡": "á", "\x80\x93": " — ",
    "\x80\x94": " — ", "\x80\x98": "'", "\x80\x99": "'", "\x80\x9c": '"', "\x80\x9d": '"', "\x80¢": " • ",
    "\x80\xa6": "...", "\x9d": '"', "â€™": "'", "â€œ": '"', "â€": '"',
}  # fmt: skip
"""UTF-8 that was read as another encoding, sometimes less its first byte."""

_ONE_FORM: Final = {
    "\u00a0": " ", "\u2009": " ", "\u200a": " ", "\u2002": " ", "\u2003": " ", "\u202f": " ", "\u3000": " ",
    "\u200b": "", "\ufeff": "", "\u00ad": "", "\u2060": "", "\u200d": "", "\ufe0f": "", "\t": " ", "\r": "\n",
    "\u2028": "\n", "\u2029": "\n", "\x0b": "\n", "\x0c": "\n", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"',
    "″": '"', "’": "'", "‘": "'", "‚": ",", "‛": "'", "`": "'", "´": "'", "′": "'", "ʹ": "'", "ʼ": "'", "‐": "-",
    "‑": "-", "‒": "-", "–": "-", "−": "-", "﹣": "-", "－": "-", "—": " — ", "―": " — ", "…": "...", "⋅": "×",
    "·": "×", "∙": "×", "∗": "*", "⁄": "/", "∕": "/", "？": "?", "，": ", ", "。": ". ", "：": ":", "；": ";",
    "（": "(",
    "）": ")", "＋": "+", "≃": "≈", "≅": "≈", "≦": "≤", "≧": "≥", "⩽": "≤", "⩾": "≥", "µ": "μ", "∆": "Δ", "ϕ": "φ",
    "ϵ": "ε", "\u2126": "Ω", "\u212b": "Å", "℃": "°C", "℉": "°F", "º": "°", "˚": "°", "＝": "=", "•": " • ",
    "●": " • ", "▪": " • ", "◦": " • ", "®": "", "™": "", "©": "copyright ", "№": "No. ", "∶": ":", "≡": "≡",
    "∼": "~", "➔": "→", "⟶": "→", "➝": "→", "⟨": "(", "⟩": ")",
}  # fmt: skip
_LOOKS_LATIN: Final = dict(zip("АВСЕНКМОРТХаеорсух", "ABCEHKMOPTXaeopcyx", strict=True))
"""Cyrillic letters that were typed for the Latin ones they look like: taken for them where they stand alone."""

_MONTHS: Final = {
    "Jan": "January", "Feb": "February", "Mar": "March", "Apr": "April", "Jun": "June", "Jul": "July",
    "Aug": "August", "Sep": "September", "Sept": "September", "Oct": "October", "Nov": "November", "Dec": "December",
}  # fmt: skip
_ENTITIES: Final = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&nbsp;": " ", "&quot;": '"', "&#39;": "'", "&deg;": "°"}

_MATHS: Final = re.compile(
    r"\$\$?( ?\d+ ?/ ?\d+(?: ?, ?\d+ ?/ ?\d+)* ?(?=\$)| ?\d[\d.]* ?[-+] ?\d[^$a-z]{0,20}[a-z] ?(?=\$)"
    r"|[^$]{0,400}?[\\^_={}(+<>][^$]{0,400}?"
    r"|-?[A-Za-z(|][^$]{0,160}?|-?\d[\d.,]*"
    r"|(?![^$]*[a-z]{3})\d[^$]{0,40}?[A-Za-zÅ|!)}])\$\$?(?!\d)"
)
_CALCULATION: Final = re.compile(r"<<[^<>]*>>")
_FORMATTING: Final = re.compile(
    r"</?(?:b|i|u|em|strong|small|span|font|p|br|div|center|tt|mark)(?: [^<>]{0,80})?/?>|\*\*|__(?=\w)(?<![\w_]__)",
    re.IGNORECASE,
)
_SCRIPTS: Final = re.compile(r"<(su[bp])>([^<>]{1,20})</\1>", re.IGNORECASE)
_MARKUP: Final = re.compile(r"</?[a-zA-Z][^<>]{0,200}>|<!--|```|#include|</|/\*|\*/|&[a-z]{2,8};")
_NOT_MARKUP: Final = re.compile(r"<[A-Za-z]\w?(?:, ?[A-Za-z]\w?)*>")
_UNREADABLE: Final = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ufffd]|\b[?]{2,}\w|(?<![A-Za-z\\])(?:ext(?:phi|theta|bullet)|lpha|ullet|heta)(?![a-z])|[\u202a-\u202e\u2066-\u2069]"
)
_TOO_LONG: Final = re.compile(r"\d{25}|\d(?:,\d{3}){8}")
"""Numbers that nobody reads out, and that Python would not convert."""

_ADDRESS: Final = re.compile(r"(?:https?://)?(?:www\.)?((?:[A-Za-z0-9-]{1,40}\.){1,4}(?:com|org|net|edu|gov|io|uk|de))"
                             r"(?![\w.]*@)(/[^\s,;)]{0,80})?(?![A-Za-z@])")  # fmt: skip
_TIED: Final = re.compile(
    r"(?<=[\w.)}( ])~ ?(?=(?:mol|[kKmgsJLMTVWNCF]|kg|cm|dm|nm|Hz|GHz|MHz|THz|kJ|mm|eV|keV|MeV|Pa|kPa|ms|h|aq)\b"
    r"(?:\^|[^\w(]|$))"
)
_SIGNS: Final = (
    (re.compile(r"< ?="), "≤"),
    (re.compile(r"> ?=|=>(?=[ ]?[\d$][\d.]*[,.?)])"), "≥"),
    (re.compile(r"!=|=/=|<>"), "≠"),
    (re.compile(r"<-+>|< - >|<=>"), "↔"),
    (re.compile(r"-+ ?>"), "→"),
    (re.compile(r"= ?>"), "⇒"),
    (re.compile(r"> ?>"), "≫"),
    (re.compile(r"< ?<"), "≪"),
    (re.compile(r"\+ ?/ ?-"), "±"),
    (re.compile(r"(?<=\d)-\^(?=\d)"), "^-"),
)
_ADDRESS_WORDS: Final = word_set("com org net edu gov io uk de www")


def _say_address(match: re.Match[str]) -> str:
    """A web address as its labels and dots; the path is left to the screen."""
    if match[2] and len(match[2]) > 1:
        raise Unspeakable("markup", match[0])
    return " dot ".join(match[1].split("."))


def _say_mail(match: re.Match[str]) -> str:
    return f"{match[1].replace('.', ' dot ')} at {match[2].replace('.', ' dot ')}"


def _one_form(text: Traced) -> Traced:
    composed = unicodedata.normalize("NFC", text.text)
    if composed != text.text:
        text = _composed(text)
    for wrong, right in _WRONGLY_DECODED.items():
        if wrong in text.text:
            text = text.sub(re.escape(wrong), right)
    text = text.sub("(?<=[a-z])Õ(?=[a-z])", "'")
    text = text.sub("[\U0001d400-\U0001d7ff]", lambda m: unicodedata.normalize("NFKC", m[0]))
    raised, lowered = "".join(_SUPERSCRIPTS), "".join(_SUBSCRIPTS)
    text = text.sub(f"[{raised}]+", lambda m: "^" + _braced("".join(_SUPERSCRIPTS[char] for char in m[0])))
    text = text.sub(f"[{lowered}]+", lambda m: "_" + _braced("".join(_SUBSCRIPTS[char] for char in m[0])))
    text = text.sub("(?<![\u0400-\u04ff])[АВСЕНКМОРТХаеорсух](?![\u0400-\u04ff])", lambda m: _LOOKS_LATIN[m[0]])
    return text.translated(_VULGAR_SPACED).translated(_ONE_FORM)


def _braced(script: str) -> str:
    return script if len(script) == 1 or script.isdigit() or script.lstrip("+-").isdigit() else f"{{{script}}}"


def _composed(text: Traced) -> Traced:
    """Letters followed by combining marks as one character each."""
    return text.sub("(?s).[\u0300-\u036f]+", lambda m: unicodedata.normalize("NFC", m[0]))


def _fold(text: Traced) -> Traced:
    """Letters without their accents; "Å" by itself is a unit."""
    text = text.sub(r"Å (?=ngstr)|Å(?=[^\W\d_])|(?<=[^\W\d_])Å", "A")
    folded = {char: unicodedata.normalize("NFD", char)[0] for char in set(text.text) & _ACCENTED - {"Å"}}
    return text.translated({**folded, **_LIGATURES})


def _lines(text: Traced) -> Traced:
    """Line ends as pauses: a blank line ends a sentence, a single one only where the next line starts a new one."""
    text = text.sub(
        r"(?<=[a-z]) *\n\s*\n\s*(?=(?:between|of|and|or|in|to|for|with|by|on|at|from|that|which|than)\b)", ", "
    )
    text = text.sub(
        r"\b(to|of|the|an?|in|by|for|with|other|and|or|that|is|are|at|on|from|this|its) *\n\s*\n\s*(?=[a-z])", r"\1 "
    )
    text = text.sub(r"([^\s.?!:;,]) *\n\s*\n\s*", r"\1. ")
    text = text.sub(r"(?<=, \d{4}) *\n\s*(?=[A-Z])", ". ")
    text = text.sub(r"(?<=\d) *\n\s*(?=(?:The|Which|What|According|This|In|How|Who|Based|All|It|Why)\b)", ". ")
    text = text.sub(r"(?<=[a-z)]) *\n\s*(?=(?:Which|What|How|Based on|According to|Who|Why)\b)", ". ")
    text = text.sub(r"([^\s.?!:;,]) *\n\s*(?=[A-Z0-9\ue100-\uf8ff][^\n]*\n|[•*-] )", r"\1. ")
    return text.sub(r"\s{2,}|[^\S ]", " ").sub(r"^ | $", "")


def _check(text: str) -> None:
    if broken := _UNREADABLE.search(text):
        raise Unspeakable("symbol", text[max(0, broken.start() - 10) : broken.end() + 10])
    if long := _TOO_LONG.search(text):
        raise Unspeakable("number", long[0][:40])
    for markup in _MARKUP.finditer(text):
        if not _NOT_MARKUP.fullmatch(markup[0]):
            raise Unspeakable("markup", markup[0])


def _without_stray_dollars(text: Traced) -> Traced:
    """Money and formulas between dollar signs that stand in an unusual way: "$ \\$60 $", "$$y = 2$$"."""
    text = text.sub(r"(?<=\d),\\!(?=\d{3})", ",").sub(r"\$ *(\\\$ ?\d[\d.,]*) *\$", r"\1 ")
    return text.sub(r"\$\$([^$]*[\\=^][^$]*)\$\$(?!\$)", r" \1 ")


def normalise(written: str | Traced) -> Traced:
    """Written text in one form: straight quotes, plain letters, no LaTeX, one line.

    Raises:
        Unspeakable: broken text, markup, a table, or LaTeX without a reading.
    """
    text = Traced.of(written) if isinstance(written, str) else written
    text = text.sub(_CALCULATION, "")
    if "<" in text.text or "&" in text.text or "*" in text.text:
        text = text.sub(_SCRIPTS, lambda m: f"{'_' if m[1].lower() == 'sub' else '^'}{{{m[2]}}}")
        text = text.sub(_FORMATTING, " ").sub("|".join(_ENTITIES), lambda m: _ENTITIES[m[0]])
    if "@" in text.text:
        text = text.sub(r"\b([\w.]{1,40})@((?:\w{1,40}\.){1,4}\w{2,6})\b", _say_mail)
    text = text.sub(_ADDRESS, _say_address)
    if "$" in text.text:
        text = _without_stray_dollars(text)
    if "$$" in text.text:
        text = text.sub(r"(?<=[^$\s])\$\$(?=[^$\s.,;:?)])", "$ $")
    text = text.sub(r"\$ ?([A-Za-z]) ?\$-(?=[a-z])", r"\1-")
    if has_latex(text.text):
        text = open_latex(text.sub(_MATHS, lambda m: f" {m[1]} ") if "$" in text.text else text)
    elif "$" in text.text:
        text = text.sub(_MATHS, lambda m: f" {m[1]} ")
    text = _one_form(flattened_powers(text))
    _check(text.text)
    text = text.sub(r"\b(Statement|Sentence|Claim) ?(\d|I{1,2}) ?\|", r"\1 \2:")
    if re.search(r"\|[^|\n]{0,60}\n[^|\n]{0,60}\||\|[^|]{0,40} \| [^|]{0,40}\|(?=\s|$)", text.text):
        raise Unspeakable("table", text.text[text.text.index("|") :][:40])
    for pattern, sign in _SIGNS:
        text = text.sub(pattern, sign)
    text = in_one_form(in_usual_notation(without_slips(text)))
    text = text.sub(r"\b([Aa])\(n\)", r"\1").sub(r"(?<=\d) *μ +(?=[CFmgsTVAW]\b)", " μ").sub(_TIED, " ")
    text = text.sub(rf"\b({'|'.join(_MONTHS)})\.? (?=\d)", lambda m: f"{_MONTHS[m[1]]} ")
    text = text.sub(r"(?<![\d,])\d+(?:,\d+)+", _listed_numbers).sub(r"\| ?\|", "‖")
    text = text.sub(r"(?<!\d)\d{1,3}(?: \d{3})* 000(?!\d)|(?<!\d)\d{1,3}(?: \d{3}){2,}(?!\d)", _grouped_number)
    text = text.sub(r"(?<!\d)(\d\.\d{3}) (\d{1,3})(?= [a-zA-Z])", r"\1\2")
    text = text.sub(
        r"(?<=[\w)\]}α-ωΑ-Ω∑∫∏]) (?=[_^] ?[\w{(+-])(?!_[_ ])"
        r"(?!(?<=[a-z]{2} )[_^]\{?\d{1,3}\}?(?:_\{?\d{1,2}\}?)?[A-Z])",
        "",
    )
    text = text.sub(rf"(?<![\w.])(\.?\d[\d,.]*) ?\( ?(?!T ?/)({UNIT}) ?\)", r"\1 \2")
    text = text.sub(r"(?<![\w'])'(\d{1,3})'(?![\w'])", r"\1").sub(
        r"(?<=\d/\d),(?=\d+/\d)|(?<=\d, \d),(?=\d{1,2}[)}\]])", ", "
    )
    text = text.sub(r",(?=-\d)|(?<=\.\d),(?=\d)|(?<=\.\d\d),(?=\d)|(?<=\d),(?=\d{1,2}\.\d)", ", ")
    return _lines(mend_words(_fold(text)))


def _listed_numbers(match: re.Match[str]) -> str:
    """ "1,2,3" is a list and "1,250" a number; "5,41" may be either and stays."""
    text = match[0]
    is_grouped = re.fullmatch(r"[1-9]\d{0,2}(?:,\d{3})+", text)
    left, right = match.string[match.start() - 1 : match.start()], match.string[match.end() : match.end() + 1]
    if is_grouped or (text.count(",") < 2 and not (left in "([{=<,-" and left) and right != ","):
        return text
    return text.replace(",", ", ")


def _grouped_number(match: re.Match[str]) -> str:
    """Thousands told apart by spaces, where nothing else is possible."""
    return match[0].replace(" ", ",")
