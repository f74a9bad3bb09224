"""Readings of words, letters, short forms and Roman numerals."""

import re
from functools import lru_cache
from typing import Final

from spoken.rules import abbreviations as short
from spoken.rules.chemistry import COMPOUND, spell_compound
from spoken.rules.elements import NAMES
from spoken.rules.maths import CALLED_FUNCTIONS
from spoken.rules.numerals import cardinal, ordinal
from spoken.rules.rule import Match, Rule, after, before, rule, starts_sentence, topic
from spoken.rules.shorthand import PLACES
from spoken.rules.unit_names import UNCHANGING
from spoken.rules.units import NUMBERED_UNITS, PLAIN_UNITS, UNIT, say_unit
from spoken.spoken_text import Unspeakable, word_set
from spoken.written.broken import is_run_together

_COUNTS: Final = word_set(
    "many two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty sixty seventy "
    "eighty ninety hundred thousand million few several half dozen more fewer extra additional total cubic square sq"
)
"""Words before a unit that say how many there are."""

_ONE_OF: Final = re.compile(
    r"\b(?:a|an|one|per|each|every) (?:(?:cubic|square) )?$|/ ?$|(?<!\d )\b\d+/\d+[ -]$", re.IGNORECASE
)
"""What stands before a unit in the singular."""

_NO_VOWEL_WORDS: Final = frozenset({"hmm", "nth", "th", "Mc", "St", "Mt", "tv", "shh", "psst", "pfft", "brr", "hm"})
_SHORT_WORDS: Final = word_set(
    "a i ad ah am an as at ax be by do ed eh el en er ex go ha he hi ho id if in is it la lo ma me my no of oh ok on "
    "or ow ox pa pi re so ta to uh um up us we ye yo de du le al et st th nu mu xi von co bi"
)
_VERY_SHORT: Final = 2
_RESERVED: Final = frozenset(
    word.lower()
    for words in (
        short.FULL_WITHOUT_DOT, short.FULL, PLAIN_UNITS, NUMBERED_UNITS, short.ROMAN_VALUES,
        re.split("[| ]", short.TITLED), short.TITLES.split("|"),
        short.RULERS.split("|"), short.NUMBERED.split("|"), short.MONTH_NAMES, CALLED_FUNCTIONS, NAMES, PLACES,
        ("Mt", "Mts", "cal", "kcal", "Ist", "Ith"),
    )
    for word in words
)  # fmt: skip
"""Words that a rule may read in another way than as they stand."""

PLAIN: Final = re.compile(r"[A-Za-z]?[a-z]{2,19}(?=[ ,?;]|\. |$)")
"""What may be a plain word, where no letter or sign stands before it."""


@lru_cache(maxsize=100_000)
def is_plain(word: str) -> bool:
    """Whether a word that `PLAIN` matched stands for itself wherever it is, so that no rule need be tried."""
    lower = word.lower()
    return (
        lower not in _RESERVED
        and lower != "ax"  # a factor more often than a tool
        and re.search("[aeiouy]", lower) is not None
        and re.search(r"(.)\1\1", lower) is None
        and not is_run_together(word)
        and COMPOUND.fullmatch(word) is None
    )


def _word(match: Match) -> str:
    word = match[0]
    if word in short.FULL_WITHOUT_DOT:
        return short.FULL_WITHOUT_DOT[word]
    if word in short.EMPHASISED and not (word == "NO" and _is_nitric(match)):
        return word.lower()
    if word == "NO":
        return "N O"
    if word in PLAIN_UNITS or word in NUMBERED_UNITS:
        return _unit_alone(match)
    is_mixed = not word.isupper() and sum(char.isupper() for char in word) > 1
    if is_mixed and COMPOUND.fullmatch(word) and not short.CAPITALISED.fullmatch(word):
        return spell_compound(word)
    letters = word.replace("'", "")
    if re.search(r"(.)\1\1", word.lower()):
        if set(word) <= set("ACGTUN"):
            return " ".join(word)
        if len(word) > 3 or not word.isupper():
            raise Unspeakable("code", word)
    is_initials = re.fullmatch(r"[A-Z]+'?s?", word) is not None
    if not is_initials and _is_unpronounceable(letters, word):
        return _spelled(letters)
    if is_run_together(letters):
        if len(letters) <= 4 and not (letters.islower() or re.match("If|In|For|The|Of|Is", letters)):
            return _spelled(letters)
        raise Unspeakable("broken_text", word)
    return word


_OF_NITROGEN: Final = re.compile(r"nitric oxide|(?<![A-Za-z])NO_?\{?[23]|NO \+|\+ \d?NO\b|(?<![A-Za-z])O_?\{?2(?!\d)")


def _is_nitric(match: Match) -> bool:
    is_told = re.search(r"\b(?:of|for|with|and|from|to|the) $", before(match)) is not None
    return is_told or _OF_NITROGEN.search(topic(match)) is not None


def _is_unpronounceable(letters: str, word: str) -> bool:
    if len(letters) < _VERY_SHORT or word in _NO_VOWEL_WORDS:
        return False
    if len(letters) == _VERY_SHORT and letters.islower():
        return letters not in _SHORT_WORDS
    return len(letters) <= 5 and not re.search(r"[aeiouyAEIOUY]", word)


def _spelled(letters: str) -> str:
    """Letters one by one; variables, symbols and codes are said so."""
    return " ".join(letters)


def _unit_alone(match: Match) -> str:
    """A unit without digits before it; mg may be mass times gravity, so such a one needs a word that counts it."""
    unit, left, right = match[0], before(match), after(match)
    one = _ONE_OF.search(left)
    counted = re.search(r"([A-Za-z]+)[ -]$", left)
    is_counted = re.search(r"(?:\d\)?|_) ?$", left) or (counted is not None and counted[1].lower() in _COUNTS)
    is_top = re.search(r"[\d)\](/] ?[\[(]+$", left) and right.startswith(" of ")
    is_asked = is_top or (re.search(r"(?:\b[Ii]n |\(|, )$", left) and re.match(r"\s*(?:[.,;:?)]|$)", right))
    goes_on = re.match(r"-[A-Za-z]", right) or (unit == "mph" and left.endswith("/"))
    if (unit in PLAIN_UNITS or one or is_counted or is_asked) and not goes_on:
        is_name = unit in UNCHANGING and right.startswith(" of ")  # "an rpm of 90"
        return say_unit(unit, plural=is_name or not one)
    if goes_on:
        raise Unspeakable("code", f"{left[-15:]}{unit}{right[:15]}")
    return unit if unit == "psi" else _spelled(unit)  # the Greek letter


def _rate(match: Match) -> str:
    return say_unit(match[0], plural=True)


_MAY_END: Final = frozenset(
    short.FULL.get(each, each) for each in ("etc", "et al", "Inc", "Corp", "Ltd", "Jr", "Sr", "Co", "Ave", "Drive")
)
"""What a sentence may end with, so that its dot is also a full stop."""


def _abbreviation(match: Match) -> str:
    full = "Drive" if match[1] == "Dr" and _is_street(match) else short.FULL[match[1]]
    ends = full in _MAY_END and re.match(r"\s*$|\s+[A-Z]", after(match))
    return full + ("." if ends else "")


def _is_street(match: Match) -> bool:
    """ "110 Walnut St., Salem", "on Main Dr. and", but "St. Helena", "Ask Dr. Who"."""
    if re.search(r"\d (?:[NSEW]\. )?(?:[A-Z][a-z]+ ){1,2}$", before(match)):
        return True
    follows_name = re.match(r" [A-Z]", after(match)) is not None and not starts_sentence(after(match))
    return re.search(r"[a-z] [A-Z][a-z]+ $", before(match)) is not None and not follows_name


def _saint_or_street(match: Match) -> str:
    if not _is_street(match) and after(match).startswith(" ") and after(match)[1:2].isupper():
        return "Saint"
    return "Street" + ("." if not after(match) or starts_sentence(after(match)) else "")


def _initials(match: Match) -> str:
    letters = " ".join(match[1].replace(".", "").replace(" ", "").upper())
    is_last = _DIAMETER.search(before(match) + match[0]) and re.match(" [A-Z][a-z]+ [a-z]", after(match))
    return letters + ("." if not after(match).strip() or starts_sentence(after(match)) or is_last else "")


_DIAMETER: Final = re.compile(r"(?:\d|inch(?:es)?|in\.?|[ckm]m\.?|zero|one|two|three|four|five|six|seven|eight|nine) "
                              r"[IO]\.? ?D\.$")  # fmt: skip
"""A pipe's inner or outer diameter, after which no name goes on; the words are those of the pass before."""


def _versus(match: Match) -> str:
    """ "Roe v. Wade"; a speed v may end a sentence."""
    return "versus" if re.search(r"(?:^|[^A-Za-z])[A-Z][\w.']*,? $", before(match)) else "v ."


def _roman_after_title(match: Match) -> str:
    return f"{match[1]} {cardinal(short.ROMAN_VALUES[match['roman']])}"


def _ruler(match: Match) -> str:
    """ "Louis XIV's"; "Paul I met" is no pope."""
    numeral = match["roman"]
    if numeral == "I" and not match["title"] and not (match["of"] or _AFTER_RULER.match(after(match))):
        return match[0]
    return f"{match['name']} the {ordinal(short.ROMAN_VALUES[numeral]).title()}{match['of'] or ''}"


_AFTER_RULER: Final = re.compile(r"$|[.,;:?!)]| (?:of|in|was|is|ruled|reigned|became|who|as)\b")


def _roman(match: Match) -> str:
    """A Roman numeral in capitals that can be no word."""
    if match[0] == "IV" and (before(match).endswith(" an ") or _INTRAVENOUS.search(after(match))):
        return "I V"
    return cardinal(short.ROMAN_VALUES[match[0]])


_INTRAVENOUS: Final = re.compile(
    r"^ (?:fluids?|drips?|drugs?|lines?|push|infusions?|therapy|antibiotics?|access|bolus|catheters?|injections?|saline"
    r"|doses?|bags?|administration|medications?|route)\b"
)


def _roman_ordinal(match: Match) -> str:
    return ordinal(short.ROMAN_VALUES[match["roman"]])


def _listed(match: Match) -> str:
    return cardinal(short.ROMAN_VALUES[match[1].upper()])


_ORDINAL_END: Final = "(?: ?(?:rd|th|nd|st))"
_OF_CENTURY: Final = (
    rf"(?=(?:(?:,|,? and|,? or| to|-)(?: the)? ?(?:{short.ROMAN}){_ORDINAL_END}?)*[ -]centur(?:y|ies)\b)"
)
_SURE_ROMANS: Final = "|".join(
    numeral for numeral in short.ROMAN.split("|") if len(numeral) > 1 and numeral not in {"XX", "XXX", "XL"}
)
"""Those that are no letters by themselves: chromosomes, sizes."""

_AFTER_PRONOUN: Final = (
    r"(?:am|was|have|had|like|love|want|saw|see|know|knew|think|would|could|can|will|do|did|need|used?|prefer|mean"
    r"|bought|wrote|chose|choose)\b"
)
"""What goes on after the pronoun, as in "the type I like", and not after a numeral."""

_MANY: Final = r"(?<=^)|(?<=[A-Z]\. )|(?<=[A-Z] )|(?<=[A-Z][a-z] )|(?<=[A-Z][a-z]{2} )|(?<=[A-Z][a-z]{3} )"

WORD_RULES: Final[list[Rule]] = [
    rule("word", r"(?<![A-Za-z\d])(?:N/m|(?:km|mi|m|cm|ft|kg|mg|g|lb|Btu|J|kJ|W|gal|mol|oz)/(?:h|hr|sec|s|min|L|ml|mL"
         r"|dL|kg|cm|m|day|gal))"
         r"(?![A-Za-z\d^/])", _rate),
    rule("word", rf"(?<![\w/^×*])(?=k?(?:J|cal)/\(?(?:k?g|mol)\b|W/\(?m\^?2)({UNIT})", _rate),
    rule("word", r"(?<![\w/^])(?:k?cal|k?J|Btu|N|W|k?g)(?: (?:deg|K|mole?|k?g|s|m)\^\{?-[1-3]\}?(?!\d))+", _rate),
    rule("word", r"(?<![A-Za-z\d])r(?:ev)?/min(?![A-Za-z])", "revolutions per minute"),
    rule("word", rf"\(?\b[Uu]nits?: ?(?P<unit>{UNIT})\)?", lambda m: f", in {say_unit(m['unit'], plural=True)},"),
    rule("word", r"(?<=[\d)]) ?/ ?°([CFK])(?![A-Za-z])", lambda m: f"per {say_unit('°' + m[1], plural=False)}"),
    rule("word", r"(?<=/)(?:min|hr|sec|yr|wk)(?![A-Za-z\d-]|\.\d)", lambda m: say_unit(m[0], plural=False)),
    rule("word", r"(?<=\d/)mo(?![A-Za-z\d-])", "month"),
    rule("word", r"(?<=[a-z]{5}/)s(?![A-Za-z\d'])", "second"),
    rule("word", r"(?<=/)([cmkμ]?m)\^?([23])(?![\w^])", lambda m: say_unit(m[0], plural=False)),
    rule("word", rf"\b((?i:{short.NUMBERED})|type(?! I {_AFTER_PRONOUN})) (?P<roman>{short.ROMAN})(?![A-Za-z\d'])",
         _roman_after_title),
    rule("word", rf"\b({short.TITLED})s? (?P<roman>{short.ROMAN})(?![A-Za-z\d'])", _roman_after_title),
    rule("word", rf"\b(?P<name>(?P<title>{short.TITLES})(?: [A-Z][a-z]+){{1,2}}|(?:{short.RULERS})) "
         rf"(?P<roman>{short.ROMAN})(?P<of>'s)?(?![A-Za-z\d'])", _ruler),
    rule("word", rf"(?<![A-Za-z\d])(?P<roman>{short.ROMAN}){_ORDINAL_END}?{_OF_CENTURY}", _roman_ordinal),
    rule("word", rf"(?<![A-Za-z\d])(?=[A-Z]{{2}})(?P<roman>{short.ROMAN}){_ORDINAL_END}(?![A-Za-z\d])", _roman_ordinal),
    rule("word", rf"(?<![A-Za-z\d])(?:{_SURE_ROMANS})(?![A-Za-z\d^_(])(?!'[a-rt-z])", _roman),
    rule("word", r"(?<![A-Za-z])(i{2,3}|iv|vi{1,3}|ix|xi{1,3})(?=[).,;:]|$| [A-Z])", _listed),
    rule("word", short.ABBREVIATION.pattern, _abbreviation),
    rule("word", r"(?<![A-Za-z.])Ph\.? ?D(?:\.(?! [A-Z]|$)|\b)", "P H D"),
    rule("word", r"(?<![A-Za-z.])St\.(?= [A-Z])|(?<=[a-z] )St\.(?= ?[,;]| [a-z]|$)", _saint_or_street),
    rule("word", r"(?<![A-Za-z.])w/o(?![A-Za-z])", "without"),
    rule("word", r"(?<![A-Za-z.])w/(?: (?=[a-z\d])|(?=\d|[a-z]{2}|a ))", "with"),
    rule("word", r"(?<![A-Za-z.])c/o(?![A-Za-z])", "care of"),
    rule("word", r"(?<= )v\.(?= [A-Z])", _versus),
    rule("word", r"(?<![A-Za-z.])((?:[A-Za-z]\.){2,}|(?:[A-Z]\. )+[A-Z]\.|(?:[A-Z]\.)+[A-Z]\b)(?![A-Za-z])", _initials),
    rule("word", rf"(?:{_MANY}|(?<=[A-Z][a-z]{{4}} )|(?<=[A-Z][a-z]{{5}} ))([A-Z])\.(?= [A-Za-z])", _initials),
    rule("word", r"(?<![A-Za-z])([A-Za-z]+)\(s\) ([a-z]+)\(s\)", lambda m: f"{m[1]}s {m[2]}"),
    rule("word", r"(?<![A-Za-z])([A-Za-z]+)\((?:s|es)\)", lambda m: m[0].replace("(", "").replace(")", "")),
    rule("variable", r"(?<![A-Za-z\d'])[B-HJ-Zb-z](?![A-Za-z\d]|'[a-z])", lambda m: m[0]),
    rule("variable", r"(?<![A-Za-z'])(?:a(?=[_^=]| ?[=+]|_\d)|A(?=[_^(=]| [=∪∩]))", lambda m: m[0]),
    rule("variable", r"(?<![A-Za-z'])(?<!_ )(?!at|am|an|by|my|up|us|do|nt|[ckmnp]m|dB|ab\b(?! ?[=)^]))(?:d[a-zA-Z]"
         r"|[xyzabcnmpqruvtk]{2})(?=[)\^/=,]|_\d| [=+-]|$)", lambda m: _spelled(m[0])),
    rule("word", r"[A-Za-z]+(?:'[A-Za-z]+)*", _word),
]  # fmt: skip
"""Words, short forms and names, in the order in which they are tried."""
