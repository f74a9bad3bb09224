"""Rules for amounts of money (currency)."""

import re
from typing import Final

from spoken.rules.numerals import END, NUM, START, is_one, spell_cardinal, spell_number
from spoken.rules.rule import Match, Rule, get_text_after, get_text_before, make_refusal, make_rule
from spoken.spoken_text import make_word_set

FUNCTION_WORDS: Final = make_word_set(
    "a about after although among an and are as at because before but by can could did does during each for from "
    "had has have he her his how if in is it its many may no not of on or people she should since so than that "
    "the their there they this through to until was we were what when where which while who why will with within would "
    "you left less minus more per plus worth every off doing"
)
_SMALL_NUMBERS: Final = "one|two|three|four|five|six|seven|eight|nine|ten"
_CURRENCIES: Final = {"$": ("dollar", "cent"), "£": ("pound", "penny"), "€": ("euro", "cent"), "¥": ("yen", ""),
                      "₹": ("rupee", ""), "US$": ("dollar", "cent")}  # fmt: skip
_SIGN: Final = "|".join(map(re.escape, sorted(_CURRENCIES, key=len, reverse=True)))
_SCALES: Final = {"k": "thousand", "K": "thousand", "m": "million", "M": "million", "b": "billion", "B": "billion",
                  "bn": "billion", "mil": "million"}  # fmt: skip
_DESCRIBED: Final = re.compile(
    r"(?:bill|note|coupon|voucher|gift|coin|deposit|bond|pencil|pen|ticket|stamp|payment|installment|prize|share|token"
    r"|loan|mortgage|bet|reward|bonus|fine|rebate|scholarship|allowance|budget)s?\b|par\b|liability\b|deductible\b"
    r"|polic(?:y|ies)\b"
)
"""Nouns that an amount before them describes: "$50 par-value stock", "$1000 deposits"."""

_OWN: Final = r"(?:his|her|their) (?:\w+al|own|first|new)"
_ARTICLE: Final = re.compile(
    rf"\b(?:(?:an?|another)(?: (?:[a-z]+(?:ed|al|ly)|flat|new|extra|single|regular))?|\d+|{_SMALL_NUMBERS})\s$",
    re.IGNORECASE,
)
_FIGURES: Final = r"\d+(?:[.,]\d+)*"
_JOINED: Final = "(?:,|,? (?:and|or))"
"""Joins amounts before one noun: "$20 and $10 bills", "a 90° or 180° pulse"."""


def _make_plural(name: str) -> str:
    """Returns the plural of a unit of money: "dollars", "pence"."""
    return {"penny": "pence", "yen": "yen"}.get(name, name + "s")


def describes_next_noun(match: Match) -> bool:
    """Returns whether a quantity after "the" or "each" describes the noun after it, as in "the 5 kg bag".

    False for "the 5 km covered", which is ambiguous.
    """
    noun = re.match(r" ([a-z]{3,})", get_text_after(match))
    is_one = (
        re.search(rf"\b(?:the|this|that|each|its|another|{_OWN}) $", get_text_before(match), re.IGNORECASE) is not None
    )
    return is_one and noun is not None and noun[1] not in FUNCTION_WORDS and not noun[1].endswith(("ed", "ing", "ly"))


def is_before_noun(match: Match) -> bool:
    """Returns whether an amount or quantity describes the noun after it, as the words before it or the noun show.

    Such words are an article and numbers: "a $5 ticket", "two 5 kg bags"; such nouns are "bill" and the like.
    """
    mark = re.escape(match.groupdict().get("sign") or match["unit"])
    other = rf"(?:{mark} ?{_FIGURES}|{_FIGURES} ?{mark})"
    noun = re.match(rf"(?:{_JOINED} {other})*[ -](?:\d+-|off )?([a-z]+)", get_text_after(match))
    if noun is None or noun[1] in FUNCTION_WORDS:
        return False
    left = re.sub(rf"(?:{other}{_JOINED} )+$", "", get_text_before(match))
    return _ARTICLE.search(left) is not None or _DESCRIBED.match(noun[1]) is not None


def _read_money(match: Match) -> str:
    """Reads an amount: "$5.50" is "five dollars and fifty cents", and "dollar" before a noun that it describes."""
    amount, scale = match["amount"], match["scale"]
    unit, small = _CURRENCIES[match["sign"]]
    attributive = is_before_noun(match)
    if scale:
        name = unit if attributive else _make_plural(unit)
        return f"{spell_number(amount)} {_SCALES.get(scale, scale)} {name}"
    whole, _, decimals = amount.partition(".")
    one = is_one(amount)
    if not decimals or not int(decimals) or len(decimals) > 2 or not small:
        spoken = spell_number(amount if decimals and int(decimals) else whole)
        singular = attributive or one or (whole == "1" and not int(decimals or "0"))
        return f"{spoken} {unit if singular else _make_plural(unit)}"
    n_small = int(decimals.ljust(2, "0"))
    cents = f"{spell_cardinal(n_small)} {small if n_small == 1 or attributive else _make_plural(small)}"
    if not int(whole.replace(",", "") or "0"):
        return cents
    return f"{spell_number(whole)} {unit if whole == '1' or attributive else _make_plural(unit)} and {cents}"


MONEY_RULES: Final[list[Rule]] = [
    make_refusal("sum and a fraction", "number", rf"(?:{_SIGN}) ?\d+[ -]\d/\d", "$3 1/2"),
    make_rule("money", "quantity",
         rf"(?P<sign>{_SIGN}) ?(?P<amount>{NUM})(?:[ -]?(?P<scale>million|billion|trillion"
         rf"|thousand|hundred|mil\b|(?<! )(?:k|K|m|M|bn|b|B))(?![A-Za-z]))?{END}(?! ?[×x] ?10 ?\^)", _read_money,
         "a $20 bill, £2.05 or $1.2 million",
         "a twenty dollar bill, two pounds and five pence or one point two million dollars"),
    make_rule("money with its sign behind", "quantity", rf"{START}(?P<amount>{NUM}) ?(?P<sign>[$€£])(?P<scale>)(?!\d)",
         _read_money, "It costs 5€.", "It costs five euros."),
    make_refusal("money of other countries", "number", r"(?<![A-Za-z])[A-Z]{1,3}\$ ?\d", "R$ 20"),
]  # fmt: skip
"""Tried before other quantities."""
