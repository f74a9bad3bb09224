"""Brackets: a pause in prose, "of" after a function, words of their own where they group a formula.

Grouping brackets are named, as teachers do and as the ClearSpeak rules for reading mathematics say: without them
"2 × (3 + 4)" and "2 × 3 + 4" would sound alike.
"""

import re
from typing import Final

from spoken.formulas.calls import MAX_ARGUMENTS, is_called, is_sequence, say_call
from spoken.formulas.pairs import JOINING, Pair, joins, pairs_of
from spoken.formulas.tokens import NUMBERS, Line, is_operand, is_term
from spoken.rules.chemistry import COMPOUND
from spoken.spoken_text import word_set

_NAMES: Final = {"(": "parenthesis", "[": "bracket", "{": "brace"}
_LISTS: Final = word_set("vector matrix list array row column sequence point pair tuple")


def _is_measure(pair: Pair) -> bool:
    """Whether the brackets hold a number with its unit: "H_2 (4.5 eV)"."""
    return len(pair.inside) == 1 and pair.inside[0].kind == "quantity" and pair.inside[0].written[-1].isalpha()


def _follows_closely(pair: Pair) -> bool:
    return pair.before is not None and pair.before.kind == "close" and pair.is_glued


def _raises_product(pair: Pair) -> bool:
    """ "(ab)^2": without its brackets the power would be heard of the last letter alone."""
    after = pair.after
    is_product = pair.inside[0].kind == "variable" and " " in pair.inside[0].text
    return is_product and after is not None and after.kind == "suffix"


def _raises_fraction(pair: Pair) -> bool:
    """ "3 (1/3)^n": the power of a fraction, after a factor."""
    return "/" in pair.inside[0].written and pair.after is not None and pair.after.kind == "suffix"


def _say_factor(pair: Pair) -> tuple[str, str]:
    """ "2(3)", "66(2/3)", "x(1/2)": one thing in brackets after an operand."""
    before, inner = pair.before, pair.inside[0]
    is_mixed = before is not None and before.kind == "number" and "/" in inner.written and before.written.isdigit()
    if is_mixed and " over " not in inner.text:
        return "and", ""
    return ("times" if inner.kind in NUMBERS else ""), ""


def _rises(pair: Pair) -> bool:
    """Whether the numbers in brackets, if they are two, could be the ends of an interval."""
    found = re.fullmatch(r"(-?\d+(?:\.\d+)?),(-?\d+(?:\.\d+)?)", "".join(token.written for token in pair.inside))
    return found is None or float(found[1]) < float(found[2])


def _ends_of(pair: Pair) -> tuple[str, str]:
    """Both ends of an interval in words, with their signs."""
    said = " ".join("minus" if token.text == "-" else token.text for token in pair.inside)
    low, _, high = said.partition(" , ")
    return low, high


def _say_square(pair: Pair) -> tuple[str, str] | None:
    """ "[0, 1]" by itself is an interval, and so is "[0, 1)", without one of its ends."""
    ends = pair.line.tokens[pair.start].text + pair.line.tokens[pair.end].text
    is_square = ends in {"[]", "[)", "(]"}
    is_listed = pair.before is not None and pair.before.text.lower() in _LISTS
    is_pair = not pair.line.is_list and pair.is_maths and pair.n_commas == 1 and len(pair.inside) <= 5 and _rises(pair)
    if is_square and is_pair and not is_listed and not (pair.is_glued and is_term(pair.before)):
        low, high = _ends_of(pair)
        left_out = {"[)": f", without {high},", "(]": f", without {low},"}.get(ends, ",")
        is_open = (ends == "[)" and "infinity" in high) or (ends == "(]" and "infinity" in low)  # never in it
        name = "" if pair.before is not None and pair.before.text == "interval" else "the interval"
        return name, "," if is_open else left_out
    return None


def _say(pair: Pair) -> tuple[str, str]:
    before = pair.before
    if before is not None and before.kind == "function":
        opening, closing = say_call(pair)
        return opening, (closing or ("," if _divides_before_factor(pair) else ""))
    name = _NAMES[pair.line.tokens[pair.start].text]
    if before is not None and before.kind == "suffix" and _is_measure(pair):
        return ",", ","
    if name == "brace" and before is not None and before.kind == "suffix" and pair.is_maths:
        return "of", ","
    if name == "bracket" and pair.is_glued and before is not None and before.kind == "quantity" and _is_measure(pair):
        return ", or", ","  # "0.06 Btu/lbm-°R[0.27 kJ/kg-°K]"
    if name == "bracket" and _is_concentration(pair):
        return "the concentration of", ""
    if name == "bracket" and is_sequence(pair):
        return "of", ("" if len(pair.inside) == 1 else ",")
    if name == "brace" and not _joins_tightly(pair):
        if any(token is not None and token.text == "/" for token in (before, pair.after)):
            return _say_part(pair)
        is_listed = before is not None and before.text == "set"
        return ("" if is_listed else "the set"), ","
    if square := _say_square(pair):
        return square
    if not pair.inside or not (pair.is_maths and joins(pair)):
        return _say_prose(pair)
    if before is not None and pair.is_glued and is_operand(before):
        if is_called(pair) and pair.n_commas < MAX_ARGUMENTS:
            return say_call(pair)
        if pair.is_plain:
            return _say_factor(pair)
    elif pair.is_plain and before is not None and before.kind == "number" and _raises_fraction(pair):
        return "times", ""
    elif pair.is_plain and not _raises_product(pair) and not _follows_closely(pair):
        return "", ""
    return f"open {name}", f"close {name}"


def _is_concentration(pair: Pair) -> bool:
    """ "[H2SO3] > [HSO3-]": a substance or an ion beside a sign of comparison."""
    beside = [token.text for token in (pair.before, pair.after) if token is not None and token.kind == "operator"]
    is_factor = pair.is_glued and is_operand(pair.before)
    is_named = any("concentration" in token.text.lower() for token in pair.line.tokens[: pair.start][-3:])
    if len(pair.inside) != 1 or not set(beside) & set("=<>≤≥") or is_factor or is_named:
        return False
    bare = re.sub(r"\^?\{?\d?[+-]\}?$", "", written := pair.inside[0].written)
    return COMPOUND.fullmatch(bare) is not None or (bare != written and re.fullmatch("[A-Z][a-z]?", bare) is not None)


def _say_part(pair: Pair) -> tuple[str, str]:
    """A part of a fraction in braces, which is no set: words without them.

    Raises:
        Unspeakable: it is a formula with brackets of its own.
    """
    if not all(token.kind == "word" for token in pair.inside):
        raise pair.line.refuse(pair.start)
    return "", ""


def _joins_tightly(pair: Pair) -> bool:
    return pair.is_maths and not pair.n_commas and joins(pair)


def _tells_letter(pair: Pair) -> bool:
    """ "T(temperature) = 300 K": words for what the letter stands for, no event as in "P(rain) = 0.2"."""
    letter, words, after = pair.before, [token.text for token in pair.inside], pair.after
    if letter is None or letter.text == "P" or after is None or after.text != "=" or not all(map(str.isalpha, words)):
        return False
    is_its_name = len(words[0]) > 3 and words[0][0] == letter.text[0].lower()
    return (is_its_name or len(words) > 1) and all(len(word) > 1 and word.islower() for word in words)


def _say_prose(pair: Pair) -> tuple[str, str]:
    before = pair.before
    if pair.is_glued and before is not None and len(pair.inside) == 1 and pair.inside[0].kind == "number":
        return "", ""
    if pair.is_glued and is_called(pair):
        return ("," if _tells_letter(pair) else "of"), ","
    if pair.is_glued and pair.is_maths and before is not None and re.search("[a-z][A-Z]", before.written):
        return say_call(pair)  # "ReLU(x)"
    return ",", ";" if pair.is_maths and pair.n_commas else ","


def _divides_before_factor(pair: Pair) -> bool:
    """ "sin (x/τ) π": without a pause the factor would seem to be below the line."""
    after = pair.after
    return any(token.text == "/" for token in pair.inside) and after is not None and after.kind == "variable"


def _multiplies(pair: Pair, said: dict[int, str]) -> bool:
    """Whether a fraction in brackets that are not said stands before a factor: "(27/20) 3^n", "(3/5)(1/2)^n"."""
    after = pair.after
    is_fraction = pair.end - pair.start == 2 and "/" in pair.line.tokens[pair.start + 1].written
    is_factor = after is not None and (after.kind == "number" or (after.kind == "open" and after.text == "("))
    return is_fraction and is_factor and said[pair.end] == "" and pair.line.in_equation[pair.start]


def say_brackets(line: Line) -> dict[int, str]:
    """What each bracket of a text is called, by its place among the tokens.

    Raises:
        Unspeakable: a bracket that has no partner stands in a formula.
    """
    said: dict[int, str] = {}
    pairs, alone = pairs_of(line)
    for pair in pairs:
        said[pair.start], said[pair.end] = _say(pair)
        if _multiplies(pair, said):
            said[pair.end] = "times"
    for at in alone:
        beside = line.tokens[at - 1 : at] if line.tokens[at].kind == "open" else line.tokens[at + 1 : at + 2]
        if beside and beside[0].kind == "operator" and beside[0].text in JOINING:
            raise line.refuse(at)
        said[at] = ","
    return said
