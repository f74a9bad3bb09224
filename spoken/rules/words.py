"""Rules for words, letters, abbreviations with a dot, initials and numbered titles."""

import re
from functools import lru_cache
from typing import Final

from spoken.rules import abbreviations as short
from spoken.rules.chemistry import COMPOUND, spell_compound
from spoken.rules.elements import NAMES
from spoken.rules.maths import CALLED_FUNCTIONS
from spoken.rules.numerals import spell_cardinal, spell_ordinal
from spoken.rules.rule import (
    Match,
    Rule,
    get_text_after,
    get_text_before,
    get_topic,
    make_refusal,
    make_rule,
    starts_sentence,
)
from spoken.rules.run_together import is_run_together
from spoken.rules.unit_names import UNCHANGING
from spoken.rules.units import NUMBERED_UNITS, PLAIN_UNITS, read_unit
from spoken.spoken_text import Unspeakable, make_word_set

_COUNTS: Final = make_word_set(
    "many two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty sixty seventy "
    "eighty ninety hundred thousand million few several half dozen more fewer extra additional total cubic square sq"
)
"""Words before a unit that count it."""

_ONE_OF: Final = re.compile(
    r"\b(?:a|an|one|per|each|every) (?:(?:cubic|square) )?$|/ ?$|(?<!\d )\b\d+/\d+[ -]$", re.IGNORECASE
)
"""What precedes a unit in the singular."""

_NO_VOWEL_WORDS: Final = make_word_set("hmm nth th Mc tv shh psst pfft brr hm")
_SHORT_WORDS: Final = make_word_set(
    "a i ad ah am an as at ax be by do ed eh el en er ex go ha he hi ho id if in is it la lo ma me my no of oh ok on "
    "or ow ox pa pi re so ta to uh um up us we ye yo de du da le al et st th nu mu xi von co bi di"
)
_VERY_SHORT: Final = 2
_RESERVED: Final = frozenset(
    word.lower()
    for words in (
        short.FULL_WITHOUT_DOT, short.FULL, short.PLACES, PLAIN_UNITS, NUMBERED_UNITS, short.ROMAN_VALUES,
        re.split("[| ]", short.TITLED), short.RULERS.split("|"), short.MONTH_NAMES, short.MONTH_FORMS,
        CALLED_FUNCTIONS, NAMES,
        ("cal", "et", "yr", "wk", "sec", "min", "ax", "St", "lim", "type", "abc"),
    )
    for word in words
)  # fmt: skip
"""Words that a rule may read differently; "ax" is a product of variables more often than a tool."""

PLAIN: Final = re.compile(r"[A-Za-z]?[a-z]{2,19}(?=[ ,?;]|\. |$)")
"""What may be a plain word, if no letter or sign precedes it."""


@lru_cache(maxsize=100_000)
def is_plain(word: str) -> bool:
    """Returns whether a word that matched `PLAIN` is always read unchanged, so that no rule needs to be tried."""
    lower = word.lower()
    return (
        lower not in _RESERVED
        and (len(lower) > _VERY_SHORT or lower in _SHORT_WORDS)
        and re.search("[aeiouy]", lower) is not None
        and re.search(r"(.)\1\1", lower) is None
        and not is_run_together(word)
        and COMPOUND.fullmatch(word) is None
    )


def _read_word(match: Match) -> str:
    """Reads a word as it is, but abbreviations, units and compounds in full, and unpronounceable ones by letters.

    Words in capitals for emphasis (`EMPHASISED`) become lower case.

    Raises:
        Unspeakable: it has a letter three times in a row, or looks like two words without their space.
    """
    word = re.sub(r"\((e?s)\)$", r"\1", match[0])
    if word in short.FULL_WITHOUT_DOT:
        return short.FULL_WITHOUT_DOT[word]
    if word in short.EMPHASISED:
        return "N O" if word == "NO" and _OF_NITROGEN.search(get_topic(match)) else word.lower()
    if word in PLAIN_UNITS or word in NUMBERED_UNITS:
        return _read_unit_alone(match)
    if word in short.RATES and re.search("/ ?$", get_text_before(match)):
        return short.RATES[word]
    is_mixed = not word.isupper() and sum(char.isupper() for char in word) > 1
    if is_mixed and COMPOUND.fullmatch(word) and not short.CAPITALISED.fullmatch(word):
        return spell_compound(word)
    letters = word[2:] if _IRISH.match(word) else word.replace("'", "")
    if re.search(r"(.)\1\1", word.lower()) and not (word.isupper() and len(word) == 3):
        raise Unspeakable("code", word)
    is_initials = re.fullmatch(r"[A-Z]+'?s?", word) is not None
    is_part = (
        re.search("[A-Za-z][a-z]-$", get_text_before(match)) is not None and re.search("[aeiou]", word) is not None
    )
    if not is_initials and not is_part and _is_unpronounceable(letters, word):
        return spell(letters)
    if is_run_together(letters):
        if len(letters) <= 4 and not (letters.islower() or re.match("If|In|For|The|Of|Is", letters)):
            return spell(letters)
        raise Unspeakable("broken_text", word)
    return word


_OF_NITROGEN: Final = re.compile(r"nitric oxide|(?<![A-Za-z])NO_?\{?[23]|(?<![A-Za-z])[NO]_?\{?2(?!\d)|entropy")


_IRISH: Final = re.compile("[ODL]'[A-Z][a-z]")


def _is_unpronounceable(letters: str, word: str) -> bool:
    """Returns whether a word is read letter by letter: it has no vowel, or is two letters that are no word."""
    if len(letters) < _VERY_SHORT or {word, word.lower()} & _NO_VOWEL_WORDS or (word.islower() and "'" in word):
        return False
    if len(letters) == _VERY_SHORT and letters.islower():
        return letters not in _SHORT_WORDS
    return len(letters) <= 5 and not re.search(r"[aeiouyAEIOUY]", word)


def spell(letters: str) -> str:
    """Returns letters separated by spaces, so that they are spoken one by one: "abc" is "a b c"."""
    return " ".join(letters)


def _read_unit_alone(match: Match) -> str:
    """Reads a unit without digits before it as its name, or by letters: mg may be mass times gravity.

    Raises:
        Unspeakable: `code`: it is joined to a word by a hyphen, or is "mph" after a slash.
    """
    unit, left, right = match[0], get_text_before(match), get_text_after(match)
    one = _ONE_OF.search(left)
    counted = re.search(r"([A-Za-z]+)[ -]$", left)
    is_counted = re.search(r"(?:\d\)?|_) ?$", left) or (counted is not None and counted[1].lower() in _COUNTS)
    is_top = re.search(r"[\d)\](/] ?[\[(]+$", left) and right.startswith(" of ")
    is_asked = is_top or (re.search(r"(?:\b[Ii]n |\(|, )$", left) and re.match(r"\s*(?:[.,;:?)]|$)", right))
    if re.match(r"-[A-Za-z]", right) or (unit == "mph" and left.endswith("/")):
        raise Unspeakable("code", f"{left[-15:]}{unit}{right[:15]}")
    if unit in PLAIN_UNITS or one or is_counted or is_asked:
        is_name = unit in UNCHANGING and right.startswith(" of ")  # "an rpm of 90"
        return read_unit(unit, plural=is_name or not one)
    return unit if unit == "psi" else spell(unit)  # the Greek letter


def _read_short_form(match: Match) -> str:
    """Reads "Mr." and "Fig. 4" in full; "v" is "versus" after a name ("Roe v. Wade"), else the letter.

    Raises:
        Unspeakable: `code`: it has "'s", or is a "Dr" that no name follows.
    """
    if match[0] in {"v.", "v"}:
        return "versus" if re.search(r"(?:^|[^A-Za-z])[A-Z][\w.']+,? $", get_text_before(match)) else " ".join(match[0])
    name = match["short"] or match["place"]
    if match["place"]:
        said = short.PLACES[name.lower()]
        return said.capitalize() if name[0].isupper() else said
    if name == "Dr" and (not re.match(r" [A-Z]", get_text_after(match)) or starts_sentence(get_text_after(match))):
        raise Unspeakable("code", get_text_before(match)[-15:] + match[0])  # a drive
    if get_text_after(match).startswith("'s"):
        raise Unspeakable("code", match[0] + "'s")
    full = short.FULL[name]
    return full + ("." if name in short.MAY_END and re.match(r"\s*$|\s+[A-Z]", get_text_after(match)) else "")


def _read_saint_or_street(match: Match) -> str:
    """Reads "St." as "Saint" ("in St. Paul") or "Street" ("on 5th St."); raises `Unspeakable` if it may be both."""
    name = re.search(r"([A-Z]\w*|\d(?:st|nd|rd|th)) $", get_text_before(match))
    is_street = name is not None and not starts_sentence(f" {name[1]} ") and name[1] not in {"Mount", "Lake", "Fort"}
    if is_street and (not get_text_after(match).strip() or starts_sentence(get_text_after(match))):
        return "Street."
    if is_street == bool(re.match(" [A-Z]", get_text_after(match))):
        raise Unspeakable("code", get_text_before(match)[-15:] + match[0])
    return "Street" if is_street else "Saint"


def _read_initials(match: Match) -> str:
    """Reads initials letter by letter ("U.S.", "John F. Kennedy"), with a full stop if they end a sentence.

    "Box A. Anna opens it" is two sentences if there is a box B too.
    """
    letters = spell(re.sub(r"[. ]", "", match[1]).upper())
    if not get_text_after(match).strip() or starts_sentence(get_text_after(match)):
        return letters + "."
    label = re.search(r"([A-Z][a-z]+) $", get_text_before(match)) if len(letters) == 1 else None
    others = set(re.findall(rf"\b{label[1]}s? ([A-Z])\b", match.string[:4000])) if label else set()
    return letters + ("." if others - {letters} else "")


def _read_numbered(match: Match) -> str:
    """Reads a Roman numeral after a title or a ruler's name: "World War two", "Henry the Eighth"."""
    if match["ruler"]:
        return f"{match['ruler']} the {spell_ordinal(short.ROMAN_VALUES[match['th']]).title()}{match['of'] or ''}"
    return f"{match['title']} {spell_cardinal(short.ROMAN_VALUES[match['roman']])}"


_AFTER_PRONOUN: Final = (
    r"(?:am|was|have|had|like|love|want|saw|see|know|knew|think|would|could|can|will|do|did|need|used?|prefer|mean"
    r"|bought|wrote|chose|choose)\b"
)
"""What follows the pronoun, as in "the type I like", but not a numeral."""

_AFTER_NAME: Final = "".join(f"|(?<=[A-Z][a-z]{{{n}}} )" for n in range(1, 9))
_DOTTED: Final = "|".join(map(re.escape, sorted(short.FULL, key=len, reverse=True)))
_PLACED: Final = "|".join(sorted(short.PLACES, key=len, reverse=True))

WORD_RULES: Final[list[Rule]] = [
    make_rule("title with a numeral", "word",
         rf"\b(?:(?P<title>{short.TITLED}|(?i:type)(?! I {_AFTER_PRONOUN}))s? (?P<roman>{short.ROMAN})(?![A-Za-z\d'])"
         rf"|(?P<ruler>{short.RULERS}) (?=[IVX]{{2}})(?P<th>{short.ROMAN})(?P<of>'s)?(?![A-Za-z\d']))", _read_numbered,
         "In World War II Henry VIII's heir", "In World War two Henry the Eighth's heir"),
    make_refusal("numeral", "number",
            rf"(?<![\w'])(?:(?:{short.ROMAN})(?:th|st|nd|rd)|(?!V|X\b|I\b|L|XX\b|XL\b|XXX\b)(?:{short.ROMAN})"
            r"|VI{1,3}|i{2,3}|iv|vi{1,3}|ix|xi{2,3})(?![\w'^(_])", "listed in DSM-IV"),
    make_rule("short form with a dot", "word",
         rf"(?<![A-Za-z.])(?!Jan\. [A-Z])(?:(?P<short>{_DOTTED})|(?i:(?P<place>{_PLACED}))(?=\. ?\(?\d))\."
         r"|(?<= )v(?:\.(?= [A-Z])|(?= [A-Z][A-Za-z]))",
         _read_short_form, "Mr. Lee saw Fig. 4 of Roe v. Wade, etc.",
         "Mister Lee saw Figure four of Roe versus Wade, et cetera."),
    make_rule("saint or street", "word", r"(?<![A-Za-z.])St\.", _read_saint_or_street, "in St. Paul on Main St.",
         "in Saint Paul on Main Street."),
    make_rule("initials", "word",
         r"(?<![A-Za-z.])((?:[A-Za-z]\.){2,}|(?:[A-Z]\. )+[A-Z]\.|(?:[A-Z]\.)+[A-Z]\b)(?![A-Za-z])", _read_initials,
         "He left the U.S. It was 6 p.m. in D.C. then", "He left the U S. It was six in the evening in D C then"),
    make_rule("middle initial", "word", rf"(?:(?<=^){_AFTER_NAME})([A-Z])\.(?= [A-Za-z])", _read_initials,
         "John F. Kennedy opens Box A. Anna has Box B.", "John F Kennedy opens Box A. Anna has Box B."),
    make_rule("letter", "variable", r"(?<![A-Za-z\d'])[B-HJ-Zb-z](?![A-Za-z\d]|'[A-Za-z])", r"\g<0>",
         "Let k be 5.", "Let k be five."),
    make_rule("letter that may be an article", "variable",
         r"(?<![A-Za-z'])(?:a(?=[_^=]| ?[=+]|_\d)|A(?=[_^(=]| [=∪∩]))", r"\g<0>", "a = 5", "a equals five"),
    make_rule("product of letters", "variable",
         r"(?<![A-Za-z'])(?<!_ )(?!at|am|an|by|my|up|us|do|nt|[ckmnp]m|dB|ab\b(?! ?[=)^]))(?:d[a-zA-Z]"
         r"|abc|xyz|[xyzabcnmpqruvtk]{2})(?=[)\^/=,]|_\d| [=+-]|$)", lambda m: spell(m[0]), "xy = 5",
         "x y equals five"),
    make_rule("word", "word", r"[A-Za-z]+(?:'[A-Za-z]+)*(?:\(e?s\))?", _read_word,
         "NOT many friend(s) eat 5 per hr", "not many friends eat five per hour"),
]  # fmt: skip
"""Rules for words, abbreviations and names, in the order in which they are tried."""
