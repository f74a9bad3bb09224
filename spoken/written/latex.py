"""LaTeX as the linear notation that the rules read: `\\frac{a+b}{2}` is "(a+b)/2", `\\alpha` is "α"."""

import re
from collections.abc import Sequence
from typing import Any, Final

from spoken.spoken_text import Unspeakable, word_set
from spoken.written.traced import Traced

_SIGNS: Final = {
    "times": "×", "cdot": "×", "bullet": "×", "div": "÷", "pm": "±", "mp": "∓", "leq": "≤", "le": "≤", "leqslant": "≤",
    "geq": "≥", "ge": "≥", "geqslant": "≥", "neq": "≠", "ne": "≠", "approx": "≈", "simeq": "≈", "cong": "≅",
    "sim": "∼", "propto": "∝", "equiv": "≡", "infty": "∞", "ldots": "...", "dots": "...", "cdots": "...", "lt": "<",
    "gt": ">", "ll": "≪", "gg": "≫", "degree": "°", "circ": "°", "in": "∈", "notin": "∉", "subset": "⊂",
    "subseteq": "⊆", "cup": "∪", "cap": "∩", "emptyset": "∅", "forall": "∀", "exists": "∃", "neg": "¬", "lnot": "¬",
    "land": "∧", "wedge": "∧", "lor": "∨", "vee": "∨", "rightarrow": "→", "to": "→", "longrightarrow": "→",
    "leftarrow": "←", "leftrightarrow": "↔", "rightleftharpoons": "⇌", "rightleftarrows": "⇌", "Rightarrow": "⇒",
    "implies": "⇒", "iff": "↔", "Leftrightarrow": "↔", "perp": "⊥", "parallel": "∥", "angle": "∠", "triangle": "△",
    "partial": "∂", "nabla": "∇", "int": "∫", "iint": "∬", "oint": "∮", "sum": "∑", "prod": "∏", "surd": "√",
    "rightharpoonup": "→",
    "ominus": "°", "mid": "|", "vert": "|", "lvert": "|", "rvert": "|", "Vert": "‖", "|": "‖", "hbar": "ℏ",
    "ell": "ℓ", "prime": "'", "langle": "⟨", "rangle": "⟩", "AA": "Å", "textcent": "¢", "textphi": "φ",
    "textbullet": "×", "textemdash": " — ", "ast": "*", "Upsilon": "Υ", "uparrow": "↑",
    "downarrow": "↓", "nearrow": "arrow", "backslash": "\\", "textquotedblleft": '"', "textquotedblright": '"',
    "male": "male", "venus": "female",
    "textasteriskcentered": "*", "setminus": "∖",
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "varepsilon": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ", "vartheta": "θ", "texttheta": "θ", "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν",
    "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "upsilon": "υ", "phi": "φ", "varphi": "φ", "chi": "χ",
    "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π",
    "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω",
}  # fmt: skip
_FUNCTIONS: Final = word_set(
    "sin cos tan sec csc cot sinh cosh tanh arcsin arccos arctan log ln exp lim max min sup inf det dim gcd limsup "
    "liminf"
)
_DROPPED: Final = word_set(
    "left right big Big bigg Bigg bigl bigr Bigl Bigr displaystyle textstyle limits nolimits centering noindent rm bf "
    "it scriptstyle"
)
_SPACES: Final = frozenset({"quad", "qquad", ",", ";", ":", "!", " ", ">", "\\", "newline", "par", "medskip"})
_UNWRAPPED: Final = word_set(
    "text mathrm mathbf textbf textit emph operatorname mathit mathcal mathbb mathsf mathfrak mathscr boldsymbol "
    "underline ensuremath mbox"
)
_BEFORE: Final = {"vec": "vector ", "overrightarrow": "vector "}
_AFTER: Final = {"hat": " hat", "widehat": " hat", "bar": " bar", "overline": " bar", "tilde": " tilde",
"widetilde": " tilde", "dot": " dot",
                 "ddot": " double dot"}  # fmt: skip
_ROOTS: Final = {"": "√", "2": "√", "3": "∛", "4": "∜"}
_ESCAPED: Final = "%$&#_{}"
_HIDDEN: Final = {"%": "\ue000", "$": "\ue001", "#": "\ue002", "~": "\ue003"}
"""Signs that are not what LaTeX takes them for, since the texts are prose with pieces of LaTeX in it."""

_ATOM: Final = re.compile(r"\s*(?:\d+(?:\.\d+)?|[A-Za-z]|[α-ωΑ-Ω])\s*")
_GLUED: Final = re.compile(rf"\\({'|'.join(sorted(_SIGNS.keys() - {'in', 'to', 'mid', '|'}, key=len, reverse=True))})"
                           r"(?=[A-Za-z])")  # fmt: skip
"""A name with a letter stuck to it: "\\DeltaH"; LaTeX's own longer names are looked up first."""

_MINUS_FRACTION: Final = re.compile(r"(?:(?<=[\d)}\]])|(?<=(?<![A-Za-z\\])[A-Za-z])) *-\s*(?=\\frac)")
_SIGN_OF_FRACTION: Final = re.compile(r"(?<!\w |[\d)}\]] )-\s+(?=\\frac)")
"""A minus between two terms stands apart from both, a sign right before its fraction."""

_ARROW_OVER: Final = re.compile(r"(?<![A-Za-z\\])([A-Za-z])\^?\\ding\{2\d\d\}(?= ?[,.;?=]| (?:of|is|and|for)\b)")
"""An arrow that stands after its letter, which is a vector."""

_INNER_PRODUCT: Final = re.compile(
    r"(\\(?:vec|mathbf|overrightarrow) ?\{? ?[A-Za-z] ?\}? ?)\\cdot ?(d?) ?"
    r"(?=\\(?:vec|mathbf|overrightarrow|hat)(?![a-z]))"
)
"""A dot between two vectors."""

_TWO_ISOTOPES: Final = re.compile(
    r"\{ *\} *\^ *\{? *(\d{1,3}) *\}? *(\\mathrm *\{[A-Z][a-z]?\}) *\^ *\{? *(\d{1,3}) *\}? *(?=\\mathrm *\{[A-Z])"
)
"""Of a molecule: the second number stands before its symbol, though it looks like a power of the first."""

_KNOWN: Final = (
    _SIGNS.keys() | _FUNCTIONS | _DROPPED | _UNWRAPPED | _BEFORE.keys() | _AFTER.keys()
    | {"frac", "sqrt", "binom", "dbinom", "pmod", "bmod", "mod", "begin", "end", "substack", "not", "newline", "qquad",
       "quad"}
)  # fmt: skip
_SPOILT: Final = {"\x08": "\\b", "\x07": "\\a", "\x0b": "\\v", "\x0c": "\\f", "\t": "\\t"}
"""What a program made of "\\beta", "\\alpha", "\\vert" and "\\frac" that read the backslash as an escape."""


def _mended(text: Traced) -> Traced:
    if any(char in text.text for char in _SPOILT):
        text = text.sub(
            r"[\x07\x08\x0b\x0c\t]([a-z]+)",
            lambda m: _SPOILT[m[0][0]] + m[1] if _is_name(_SPOILT[m[0][0]][1] + m[1]) else m[0],
        )
    return text.sub(r"\\([A-Za-z]+)", lambda m: m[0] if m[1] in _KNOWN else _GLUED.sub(r"\\\1 ", m[0]))


def _is_name(letters: str) -> bool:
    """Whether a command's name is these letters, or starts them with more than two."""
    return letters in _KNOWN or any(letters[:end] in _KNOWN for end in range(len(letters), 2, -1))


class _Reader:
    """Walks the tree that pylatexenc makes of a text; every piece keeps its written place."""

    def __init__(self, source: Traced) -> None:
        self._source = source

    def nodes(self, nodes: Sequence[Any]) -> Traced:
        return Traced.joined(self._node(node, self._opens_script(node)) for node in nodes if node is not None)

    def _opens_script(self, node: Any) -> bool:
        return self._source.text[: node.pos].rstrip(" ")[-1:] in {"^", "_"} and node.pos > 0

    def _node(self, node: Any, is_script: bool = False) -> Traced:
        whole = self._source[node.pos : node.pos + node.len]
        if type(node).__name__ == "LatexMacroNode":
            whole = whole[: len(whole.text.rstrip()) or 1]  # the parser counts the space after a name as its own
        name = type(node).__name__
        if name == "LatexMacroNode":
            return self._macro(node, whole)
        if name == "LatexGroupNode":
            inner = self.nodes(node.nodelist)
            is_argument = self._source.text[: node.pos][-1:].isdigit() and "/" in inner.text  # "L^-1{2s / 3}"
            if is_script or node.delimiters[0] != "{" or "," in inner.text or is_argument:
                return Traced.joined([whole[:1], inner, whole[-1:]])
            return inner
        if name == "LatexEnvironmentNode":
            return self._environment(node, whole)
        return self.nodes(node.nodelist) if name == "LatexMathNode" else whole

    def _macro(self, node: Any, whole: Traced) -> Traced:
        name = node.macroname
        arguments = [self._argument(each) for each in (node.nodeargd.argnlist if node.nodeargd else []) if each]
        if name in _SIGNS or name in _FUNCTIONS:
            sign = _SIGNS.get(name, name)
            is_called = sign.isalpha() and self._source.text[node.pos + node.len :].startswith("(")
            return _as(whole, sign if sign in {"°", "'", "¢"} else f" {sign}{'' if is_called else ' '}")
        if name in _DROPPED or name in _SPACES:
            return _as(whole, ", " if name in {"quad", "qquad"} else " " if name in _SPACES else "")
        if name in _ESCAPED:
            return _as(whole, name)
        if name in _UNWRAPPED and arguments:
            return arguments[-1]
        if name == "frac" and len(arguments) == 2:
            gap = "" if self._source.text[: node.pos].endswith("-") else " "
            return _glue(whole, gap, _grouped(arguments[0], whole), "/", _grouped(arguments[1], whole), " ")
        is_factor = self._source.text[node.pos + node.len :][:1].isdigit()  # "\\sqrt{2}3"
        return _glue(whole, self._construct(name, whole, arguments), " × " if is_factor and name == "sqrt" else "")

    def _argument(self, node: Any) -> Traced:
        return self._node(node)

    def _construct(self, name: str, whole: Traced, given: list[Traced]) -> Traced:
        if name == "sqrt" and given:
            index = given[0].text.strip("[] ") if len(given) == 2 else ""
            if index in _ROOTS or index == "":
                return _glue(whole, f" {_ROOTS[index]}", _grouped(given[-1], whole))
        if name in {"binom", "dbinom"} and len(given) == 2:
            return _glue(whole, " ", _grouped(given[0], whole), " choose ", _grouped(given[1], whole), " ")
        if name in {"pmod", "mod", "bmod"}:
            return _glue(whole, " mod ", *given)
        if name in _BEFORE and given:
            return _glue(whole, f" {_BEFORE[name]}", *given)
        if name in _AFTER and given and re.fullmatch(r"\s*\S{1,2}\s*", given[0].text):
            return _glue(whole, *given, _AFTER[name])
        raise Unspeakable("formula", whole.text[:40])

    def _environment(self, node: Any, whole: Traced) -> Traced:
        inner = self.nodes(node.nodelist)
        name = node.environmentname.rstrip("*")
        if name in {"align", "aligned", "equation", "gathered"}:
            return inner.translated({"&": " "})
        raise Unspeakable("formula", whole.text[:40])


def _as(whole: Traced, new: str) -> Traced:
    return Traced(new, (whole.span(0, len(whole.text)),) * len(new))


def _glue(whole: Traced, *pieces: str | Traced) -> Traced:
    return Traced.joined(_as(whole, piece) if isinstance(piece, str) else piece for piece in pieces)


def _grouped(piece: Traced, whole: Traced) -> Traced:
    bare = piece.text.strip()
    piece = piece[piece.text.find(bare) :][: len(bare)]
    return piece if _ATOM.fullmatch(piece.text) else _glue(whole, "(", piece, ")")


def has_latex(text: str) -> bool:
    """Whether there is a command in a text, be it with a spoilt backslash."""
    return "\\" in text or any(char in text for char in "\x07\x08")


def open_latex(text: Traced) -> Traced:
    """A text whose LaTeX is written in plain signs; one without backslashes comes back as it is.

    Raises:
        Unspeakable: `formula`: commands without a reading, matrices, LaTeX that does not parse.
    """
    from pylatexenc.latexwalker import LatexWalker, LatexWalkerError

    text = text.sub(r"\\[dt]?binom *\{([^{}]{1,20})\} *\{([^{}]{1,20})\}", r" \1 choose \2 ")
    text = _mended(text.sub(r"\\[dtc]frac(?![A-Za-z])", r"\\frac"))
    if "\\" not in text.text:
        return text
    text = text.sub(r"(?<!\\)\$(?=\\(?:hat|bar|vec|tilde|mathbf|lim|sum|int|sqrt)(?![a-z]))", "")  # never money
    text = text.sub(r"\\[()\[\]]", " ").sub(r"\\([$%#])", lambda m: _HIDDEN[m[1]]).translated(_HIDDEN)
    text = text.sub(r"\^ ?\{? ?((?:\\prime *)+)\}?", lambda m: "'" * m[1].count("prime"))
    text = text.sub(r"\\operatorname\*? ?\{", r"\\mathrm{")
    text = text.sub(r"(10|ec|[\dgm])\\Elzbar ?(?=\d)", r"\1^-").sub(r"\\Elzbar ?", "-")
    text = text.sub(_ARROW_OVER, r"vector \1 ")
    text = text.sub(r"\\rule ?\{1em\}\{1pt\}", "-")  # a line as long as a letter is a minus sign
    text = text.sub(_TWO_ISOTOPES, r" ^{\1}\2-^{\3}")
    text = text.sub(r"\{ *\} *\^ *\{? *(\d{1,3}) *\}? *(?=\\mathrm|[A-Z])", r" ^{\1}")  # an isotope's number
    text = text.sub(_INNER_PRODUCT, r"\1 dot \2 ").sub(r"(?<![\\A-Za-z])infty(?![A-Za-z])", r"\\infty ")
    text = text.sub(_MINUS_FRACTION, " - ").sub(_SIGN_OF_FRACTION, "-")
    text = text.sub(r"\\textasteriskcentered(?= ?\((?:excited|ground))", r" star").sub(r"\\ding\{2\d\d\}", " → ")
    text = text.sub(r"\^ ?\{? ?\\(?:circ|ominus) ?\}?", "°")
    try:
        nodes, _, _ = LatexWalker(text.text, tolerant_parsing=True).get_latex_nodes()
        opened = _Reader(text).nodes(nodes)
    except (LatexWalkerError, RecursionError) as error:
        raise Unspeakable("formula", text.text[:40]) from error
    shown = {hidden: sign for sign, hidden in _HIDDEN.items()}
    return opened.translated({**shown, _HIDDEN["~"]: " "})
