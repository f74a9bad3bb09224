"""Written text before it is read: one form for each mark, simple LaTeX opened up, broken text refused."""

import re
import unicodedata
from typing import Final

from pipelines.script.spoken import Unspeakable

_ACCENTED: Final = frozenset("àáâäåçèéêëìíîïñòóôöøùúûüýčšžřěőűłńśźżąęÉÈÇÅÖÜÄÑÁÍÓÚÎŠŽ")
"""Letters folded to their base. Others with marks are mostly text broken by a wrong decoding, such as "Ã" and "ȇ"."""

_NOT_DECOMPOSED: Final = {"ø": "o", "ł": "l", "œ": "oe", "æ": "ae", "Æ": "Ae", "ﬂ": "fl", "ﬁ": "fi"}
_VULGAR: Final = {"½": "1/2", "¼": "1/4", "¾": "3/4", "⅓": "1/3", "⅔": "2/3", "⅕": "1/5", "⅛": "1/8", "⅜": "3/8"}
_SUPERSCRIPTS: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_SUBSCRIPTS: Final = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_ONE_FORM: Final = {
    "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u200b": "", "\ufeff": "", "\u00ad": "", "\t": " ", "\r": "\n",
    "\u2028": "\n", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "’": "'", "‘": "'", "‚": ",", "`": "'",
    "´": "'", "′": "'", "‐": "-", "‑": "-", "–": "-", "−": "-", "—": " — ", "―": " — ", "…": "...",
    "⋅": "×", "·": "×", "⁄": "/", "∕": "/", "？": "?", "≃": "≈", "≅": "≈", "µ": "μ", "∆": "Δ", "\u2126": "Ω",
    "℃": "°C", "℉": "°F", "º": "°", "＝": "=",
}  # fmt: skip

_MONTHS: Final = {
    "Jan": "January", "Feb": "February", "Mar": "March", "Apr": "April", "Jun": "June", "Jul": "July",
    "Aug": "August", "Sep": "September", "Sept": "September", "Oct": "October", "Nov": "November", "Dec": "December",
}  # fmt: skip
_LATEX_WORDS: Final = {
    "times": "×", "cdot": "×", "div": "÷", "pm": "±", "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥", "neq": "≠",
    "ne": "≠", "approx": "≈", "sim": "~", "infty": "∞", "ldots": "...", "dots": "...", "left": "", "right": "",
    "quad": " ", "displaystyle": "", "lt": "<", "gt": ">", "degree": "°", "circ": "°",
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "theta": "θ", "lambda": "λ", "mu": "μ",
    "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "omega": "ω", "Delta": "Δ", "Omega": "Ω",
    "Sigma": "Σ",
}  # fmt: skip
_ATOM: Final = r"(?:\d+(?:\.\d+)?|[A-Za-z])"
_MATHS: Final = re.compile(r"\$\$?([^$]*?[\\^_={}][^$]*?|[A-Za-z]|-?\d[\d.,]*)\$\$?(?!\d)")
_FRACTION: Final = re.compile(rf"\\[dt]?frac\s*(?:{{\s*({_ATOM})\s*}}|(\d))\s*(?:{{\s*({_ATOM})\s*}}|(\d))")
_MARKUP: Final = re.compile(r"https?://\S+|www\.\S+|</?[a-zA-Z][^<>]*>|\S+@\S+\.\S+|```|#include|</|/\*|\*/")


def _one_form(text: str) -> str:
    text = unicodedata.normalize("NFC", text)
    text = re.sub(r"[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda m: "^" + m[0].translate(_SUPERSCRIPTS), text)
    text = re.sub(r"(?<=[A-Za-z)])[₀₁₂₃₄₅₆₇₈₉]+", lambda m: "_" + m[0].translate(_SUBSCRIPTS), text)
    text = re.sub(f"[{''.join(_VULGAR)}]", lambda m: f" {_VULGAR[m[0]]} ", text)
    return "".join(_ONE_FORM.get(char, char) for char in text)


def _fold(char: str) -> str:
    if char in _NOT_DECOMPOSED:
        return _NOT_DECOMPOSED[char]
    return unicodedata.normalize("NFD", char)[0] if char in _ACCENTED else char


def _open_latex(text: str) -> str:
    text = re.sub(r"\\\$", "$", _MATHS.sub(lambda m: f" {m[1]} ", text)) if "$" in text else text
    if "\\" not in text:
        return text
    text = re.sub(r"\\[()\[\]]", " ", text)
    text = re.sub(r"(?<=\d)([ $]*(?:\\(?:mathrm|text)\s*\{)?)~(?=[A-Za-z\\])", r" \1", text)
    text = re.sub(r"\^\s*\{?\s*\\circ\s*\}?", "°", text)
    text = re.sub(r"\\(?:text|mathrm|mathbf|textbf|rm|operatorname)\s*\{([^{}\\]*)\}", r"\1", text)
    text = _FRACTION.sub(lambda m: f" {m[1] or m[2]}/{m[3] or m[4]} ", text)
    text = re.sub(rf"\\sqrt\s*\{{\s*({_ATOM})\s*\}}", r"√\1", text)
    text = re.sub(r"\\[,;:! ]", " ", text).replace("\\%", "%").replace("\\$", "$").replace("\\&", "&")
    text = re.sub(r"\\([A-Za-z]+)", lambda m: f" {_LATEX_WORDS[m[1]]} " if m[1] in _LATEX_WORDS else m[0], text)
    if "\\" in text:
        at = text.index("\\")
        raise Unspeakable("formula", text[at : at + 40])
    return re.sub(r" +([°%])", r"\1", text)


def _lines(text: str) -> str:
    """Line ends as pauses: a blank line ends a sentence, a single one only where the next line starts a new one."""
    text = re.sub(r"([^\s.?!:;,])[ ]*\n\s*\n\s*", r"\1. ", text)
    text = re.sub(r"([^\s.?!:;,])[ ]*\n\s*(?=[A-Z0-9][^\n]*\n|[•*-] )", r"\1. ", text)
    return re.sub(r"\s+", " ", text).strip()


def normalise(text: str) -> str:
    """Written text in one form: straight quotes, plain letters, no LaTeX, one line.

    Raises:
        Unspeakable: broken text, markup, a table, or LaTeX beyond fractions, roots of one symbol and named signs.
    """
    text = re.sub(r"<<[^<>]*>>", "", text)
    if markup := _MARKUP.search(text):
        raise Unspeakable("markup", markup[0])
    text = _one_form(text)
    if broken := re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ufffd]|\b[?]{2,}\w", text):
        raise Unspeakable("symbol", text[max(0, broken.start() - 10) : broken.end() + 10])
    text = _open_latex(text)
    text = re.sub(r"\b(Statement|Sentence|Claim) ?(\d|I{1,2}) ?\|", r"\1 \2:", text)
    if text.count("|") > 1:
        raise Unspeakable("table", text[text.index("|") :][:40])
    text = re.sub(r"\b([Aa])\(n\)", r"\1", text)
    text = re.sub(r"(?<=\d) *μ +(?=[CFmgs]\b)", " μ", text)
    text = re.sub(rf"\b({'|'.join(_MONTHS)})\.? (?=\d)", lambda m: f"{_MONTHS[m[1]]} ", text)
    return _lines("".join(_fold(char) for char in text).replace("**", " "))
