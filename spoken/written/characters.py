"""Normalises characters: straight quotes, one minus, plain digits and letters."""

import unicodedata
from typing import Final

from spoken.written.traced import TracedText

_ACCENTED: Final = frozenset(
    "àáâãäåāăçćčèéêëēěėìíîïīñńňòóôõöōőøùúûüūůűýÿšśşžźżřłąęğďťÉÈÊÇÅÖÜÄÑÁÀÂÍÓÔÚÎŠŽĀŚŌØČİĞŞŐŰơưƠƯ"
) | {*map(chr, range(0x1EA0, 0x1EFA))}
"""Letters that are reduced to their base. Others with marks mostly come from wrong decoding, such as "Ã" and "ȇ"."""

_LIGATURES: Final = {"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ı": "i",
                     "œ": "oe", "æ": "ae", "Æ": "Ae", "ﬂ": "fl", "ﬁ": "fi", "ﬀ": "ff",
                     "ﬃ": "ffi", "ß": "ss"}  # fmt: skip
_VULGAR: Final = {"½": "1/2", "¼": "1/4", "¾": "3/4", "⅓": "1/3", "⅔": "2/3", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5",
                  "⅘": "4/5", "⅙": "1/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8"}  # fmt: skip
_VULGAR_SPACED: Final = {sign: f" {fraction} " for sign, fraction in _VULGAR.items()}
_SUPERSCRIPTS: Final = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿˣ", "0123456789-+nx", strict=True))
_SUBSCRIPTS: Final = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋ₙₓₐₑᵢⱼₖₘₜ", "0123456789+-nxaeijkmt", strict=True))
_ONE_FORM: Final = {
    "\u00a0": " ", "\u2009": " ", "\u200a": " ", "\u2002": " ", "\u2003": " ", "\u202f": " ", "\u3000": " ",
    "\u200b": "", "\ufeff": "", "\u00ad": "", "\u2060": "", "\u200d": "", "\ufe0f": "", "\t": " ", "\r": "\n",
    "\u2028": "\n", "\u2029": "\n", "\x0b": "\n", "\x0c": "\n", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"',
    "’": "'", "‘": "'", "‚": ",", "‛": "'", "`": "'", "´": "'", "′": "'", "ʹ": "'", "ʼ": "'", "‐": "-",
    "‑": "-", "‒": "-", "–": "-", "−": "-", "﹣": "-", "－": "-", "—": " — ", "―": " — ", "…": "...", "⋅": "×",
    "·": "×", "∙": "×", "∗": "*", "⁄": "/", "∕": "/", "？": "?", "，": ", ", "。": ". ", "：": ":", "；": ";",
    "（": "(",
    "）": ")", "＋": "+", "≃": "≈", "≅": "≈", "≦": "≤", "≧": "≥", "⩽": "≤", "⩾": "≥", "µ": "μ", "∆": "Δ", "ϕ": "φ",
    "ϵ": "ε", "\u2126": "Ω", "\u212b": "Å", "℃": "°C", "℉": "°F", "º": "°", "˚": "°", "＝": "=", "•": " • ",
    "●": " • ", "▪": " • ", "◦": " • ", "®": "", "™": "", "©": "copyright ", "№": "No. ", "∶": ":", "≡": "≡",
    "∼": "~", "ѵ": "v", "➔": "→", "⟶": "→", "➝": "→", "⟨": "(", "⟩": ")", "¿": "", "¡": "",
}  # fmt: skip


def replace_characters(text: TracedText) -> TracedText:
    """Returns a text with one form of each mark, sign and digit; superscripts are written "^2", subscripts "_2"."""
    text = text.sub("(?s).[\u0300-\u036f]+", lambda m: unicodedata.normalize("NFC", m[0]))
    text = text.sub("[\U0001d400-\U0001d7ff]", lambda m: unicodedata.normalize("NFKC", m[0]))
    raised, lowered = "".join(_SUPERSCRIPTS), "".join(_SUBSCRIPTS)
    text = text.sub(f"[{raised}]+", lambda m: "^" + _wrap_in_braces("".join(_SUPERSCRIPTS[char] for char in m[0])))
    text = text.sub(f"[{lowered}]+", lambda m: "_" + _wrap_in_braces("".join(_SUBSCRIPTS[char] for char in m[0])))
    return text.translate(_VULGAR_SPACED).translate(_ONE_FORM)


def _wrap_in_braces(script: str) -> str:
    """Returns a superscript or subscript in braces, unless it is one character or a number."""
    return script if len(script) == 1 or script.isdigit() or script.lstrip("+-").isdigit() else f"{{{script}}}"


def strip_accents(text: TracedText) -> TracedText:
    """Returns a text without the accents of common letters (`_ACCENTED`) and without ligatures.

    "Å" by itself is kept, as it is a unit, and so are letters with rarer marks.
    """
    text = text.sub(r"Å (?=ngstr)|Å(?=[^\W\d_])|(?<=[^\W\d_])Å", "A")
    folded = {char: unicodedata.normalize("NFD", char)[0] for char in set(text.text) & _ACCENTED - {"Å"}}
    return text.translate({**folded, **_LIGATURES})
