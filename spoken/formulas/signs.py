"""Reads signs between numbers, letters and words according to their neighbours, or refuses them."""

import re
from itertools import takewhile
from typing import Final

from spoken.formulas.tokens import (
    NUMBERS,
    OPERANDS,
    OVER_LETTERS,
    Token,
    TokenPosition,
    TokenSequence,
    ends_term,
    is_operand,
    is_term,
    starts_term,
)
from spoken.rules.chemistry import COMPOUND
from spoken.rules.money import FUNCTION_WORDS
from spoken.rules.unit_names import WORDS_AS_UNITS
from spoken.spoken_text import make_word_set

SIGNS: Final = "=+*×÷/<>≤≥≠≈~±√∛-—&#%→⇌•_|↔⇒←∀∃⊃∨∧¬∩∪⊂⊆∈∉∥∠∂∇△⊥‖∖↑↓@∝≡≪≫∓∜"
"""Signs that are tokens of their own; those that no function here reads are refused with their neighbours."""

_BINARY: Final = {"+": "plus", "*": "times", "×": "times", "÷": "divided by", "±": "plus or minus", "•": "times"}
_ROOTS: Final = {"√": "the square root of", "∛": "the cube root of"}
_FIXED: Final = {"&": "and", "—": ",", "%": "percent"}
_COMPARED: Final = {
    "<": "less than", ">": "greater than", "≤": "less than or equal to", "≥": "greater than or equal to",
    "≠": "not equal to", "≈": "approximately equal to",
}  # fmt: skip
_RATES: Final = make_word_set(
    "hour day week month year decade minute second person mole mile gallon pound kilogram liter hr sec"
)


def read_sign(line: TokenSequence, at: int) -> str:
    """Returns the words for the sign that is token `at` of the line; "," for a dash, "" for a hyphen inside a word.

    Raises:
        Unspeakable: it has no clear reading there.
    """
    place = TokenPosition(line, at)
    sign = place.sign.text
    if sign in _BINARY:
        return _read_binary(place)
    if sign in _COMPARED:
        return _read_comparison(place)
    if sign in _ROOTS and starts_term(place):
        return f"times {_ROOTS[sign]}" if is_operand(place.left) or _is_closing(place.left) else _ROOTS[sign]
    if sign in _FIXED and not (sign == "%" and (place.left is None or place.left.kind not in {"word", "quantity"})):
        return "minus" if sign == "—" and place.in_equation and is_operand(place.left) else _FIXED[sign]
    named = {"=": _read_equals, "/": _read_slash, "-": _read_hyphen, "~": _read_prefix, "#": _read_prefix,
             "→": _read_arrow, "⇌": _read_arrow}  # fmt: skip
    if sign not in named:
        raise place.make_refusal()
    return named[sign](place)


def _is_closing(token: Token | None) -> bool:
    """Returns whether a token is a closing bracket."""
    return token is not None and token.kind == "close"


def _read_binary(place: TokenPosition) -> str:
    """Returns the words for a sign such as plus or times, between two terms or before a number; "," for a bullet.

    Raises:
        Unspeakable: it has no clear reading there.
    """
    sign, left, right = place.sign, place.left, place.right
    name = _BINARY[sign.text]
    are_words = all(each is not None and each.kind == "word" and len(each.text) > 1 for each in (left, right))
    is_list = sign.text == "•" and are_words and not place.in_equation
    if sign.text in "•*" and sign.space_after and (is_list or not ends_term(left)):
        return ","  # a bullet
    if starts_term(place) and (is_operand(left) or _is_closing(left)):
        is_unit_lost = left is not None and left.kind == "quantity" and _is_long_word(place.right)  # "0.2 cal/g × Cdeg"
        if sign.text == "×" and (is_unit_lost or (not place.in_equation and _is_size(place))):
            raise place.make_refusal()
        return name
    is_sided = sign.space_before == sign.space_after
    if starts_term(place) and ends_term(left) and (place.in_equation or sign.text not in "+±" or is_sided):
        return name
    if sign.text in "+±" and right is not None and right.kind in NUMBERS | {"variable"} and not ends_term(left):
        return name
    if sign.text in "+±" and sign.space_before and not sign.space_after and starts_term(place):
        return name  # "The answer is +10 kJ."
    if sign.text == "+" and is_operand(left) and (right is None or right.kind in {"mark", "close"}):
        return name
    raise place.make_refusal()


def _is_long_word(token: Token | None) -> bool:
    """Returns whether a token is a word of at least two letters."""
    return token is not None and token.kind == "word" and len(token.text) > 1


def _is_size(place: TokenPosition) -> bool:
    """Returns whether the sign is between the sides of a size: "a 4 m × 3 m room", "of dimensions 3 × 4"."""
    cue = place.get_neighbour(-2)
    if cue is not None and cue.text.lower() in {"dimension", "dimensions", "size"}:
        return True
    return all(each is not None and each.kind == "quantity" and each.written[-1].isalpha()
               for each in (place.left, place.right))  # fmt: skip


def _read_prefix(place: TokenPosition) -> str:
    """Returns the words for a sign before a number: "about" for "~5", "number" for "#1".

    Raises:
        Unspeakable: no number follows, or a term is before it.
    """
    if place.right is not None and place.right.kind in NUMBERS and not is_operand(place.left):
        return {"~": "about", "#": "number"}[place.sign.text]
    raise place.make_refusal()


def _read_slash(place: TokenPosition) -> str:
    """Returns the words for a slash: "divided by", "over", "per", "or" or "slash".

    Raises:
        Unspeakable: it has no clear reading there.
    """
    left, right, sign = place.left, place.right, place.sign
    if left is None or right is None:
        raise place.make_refusal()
    if left.kind in NUMBERS and right.kind in NUMBERS:
        return "divided by"
    if (left.text, right.text) == ("N", "A") and place.is_tight and _is_no_answer(place):
        return ""
    if left.kind == "close" or right.kind in {"open", "function"} or (left.kind in OPERANDS and right.kind in OPERANDS):
        return "over"
    if left.kind == "word" and right.kind in OPERANDS and place.in_equation:
        return "divided by"
    if right.kind != "word" or left.kind not in OPERANDS | {"word"}:
        raise place.make_refusal()
    before = place.get_neighbour(-2)
    is_amount = any(
        each is not None and each.kind in NUMBERS and not each.text.endswith("percent")
        for each in (before, place.get_neighbour(-3))
    )
    if left.kind in NUMBERS or right.text in _RATES or right.text.startswith(("cubic ", "square ")):
        return "per"
    if left.kind != "word":
        return "over"
    pair = (left.text.lower(), right.text.lower())
    are_things = re.search("[^siu]s$", right.text) is not None  # "5 letters/digits"
    if is_amount and not right.text.endswith("s") and not left.text.endswith("s"):
        raise place.make_refusal()
    is_rate = is_amount and left.text.endswith("s") and not are_things
    if is_rate or (before is not None and before.text == "/" and pair[0] in _RATES):
        return "per"
    if sign.space_before != sign.space_after or " " in left.text + right.text:
        raise place.make_refusal()
    return "or" if left.text[1:].islower() and right.text.islower() else "slash"


def _is_no_answer(place: TokenPosition) -> bool:
    """Returns whether "N/A" is "not applicable": in no formula, and neither letter stands elsewhere."""
    written = [token.written for token in place.line.tokens]
    return not place.in_equation and written.count("N") == written.count("A") == "".join(written).count("N/A")


def _read_arrow(place: TokenPosition) -> str:
    """Returns the words for an arrow: "yields" in a reaction, else "to"; "in equilibrium with" for "⇌".

    Raises:
        Unspeakable: it is not between two terms, or means "approaches" ("as x → 0").
    """
    if not (ends_term(place.left) and starts_term(place)):
        raise place.make_refusal()
    if place.sign.text == "⇌":
        return "in equilibrium with"
    if (cue := place.get_neighbour(-2)) is not None and cue.text == "as":
        raise place.make_refusal()  # "approaches"
    tokens = place.line.tokens[max(0, place.at - 4) : place.at + 5]
    beside = "".join(f" {token.written}" if token.space_before else token.written for token in tokens).split()
    bare = [re.sub(r"^\d+|[_{}]|\([a-z]+\)[.,;:?]?$|[.,;:?(]$", "", each) for each in beside]
    return "yields" if any(COMPOUND.fullmatch(each) and re.search(r"\d", each) for each in bare) else "to"


# ── comparison ──

_DOMAINS: Final = make_word_set(
    "let for of even odd on over in with interval range domain all any every each some integer integers number numbers "
    "constant"
)
"""Words after which "x > 0" is a domain of x, not a statement."""

_CLAUSES: Final = make_word_set("if that when where whether because since as then which while unless until say says")
"""Words that begin a clause, whose verb must be said."""


_IS: Final = make_word_set("is are was were be it's that's")
_SCORED: Final = re.compile(
    r"\b(?:won|wins?|winning|beat|beating|lost|loses?|losing|defeat\w*|scor\w+|finish\w*|ended|ends?|tied|drew|lead\w*|led"
    r"|record|victor\w+|loss|vot\w+|ruled|ruling|decision)\b"
)
"""Context of a score, of two numbers of which the first is greater."""


def _find_term_start(place: TokenPosition) -> int:
    """Returns the index of the first token of the term before a sign; that of the sign if there is no term.

    A term has numbers, letters, signs and whole brackets, but no words.
    """
    tokens, depth, at = place.line.tokens, 0, place.at
    while at > 0:
        token = tokens[at - 1]
        if token.kind == "close":
            depth += 1
        elif token.kind == "open":
            if not depth:
                break
            depth -= 1
        elif not (depth or is_operand(token) or token.kind == "function"
                  or (token.kind == "operator" and token.text in "+-×*/÷√")):  # fmt: skip
            break
        at -= 1
    return at


def _read_comparison(place: TokenPosition) -> str:
    """Returns the words for a comparison: "is less than", but "less than" after "for all x" and before a lone number.

    "greater" before a lone number is "more": ">5" is "more than five".

    Raises:
        Unspeakable: it is one of a chain ("0 < x < 1"), stands between names ("Settings > Privacy"), or compares
            nothing.
    """
    name, left, right = _COMPARED[place.sign.text], place.left, place.right
    if not starts_term(place):
        raise place.make_refusal()
    start = _find_term_start(place)
    words = [token.text.lower() for token in place.line.tokens[max(0, start - 2) : start]]
    if set(words[-1:] if start < place.at else words[-2:-1]) & _COMPARED.keys():
        raise place.make_refusal()
    if left is not None and (is_operand(left) or left.kind in {"close", "word"}):
        is_prefix = left.kind == "word" and place.sign.space_before and not place.sign.space_after
        if left.text.lower() in _IS or (is_prefix and not is_operand(left)):
            return name  # "a chance of <5%"
        if all(token is not None and token.kind == "word" and token.text[:1].isupper() and len(token.text) > 1
               for token in (left, right)):  # fmt: skip
            raise place.make_refusal()  # "Settings > Privacy"
        is_domain = start < place.at and words and words[-1] in _DOMAINS and not set(words[:-1]) & _CLAUSES
        return name if is_domain else f"is {name}"
    if right is not None and right.kind in NUMBERS and place.sign.text in "<>":
        return name.replace("greater", "more")
    raise place.make_refusal()


def _read_equals(place: TokenPosition) -> str:
    """Returns "equals", or "equal" after "let x"; raises `Unspeakable` unless there is a term on both sides."""
    if ends_term(place.left) and starts_term(place):
        start = _find_term_start(place)
        follows_let = 0 < start < place.at and place.line.tokens[start - 1].text.lower() == "let"
        return "equal" if follows_let else "equals"
    raise place.make_refusal()


# ── hyphens ──

_BEFORE_NUMBERS: Final = make_word_set("at of is to from by was be between and or than equals minus it's that's")
"""Words after which "- 5" is a negative number, not a dash."""

_UNCOUNTED: Final = (FUNCTION_WORDS - {"people", "per", "more"}) | {"today", "now", "later", "tomorrow", "again"}


def _read_hyphen(place: TokenPosition) -> str:
    """Returns the words for a hyphen: "minus"; "to" or "and" in a range; "," for a dash; "" inside a word.

    Raises:
        Unspeakable: beside a number, a unit or a bracket, it may be a minus, a range or a dash.
    """
    left, right, sign = place.left, place.right, place.sign
    if right is None or left is None or left.kind in {"mark", "open", "operator"}:
        return _read_minus_or_dash(place)
    closes, opens = left.kind == "close", right.kind == "open"
    if right.text in OVER_LETTERS:
        return ""  # "y-hat"
    if left.kind in NUMBERS and right.kind in NUMBERS:
        return _read_between_numbers(place, left, right)
    if sign.space_before == sign.space_after:
        if (is_operand(left) or closes) and (is_operand(right) or opens or right.kind == "function"):
            is_minus = place.in_equation or sign.space_after or closes or opens or _is_symbolic(left, right)
            return "minus" if is_minus else ""
        if is_operand(left) and right.kind == "operator" and right.text in "√∛":
            return "minus"
        if sign.space_after:
            beyond = place.get_neighbour(2)
            if left.kind == "number" and right.text in WORDS_AS_UNITS:
                raise place.make_refusal("number")  # "a 120 - volt line"
            if closes and beyond is not None and beyond.kind == "open" and not beyond.space_before:
                raise place.make_refusal()
            is_value = right.kind in {*NUMBERS, "variable", "open"} or _is_numbered(right)
            if left.text.lower() in _BEFORE_NUMBERS and is_value:
                return "minus"
            if right.kind == "quantity" and not place.in_equation:
                raise place.make_refusal("number")  # "freezing point - 98°C": a dash or a sign
            return "minus" if place.in_equation and starts_term(place) and is_term(left) else ","
        return "" if is_term(left) and is_term(right) else _read_minus_or_dash(place)
    if not sign.space_before:
        return "minus" if (is_operand(left) or closes) and (place.in_equation or opens) else ""
    if left.kind == "variable" and right.kind == "word" and len(right.text) > 1 and not place.in_equation:
        return ""  # "an $n$-sided tile"
    return (
        "minus"
        if is_operand(right) or _is_numbered(right) or (opens and (place.in_equation or _opens_formula(place)))
        else ","
    )


def _is_numbered(token: Token) -> bool:
    """Returns whether a token is a small letter with digits, such as "j50"."""
    return re.fullmatch(r"[a-z]\d+", token.written) is not None


def _opens_formula(place: TokenPosition) -> bool:
    """Returns whether the bracket after a sign contains only letters and numbers, no words: "-(x - 4)"."""
    inside = takewhile(lambda token: token.kind != "close", place.line.tokens[place.at + 2 :])
    return all(token.kind != "word" or is_operand(token) for token in inside)


def _is_symbolic(left: Token, right: Token) -> bool:
    """Returns whether a hyphen between two operands, without spaces, can only be a minus sign."""
    small = any(token.kind == "variable" and not token.written[:1].isupper() for token in (left, right))
    return bool({left.kind, right.kind} & {"suffix", "function"}) or small or left.text in OVER_LETTERS


def _read_minus_or_dash(place: TokenPosition) -> str:
    """Returns "minus" or "," for a hyphen with nothing before it to subtract from: a sign or a dash."""
    right, left = place.right, place.left
    if right is None:
        return ","
    follows_sign = left is not None and left.kind == "operator" and left.text not in "-—&"
    is_tight = not place.sign.space_after
    if right.kind == "word" and (follows_sign or (is_tight and len(right.written) == 1)):
        return "minus"
    is_group = right.kind == "open" and (place.in_equation or is_tight)
    beyond = place.get_neighbour(2)
    is_counted = beyond is not None and beyond.kind == "word"  # "- 3 apples"
    opens_list = left is None or left.text in ",:([{"
    is_listed = opens_list and (right.kind == "quantity" or (right.kind == "number" and not is_counted))
    is_signed = right.kind in OPERANDS or right.kind == "function" or is_group or _is_numbered(right)
    return "minus" if is_signed and (is_tight or follows_sign or place.in_equation or is_listed) else ","


def _read_between_numbers(place: TokenPosition, left: Token, right: Token) -> str:
    """Returns the words for a hyphen between two numbers: "minus", "to" or "and" in a range, or "" ("a 50-50 chance").

    Raises:
        Unspeakable: it may be a difference or a range.
    """
    if place.in_equation:
        return "minus"
    if place.sign.space_before != place.sign.space_after:
        raise place.make_refusal("number")
    before, beyond = place.get_neighbour(-2), place.get_neighbour(2)
    if any(token is not None and token.kind == "operator" and token.text in "×*/+÷√" for token in (before, beyond)):
        if before is not None and before.kind == "operator" and place.is_tight:
            raise place.make_refusal()
        return "minus"
    is_counted = beyond is not None and beyond.kind == "word" and beyond.text not in _UNCOUNTED and len(beyond.text) > 1
    if re.fullmatch(r"\d{3}-\d{4}", f"{left.written}-{right.written}") and not is_counted:
        raise place.make_refusal("number")
    cue = before.text.lower() if before is not None else ""
    if _is_rising(left, right):
        if place.is_tight or is_counted or "quantity" in {left.kind, right.kind} or len(right.written) == len("1914"):
            return "and" if cue == "between" else "to"
        raise place.make_refusal()
    chained = any(token is not None and token.text in {"-", "+"} for token in (before, beyond))
    if left.written == right.written and not chained:
        return ""  # a "50-50 chance"
    if place.is_tight and (cue == "from" or place.line.has_nearby(_SCORED, place.at)):
        return "to"
    if not place.is_tight or "." in left.written + right.written:
        return "minus"
    raise place.make_refusal()


def _is_rising(left: Token, right: Token) -> bool:
    """Returns whether the second number is greater; True too if they cannot be compared, such as times of day."""
    low, high = _get_value(left), _get_value(right)
    return low is None or high is None or low < high


def _get_value(token: Token) -> float | None:
    """Returns the number at the start of a token, also after a currency sign; None for other tokens and times."""
    found = re.match(r"[$£€¥]? ?(\d[\d.,]*)(?![\d:/]| ?[ap]\.?m)", token.written)
    return float(found[1].replace(",", "").rstrip(".")) if found else None


_MULTIPLIES: Final = make_word_set("expression product products multiply multiplied factors calculate compute evaluate")
"""Words of exercises in which "9 x 80" is a product and not a size."""


def read_letter_x(line: TokenSequence, at: int) -> str:
    """Returns the word for the letter x that is token `at`: "times" or, in sizes, "by" between numbers; else "x"."""
    place = TokenPosition(line, at)
    left, right = place.left, place.right
    if left is None or right is None or right.kind not in NUMBERS:
        is_product = left is not None and right is not None and left.kind in NUMBERS and right.kind == "open"
        return "times" if is_product and place.in_equation and place.sign.space_after else "x"
    if left.kind in NUMBERS or (left.kind == "word" and len(left.text) > 1 and place.in_equation):
        are_bare = left.kind == right.kind == "number"
        is_product = are_bare and any(token.text.lower() in _MULTIPLIES for token in line.tokens)
        return "times" if place.in_equation or is_product else "by"
    return "x"
