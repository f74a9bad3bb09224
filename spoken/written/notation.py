"""One form for formulas that are written in another order, or with signs of other meanings, before any rule reads them.

Bounds before their sum, arrows over letters, pairs in angle brackets, matrices as lists of lists, stars, nuclides.
"""

import re
from collections.abc import Callable
from typing import Final

from spoken.written.traced import Traced

_BOUND: Final = r"[-+]? ?(?:∞|\d+|[A-Za-z])"
_VARIABLE: Final = r"(?<![A-Za-z])[A-Za-z]{1,2}(?:_\{?\w+\}?)?"
_PAIR: Final = r"[-+]?[A-Za-z\d.]{1,5}"
_ROW: Final = r"\[ ?[-+\d.,/ ]{1,60}\]"
_TIMES: Final = {"s": "second", "sec": "second", "min": "minute", "hr": "hour", "h": "hour"}

_EVENT: Final = (
    r"(?<![\w\\])P(?:r|rob)?(?:\(|\[) ?((?:\|[^|()]{1,20}\|)?"
    r"(?=[^()\[\],|]{0,30}[=<>≤≥≠])(?:[^()\[\],|]|\([^(),]{1,8}\)){1,40}?) ?[)\]]"
)
"""The probability of an event that is told as an equation: "P(X = 3)"."""

_DESCRIBED: Final = r"(?<![A-Za-z])[A-Za-zα-ω]\([a-z]{3}[a-z ]{1,60}\)"
"""A letter with what it stands for in brackets: "k(conductivity of it)"."""

_BRACKETED: Final = r"\((ohm|ft|cm|m|lb|sec|hr|in|kg|g|s)\)"

_FORMULAS: Final = (
    (r"(?<=[(\[,]) ?- ?∞", "-∞"),
    (r"(?<![A-Za-z])C - (?=[CHNO] (?:bond|single|double|triple|stretch))", "C-"),
    (
        rf"\{{? ?\^ ?({_BOUND}) ?([∫∑∏]) ?_? ?((?:[a-z] ?= ?)?- ?∞|(?:[a-z] ?= ?)?(?:\d|-[a-z\d]|[a-z](?= ?=)))",
        r" \2_{\3}^{\1} ",
    ),
    (r"(?<![A-Za-z])([A-Za-z](?:_\w)?) ?\^ ?→(?! ?[A-Z\d])", r"vector \1 "),
    (rf"< ?({_PAIR}(?: ?, ?{_PAIR}){{1,3}}) ?>", r"(\1)"),
    (r"(?<=[\w)\]}])\^ ?\{? ?\* ?\}?(?! ?[\w(])", " star"),
    (r"(?<=[\w)\]}])\^ ?\{? ?\* ?\}?(?=[ )]? ?[a-z=])", " star "),
    (
        r"(?<![A-Za-z])([A-Z])\*(?=[,.;?)]| (?:is|of|and|in|be|for|to|it|on|test|statistics?|algorithm|search)\b|$)",
        r"\1 star",
    ),
    (r"(?<=\)) ?\{?_ ?\*\}? ?(?=[a-z])", " convolved with "),
    (r"(?<=[|‖])  ?(?=\^)", ""),
    (r"(?:\b[Tt]he norm )?(?:‖|\|\|)([^‖|\n]{1,40})(?:‖|\|\|) ?_ ?(\d|p|∞)(?!\w)", r"the \2 norm of \1 "),
    (r"(?<=[A-Za-zα-ω])_ ?([+-])(?=[ ,.;)=]|$)", r"_{\1}"),
    (r"\^\{?([+-])\}?_(\d)(?!\d)", r"_\2^\1"),
    (r"\^(log|ln) ?([a-z])(?![\w(^])", r"^{\1 \2}"),
    (r"(?<![\w.])(\d+(?:\.\d+)?\(\d*[a-z]) — (\d+\))", r"\1 - \2"),
    (r"(?<![\w.])(\d*[a-z]) — (\d+)(?=[,.;)]| and| or|$)", r"\1 - \2"),
    (r"(?<![A-Za-z])([fgh]) \((?=[-–]?[a-z]\))|(?<![A-Za-z])([a-zνφ]) \((?=t\) ?=)", r"\1\2("),
    (r"(?<![A-Za-z])([b-eg-hj-np-z])f\((?=[a-z](?:_\{?[\w+-]+\}?)? ?,)", r"\1 f("),
    (r"(?<![A-Za-z\\])([kA])m\((?=t\))", r"\1 m("),
    (r"(?<![\w.'^/-])I ?/ ?(?=I_)", "I over "),
    (r"(?<![A-Za-z])(det|dim|rank|Var)([A-Z])(?![A-Za-z(])", r"\1(\2)"),
    (r"(?<=\d\)) ?x ?(?=\d)", " × "),
    (r"(?<=[=+])( ?)(?!pH)([a-z])([A-Z])(?![A-Za-z(])", r"\1\2 \3"),
    (rf"((?:{_VARIABLE}|\)) ?= ?)(?=.?[AEIOU]|X[VL])([A-Z])(?!\2)([A-Z])(?![A-Za-z\d'(])", r"\1\2 \3"),
    (r"(?<=\d)([IVX])([IVX])(?![A-Za-z\d])", r" \1 \2"),
    (r"(?<== )ma(?![\w'(])|(?<![\w'])ma(?= ?= ?[A-Z](?![A-Za-z]))", "m a"),
    (r"(?<![\w-])([a-zA-Z]) - (?=(?:transform|axis|plane|direction|coordinate|component)s?\b)", r"\1-"),
    (r"(?<![A-Za-z\d_])([a-z])0(?=\^\d)", r"\1_0"),
    (r"(?<=\d)E(?=\[)", " E"),
    (r"(?<=\d)pi(?![A-Za-z])", "π"),
    (r"(?<=[a-zν]_[A-Za-z\d]) (?=\([tx]\))|(?<=[a-zν]\^[23]) (?=\(t\))", ""),
    (r"(?<![A-Za-z])([A-Z])([fgh])(?=\([txyz]\))", r"\1 \2"),
    (r"(?<![A-Za-z])([fgh]) ?: ?(?=\[ ?\w{1,2} ?, ?\w{1,2} ?\](?! ?→))", r"\1 on "),
    (rf"\b([Ll]et (?:\w+ and )?){_EVENT} ?= ?", r"\1the probability that \2 be "),
    (rf"{_EVENT} ?= ?", r"the probability that \1 is "),
    (_EVENT, r"the probability that \1"),
    (rf"({_DESCRIBED} ?= ?[^=;]{{1,60}}?)(?<![,;])(?<!and) (?={_DESCRIBED} ?=)", r"\1; "),
    (r"(?<![\w)\]}'])'(?=[A-Za-z])([^'\n]{1,60} [A-Za-z])'(?![A-Za-z'])", r'"\1"'),
)
"""Bounds before their sum, arrows over letters, pairs in angle brackets, stars, functions and products."""

_PARTICLES: Final = (
    (r"\( ?\^\{?1\}? ?_\{?0\}? ?\) ?n(?![a-z])|(?<![\w)])\^\{?1\}?_\{?0\}?n(?![a-z])", "a neutron"),
    (r"(?<![\w)])\^ ?\{?0\}? ?_ ?\{? ?- ?1 ?\}? ?β", "beta minus"),
    (r"(?<![\w)])\( ?\^ ?(\d{1,2}) ?_ ?(\d{1,2}) ?\)(?! ?[A-Zβ(])(?=[ =,.])", r"\1 choose \2"),
    (r"(?<![\w)])\^ ?\{?(\d{2,3})\}?X(?![\w^])", r"X \1"),
    (r"(?<=[A-Z][a-z])\+ ?\+(?= ?[,.;:()]| [a-z])", "^{2+}"),
    (r"(?<![\w.])(\d?)0_2(?=\(g\)| (?:at|gas|is|and|in)\b)", r"\1O_2"),
    (r"(?<![A-Za-z\d_})])(\d*)H(?:_?\{?20\}?|_\{?2\}? 0)(?![\w.])", r"\1H_2O"),
    (r"(?<=H_2O)\(1\)|(?<=H2O)\(1\)", "(l)"),
    (r"(?<![A-Za-z\d_^])(\d?)N0(?=_[23]|\((?:g|aq)\))", r"\1NO"),
    (r"(?<=[CKaNgu ])C1(?=_[2-4]?\b|_[2-4])", "Cl"),
    (r"(?<![A-Za-z\d])(H|K|Na|Ag)C1(?![\w.])", r"\1Cl"),
    (r"(?<![A-Za-z\d])(Na|Ag)CI(?!\w)|(?<![A-Za-z\d])([A-Z][a-z]?)CI(?=_\{?[2-6])", r"\1\2Cl"),
    (r"(?<=[\d.] [NM] )HCI\b|(?<=\d moles of )HCI\b|(?<=\d mole of )HCI\b|(?<=acid \()HCI\b", "HCl"),
)
"""Nuclides and particles with their two numbers, ions, zeros and ones typed for O and l."""

_OF_MOLECULES: Final = r"(?:diameter|radius|bond length|spacing|edge length)"


def _of_moisture(match: re.Match[str]) -> str:
    """ "0.01 kg water/kg dry air": what is in so much of the other."""
    unit = {"kg": "kilogram", "g": "gram", "lb": "pound", "lbm": "pound mass"}[match[1]]
    return f" {match[1]} of {match[2]} per {unit} of {'dry ' if match[3] else ''}air"


_UNITS: Final[tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]] = (
    (r"(?<=/)(c?m|dm|ft|in)_([23])(?!\d)", r"\1^\2"),
    (r"(?<=[/ ])(in|ft|m)\.(?=\^[23])", r"\1"),
    (r"(?<=[a-z\d] )K°(?=\^| ?-)", "°K"),
    (r"\b([Ss])p ?\. ?gr ?\.", r"\1pecific gravity"),
    (r"\b([Mm])ol ?\. ?wt ?\.", r"\1olecular weight"),
    (r"(?<=\d )(lit|liter|cal) - (?=atm)", r"\1-"),
    (r"(?<=\d) ?m ?μ(?=[,.;)?]| (?:or|and|is|in|to|light|wave\w*)\b|$)", " nm"),
    (r"(?<=\bin )kg m/s(?![\w^])", "kilogram meters per second"),
    (r"(?<=cal )gr(?=\^)", "g"),
    (r"(?<=\d) ?μ ?(?=(?:coulomb|farad|amp|volt|second|meter|henr)[a-z]*\b)", " micro"),
    (r"(?<=\d) ?1b(?=s?\b|/)", " lb"),
    (r"(?<=\d) ?o(?=[CF](?![\w']))", "°"),
    (r"((?:λ_?\d? ?=|\b[Ww]avelengths?(?: λ)?(?: of|,| =| is)?) ?\d[\d.,]*) A(?![\w'°^-]|\.\w)", r"\1 Å"),
    (r"(?<=\d )Henr(y|ies)(?= ?/)", r"henr\1"),
    (r"(?<=\d\.\d)o\b|(?<=\d\.\d\d)o\b", "°"),
    (r"(?<=\d )N (?=HCl\b)", "normal "),
    (r"(?<=\d) ?/ ?([cm]?m)([23])(?=[ ,.;)])", r"/\1^\2"),
    (
        r"(?<=\d )((?:photon|electron|atom|decay|cycle|particle|count|molecule|ion)s?) × s ?\^ ?\{?-1\}?",
        r"\1 per second",
    ),
    (r"(?<=\d) ?in\. ?Hg\b", " in Hg"),
    (r"(?<=\d )lb[ -]mol(?:es?)?(?![\w-])", "lbmol"),
    (r"(?<=\b[Oo]ne )lb-mol(?:e)?(?![\w-])", "pound mole"),
    (r"(?<=/)(?:(g)m?|(lb|kg))[ -]mol(?:es?)?(?![\w^-]| \^)", r"\1\2mol"),
    (r"(?<=\d )(g|kg)-mol(?:es?)?(?![\w^-])", r"\1mol"),
    (r"(?<=\d )g-(?=(?:[A-Z][a-z]?_?\d?){2,6}(?![a-z]))", "g of "),
    (rf"(?<=\d) ?{_BRACKETED} ?{_BRACKETED}", r" \1-\2"),
    (rf"(?<=[a-z]/){_BRACKETED} ?{_BRACKETED}", r"\1-\2"),
    (r"\b([Dd]istance|[Ll]ength|[Hh]eight|[Dd]epth|[Rr]adius|[Dd]iameter) of l(?=[ckm]?m\b(?! ?[=/^]))", r"\1 of 1 "),
    (rf"(\b{_OF_MOLECULES} (?:of|is|=) ?\d[\d.]*) A(?![\w'°^-]|\.\w)", r"\1 Å"),
    (r"(?<=\d) ?(lbm?|kg|g) ?(water|vapor|steam) ?/ ?\1 ?(dry ?)?air\b", _of_moisture),
    (r"(\b[Kk]_?\{?[bf]\}? ?= ?\(?[\d.]+ ?°C) ?/ ?m\b", r"\1 per molal"),
    (r"Υ(?=[ -]*(?:rays?|radiation)\b)", "γ"),
    (r"([α-ωΔΥ]) ?- (?=(?:radiation|rays?|particles?|decay|emitters?|chains?)\b)", r"\1-"),
)
"""Units typed in unusual ways, or run together with a dot, a space or a number."""

_LABELS: Final = (
    (
        r"(?<=[a-z]{4})\((I{1,3}|IV|V|VI)\)(?= (?:oxide|ion|chloride|sulfate|nitrate|hydroxide|bromide|sulfide|salt))",
        r" \1",
    ),
    (r"(\$\d[\d,]*)\. (?=00(?!\d|\.\d)|\d\d(?!\d|\.\d| [a-z])|\d\d (?:for (?:the|an?|his|her|their|it)|per) )", r"\1."),
    (r"\b(et al)\.(?='s\b)", r"\1"),
    (r"(?<![\w-])([TLCS])(\d{1,2})-\1(\d{1,2})(?![\w-])", r"\1\2 to \1\3"),
    (r"(?<=range: )(\d[\d.]*) ?- ?(?=\d)", r"\1 to "),
    (r"(?<![\w(])\(i\)(?=.{10,600}\(ii\))", "(one)"),
    (r"(?<=[.;,?] )\(v\)(?= [A-Z])", "(five)"),
    (r"\bthe(?=(?:r\.m\.s|e\.m\.f)\b)", "the "),
    (r"\b([AD]) ?/ ?([AD])(?= conver)", r"\1 to \2"),
    (r"(?<![\w.])A\.(?=\d\d)", "A ."),
)
"""Labels of lists in Roman numerals, ranges of vertebrae and findings, sums of money with a space in them."""

_FORMS: Final = tuple((re.compile(pattern), form) for pattern, form in (*_FORMULAS, *_PARTICLES, *_UNITS, *_LABELS))
_SIDE: Final = r"\d[\d.]*[ -]?(?:[ckm]?m|ft|in|inch(?:es)?|feet|yd|meters?)\b\.?"
_SIDES: Final = re.compile(rf"(?<![\w.=×*])(?<![=×*] ){_SIDE}(?: ?[×*] ?{_SIDE})++(?! ?[=×*])")
"""Lengths that are multiplied outside of an equation are the sides of a thing."""

_PRODUCT: Final = re.compile(r"(?<![A-Za-z])(?:abc|xyz)(?= ?[=+-]|-)")
_PER_TIME: Final = re.compile(rf"(?<=\d )([a-z]{{3,}}) / ({'|'.join(_TIMES)})(?![\w^])")
_MATRIX: Final = re.compile(
    rf"(?P<named>\b[Mm]atrix (?:[A-Z] ?)?)?(?P<equals>= ?)?\[ ?(?P<rows>{_ROW}(?:, ?{_ROW})+) ?\]"
)


def in_usual_notation(text: Traced) -> Traced:
    """The text with these forms made one; matrices told row by row."""
    for pattern, form in _FORMS:
        text = text.sub(pattern, form)
    text = text.sub(_PRODUCT, lambda m: " ".join(m[0])).sub(_PER_TIME, lambda m: f"{m[1]} per {_TIMES[m[2]]}")
    text = text.sub(_SIDES, lambda m: re.sub(" ?[×*] ?", " by ", m[0]))
    return text.sub(_MATRIX, _row_by_row) if "]," in text.text else text


def _row_by_row(match: re.Match[str]) -> str:
    """ "the matrix A = [[1, 2], [3, 4]]": "the matrix A, with the rows 1, 2; and 3, 4;"."""
    rows = [", ".join(re.findall(r"[^\s,]+", row)) for row in re.findall(r"\[([^\[\]]+)\]", match["rows"])]
    told = "; ".join(rows[:-1]) + f"; and {rows[-1]};"
    if match["named"]:
        return f"{match['named'].rstrip()}, with the rows {told}"
    return f"{match['equals'] or ''}the matrix with the rows {told}"
