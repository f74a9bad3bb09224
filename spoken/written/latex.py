r"""Converts LaTeX to the linear notation of the rules: `\frac{a+b}{2}` is "(a+b)/2", `\alpha` is "α"."""

import re
from collections.abc import Sequence
from typing import Any, Final

from spoken.spoken_text import Unspeakable, make_word_set
from spoken.written.traced import TracedText

_SIGNS: Final = {
    "times": "×", "cdot": "×", "bullet": "×", "div": "÷", "pm": "±", "leq": "≤", "le": "≤", "leqslant": "≤",
    "geq": "≥", "ge": "≥", "geqslant": "≥", "neq": "≠", "ne": "≠", "approx": "≈", "simeq": "≈", "sim": "~",
    "infty": "∞", "ldots": "...", "dots": "...", "cdots": "...", "lt": "<", "gt": ">", "degree": "°", "circ": "°",
    "rightarrow": "→", "to": "→", "longrightarrow": "→", "rightleftharpoons": "⇌", "rightleftarrows": "⇌",
    "int": "∫", "iint": "∬", "oint": "∮", "sum": "∑", "prod": "∏", "surd": "√", "mid": "|", "vert": "|", "lvert": "|",
    "rvert": "|", "hbar": "ℏ", "ell": "ℓ", "prime": "'", "AA": "Å", "ast": "*", "textemdash": " — ",
    "textquotedblleft": '"', "textquotedblright": '"', "textcent": "¢", "texttheta": "θ", "textphi": "φ", "ominus": "°",
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "varepsilon": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ", "vartheta": "θ", "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π",
    "rho": "ρ", "sigma": "σ", "tau": "τ", "upsilon": "υ", "phi": "φ", "varphi": "φ", "chi": "χ", "psi": "ψ",
    "omega": "ω", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π", "Sigma": "Σ",
    "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω",
}  # fmt: skip
_FUNCTIONS: Final = make_word_set("sin cos tan sec csc cot sinh cosh tanh arcsin arccos arctan log ln exp lim max min")
_DROPPED: Final = make_word_set(
    "left right big Big bigg Bigg bigl bigr Bigl Bigr displaystyle textstyle limits nolimits centering noindent rm bf "
    "it scriptstyle boxed"
)
_SPACES: Final = frozenset({"quad", "qquad", ",", ";", ":", "!", " ", ">", "\\", "newline", "par", "medskip"})
_UNWRAPPED: Final = make_word_set(
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
"""Signs that do not have their LaTeX meaning, because the texts are prose with some LaTeX."""

_ATOM: Final = re.compile(r"\s*(?:\d+(?:\.\d+)?|[A-Za-z]|[α-ωΑ-Ω])\s*")
_SHORT: Final = make_word_set("to mid pm le ge ne lt gt AA int")
r"""Names that are the beginning of others, such as "\pmod"."""

_GLUED: Final = re.compile(rf"\\({'|'.join(sorted(_SIGNS.keys() - _SHORT, key=len, reverse=True))})(?=[A-Za-z])")
r"""A name joined to a letter: "\DeltaH"; longer names of LaTeX are matched first."""

_KNOWN: Final = _SIGNS.keys() | _FUNCTIONS | _DROPPED | _UNWRAPPED | _BEFORE.keys() | _AFTER.keys() | {"frac", "sqrt"}
_MINUS_FRACTION: Final = re.compile(r"(?:(?<=[\d)}\]])|(?<=(?<![A-Za-z\\])[A-Za-z])) *-\s*(?=\\frac)")
_SIGN_OF_FRACTION: Final = re.compile(r"(?<!\w |[\d)}\]] )-\s+(?=\\frac)")
"""A minus between two terms has spaces on both sides; a sign directly precedes its fraction."""


class _LatexRenderer:
    """Renders the node tree of pylatexenc; every piece keeps its written span."""

    def __init__(self, source: TracedText) -> None:
        self._source = source

    def render_nodes(self, nodes: Sequence[Any]) -> TracedText:
        """Returns the linear notation of all nodes, joined; raises `Unspeakable` if one has none."""
        return TracedText.join(self._render_node(node, self._is_script(node)) for node in nodes if node is not None)

    def _is_script(self, node: Any) -> bool:
        """Returns whether a node is an exponent or index: it follows "^" or "_"."""
        return self._source.text[: node.pos].rstrip(" ")[-1:] in {"^", "_"} and node.pos > 0

    def _render_node(self, node: Any, is_script: bool = False) -> TracedText:
        """Renders a node with its children; `is_script` is true for an exponent or index, which keeps its braces.

        Raises:
            Unspeakable: it is an environment, such as a matrix, or a command without a reading.
        """
        whole = self._source[node.pos : node.pos + node.len]
        if type(node).__name__ == "LatexMacroNode":
            whole = whole[: len(whole.text.rstrip()) or 1]  # pylatexenc includes the space after a macro
        name = type(node).__name__
        if name == "LatexMacroNode":
            return self._render_macro(node, whole)
        if name == "LatexGroupNode":
            inner = self.render_nodes(node.nodelist)
            is_argument = self._source.text[: node.pos][-1:].isdigit() and "/" in inner.text  # "L^-1{2s / 3}"
            if is_script or node.delimiters[0] != "{" or "," in inner.text or is_argument:
                return TracedText.join([whole[:1], inner, whole[-1:]])
            return inner
        if name == "LatexEnvironmentNode":
            raise Unspeakable("formula", whole.text[:40])
        return self.render_nodes(node.nodelist) if name == "LatexMathNode" else whole

    def _render_macro(self, node: Any, whole: TracedText) -> TracedText:
        """Renders a command: its sign, its name, its arguments alone, or nothing; raises as `_render_node`."""
        name = node.macroname
        arguments = [self._render_node(each) for each in (node.nodeargd.argnlist if node.nodeargd else []) if each]
        if name in _SIGNS or name in _FUNCTIONS:
            sign = _SIGNS.get(name, name)
            is_called = sign.isalpha() and self._source.text[node.pos + node.len :].startswith("(")
            return _make_traced(whole, sign if sign in {"°", "'", "¢"} else f" {sign}{'' if is_called else ' '}")
        if name in _DROPPED or name in _SPACES:
            return _make_traced(whole, ", " if name in {"quad", "qquad"} else " " if name in _SPACES else "")
        if name in _ESCAPED:
            return _make_traced(whole, name)
        if name in _UNWRAPPED and arguments:
            return arguments[-1]
        if name == "frac" and len(arguments) == 2:
            gap = "" if self._source.text[: node.pos].endswith("-") else " "
            return _join_pieces(
                whole, gap, _wrap_in_brackets(arguments[0], whole), "/", _wrap_in_brackets(arguments[1], whole), " "
            )
        is_factor = self._source.text[node.pos + node.len :][:1].isdigit()  # "\\sqrt{2}3"
        return _join_pieces(
            whole, self._render_call(name, whole, arguments), " × " if is_factor and name == "sqrt" else ""
        )

    def _render_call(self, name: str, whole: TracedText, given: list[TracedText]) -> TracedText:
        """Renders a root, or a mark over a letter, with its arguments.

        Raises:
            Unspeakable: it is another command, a root above the fourth, or a mark over more than two characters.
        """
        if name == "sqrt" and given:
            index = given[0].text.strip("[] ") if len(given) == 2 else ""
            if index in _ROOTS or index == "":
                return _join_pieces(whole, f" {_ROOTS[index]}", _wrap_in_brackets(given[-1], whole))
        if name in _BEFORE and given:
            return _join_pieces(whole, f" {_BEFORE[name]}", *given)
        if name in _AFTER and given and re.fullmatch(r"\s*\S{1,2}\s*", given[0].text):
            return _join_pieces(whole, *given, _AFTER[name])
        raise Unspeakable("formula", whole.text[:40])


def _make_traced(whole: TracedText, new: str) -> TracedText:
    """Returns `new` as a traced text, each character of which comes from all of `whole`."""
    return TracedText(new, (whole.find_span(0, len(whole.text)),) * len(new))


def _join_pieces(whole: TracedText, *pieces: str | TracedText) -> TracedText:
    """Joins the pieces; those that are strings come from all of `whole`."""
    return TracedText.join(_make_traced(whole, piece) if isinstance(piece, str) else piece for piece in pieces)


def _wrap_in_brackets(piece: TracedText, whole: TracedText) -> TracedText:
    """Returns a piece of a formula without spaces at its ends, in brackets unless it is one number or letter."""
    bare = piece.text.strip()
    piece = piece[piece.text.find(bare) :][: len(bare)]
    return piece if _ATOM.fullmatch(piece.text) else _join_pieces(whole, "(", piece, ")")


def convert_latex(text: TracedText) -> TracedText:
    """Returns a text with its LaTeX as plain signs: "(a+b)/2"; a text without backslashes is returned unchanged.

    Raises:
        Unspeakable: `formula`: commands without a reading, matrices, products of vectors, LaTeX that does not parse.
    """
    if "\\" not in text.text:
        return text
    from pylatexenc.latexwalker import LatexWalker, LatexWalkerError

    if re.search(r"\\(?:vec|mathbf|overrightarrow)(?![a-z])[^.]{0,12}\\cdot(?![a-z])", text.text):
        raise Unspeakable("formula", "a product of vectors")
    text = text.sub(r"\\[dtc]frac(?![A-Za-z])", r"\\frac")
    text = text.sub(r"\\([A-Za-z]+)", lambda m: m[0] if m[1] in _KNOWN else _GLUED.sub(r"\\\1 ", m[0]))
    text = text.sub(r"\\[()\[\]]", " ").sub(r"\\([$%#])", lambda m: _HIDDEN[m[1]]).translate(_HIDDEN)
    text = text.sub(r"\^ ?\{? ?((?:\\prime *)+)\}?", lambda m: "'" * m[1].count("prime"))
    text = text.sub(_MINUS_FRACTION, " - ").sub(_SIGN_OF_FRACTION, "-")
    text = text.sub(r"\^ ?\{? ?\\circ ?\}?", "°")
    try:
        nodes, _, _ = LatexWalker(text.text, tolerant_parsing=True).get_latex_nodes()
        opened = _LatexRenderer(text).render_nodes(nodes)
    except (LatexWalkerError, RecursionError) as error:
        raise Unspeakable("formula", text.text[:40]) from error
    shown = {hidden: sign for sign, hidden in _HIDDEN.items()}
    return opened.translate({**shown, _HIDDEN["~"]: " "})
