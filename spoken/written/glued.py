"""Words that ran into a term, a name, a unit or a pronoun, parted by what stands beside them.

The partings of `vocabulary` need words of its dictionary on both sides; here one side is an article, a unit, a short
form that no dictionary has, or somebody's name.
"""

import re
from collections.abc import Callable
from typing import Final

from spoken.segments import is_frequent
from spoken.spoken_text import word_set
from spoken.vocabulary import is_word, parted
from spoken.written.traced import Traced

_ARTICLE: Final = re.compile(r"(?:^|(?<=[.?!] )|(?<=[.?!:]))A([a-z]{5,20})(?: (?=[a-z])|-([a-z]{3,})(?![\w-]))")
_SHORT_NOUN: Final = re.compile(
    r"(?:^|(?<=[.?!] )|(?<=[.?!:]))A(man|woman|jury|boy|girl|car|farmer|father|judge|plaintiff|defendant|buyer|bank)"
    r"(?= [a-z]{2})"
)
_SMALL_ARTICLE: Final = re.compile(r"(?<![\w'-])a([a-z]{5,12})(?![\w'-])")
_SMALL_PAIR: Final = re.compile(
    r"(?<![\w'-])(?:(at|on|in|of|by|for|from|with|to)(its|any|his|their|these|those)|(such|after)(a)"
    r"|(well|such|soon)(as)|(as)(well|soon|much|many|long|far))(?![\w'-])"
)
_PRONOUN: Final = re.compile(
    r"\b(did|does|do|will|would|can|could|should|must|might|may) (he|she|they|we|you)([a-z]{3,12})(?![\w'-])"
)
_VERB_AND_PARTICLE: Final = re.compile(r"([a-z]{3,7})(in|out|up|off|back|down)")
_AFTER_AUXILIARY: Final = re.compile(
    r"(?<![\w'-])(Should|Would|Could|Did|Does|Will|Can|Has|Is|Was)(he|she|they|we|you|it)(?![\w'-])"
)
_SHORT_FORM: Final = re.compile(r"(?<![\w'\\^_{$-])([a-z]{0,12}?)(emfs?|rms)([a-z]{0,20})"
                                r"(?:(?=[A-Z](?![\w'^_}-]))|(?![\w'^_}-]))")  # fmt: skip
_AND: Final = re.compile(r"(?<![\w'-])(and)([bcdfghjkmnpqtvwxz][a-z]{5,20})(?![\w'-])")
_THE: Final = re.compile(r"(?<![\w'-])(the)([a-z]{4,20})(?='s(?![\w']))")
_PER: Final = re.compile(r"(?<![\w'-])([a-z]{4,20}s)per(?= (?:an? )?[a-z])")
_SMALLER: Final = re.compile(r"^(?:milli|micro|nano|centi|kilo|mega)(?=[a-z]{4})")
_FEW: Final = 2
_POWERED: Final = re.compile(r"(?<=\d)(-?[WV])([a-z]{4,12})(?![\w'-])")
_CAPITAL: Final = re.compile(r"(?:(?<![\w'-])|(?<=\ba))[A-Z][a-z]{5,40}(?![\w'-])")
_LAST: Final = word_set("has would are the of and this that was from could should")
"""Small words that no name ends with by chance, where the rest is a word of the dictionary."""

_TERM: Final = 8
"""Letters of a term that can be no chance find inside a name and what ran into it."""

MAX_LETTERS: Final = 20
"""Of 126,000 words of the CMU dictionary two are longer; of those in MMLU-Pro that are, nine of ten lost a space."""

_SALT: Final = re.compile(
    r"(?<![\w'-])([A-Za-z][a-z]{3,10}(?:ium|yl))(chloride|bromide|iodide|fluoride|oxide|hydroxide|sulfate|sulfite|bisulfite"
    r"|nitrate|nitrite|carbonate|bicarbonate|phosphate|acetate|cyanide|cyanamide)(?![\w-])"
)
"""A metal or a radical and its acid's name: "calciumsulfate"."""


def part_terms(text: Traced) -> Traced:
    """Spaces put back beside terms, names and units: "counteremfof", "did hego", "milesper hour"."""
    for pattern, part in _PARTINGS:
        text = text.sub(pattern, part)
    return text


def _are_words(run: str) -> str | None:
    """A run of letters as one word or several; None where it is neither, empty where there are none."""
    if not run or is_word(run):
        return run
    pieces = parted(run, is_broken=True)
    return " ".join(pieces) if len(pieces) > 1 else None


def _part_article(match: re.Match[str]) -> str:
    """ "Aspaceship leaves", "Aplano-convex", but neither "Arsenic" nor a name such as "Akira"."""
    rest, joined = match[1], match[2]
    is_sure = is_frequent(rest) if joined is None else is_word(rest) and is_word(joined)
    return f"A {match[0][1:]}" if is_sure and not is_word("a" + rest) else match[0]


def _part_short_noun(match: re.Match[str]) -> str:
    """ "Aman took it"; where the text has it again it is a name."""
    return f"A {match[1]}" if match.string.count(match[0]) == 1 else match[0]


def _part_small_article(match: re.Match[str]) -> str:
    """ "on asystem", but neither "abiotic" nor "aswell"."""
    is_other = is_word(match[0]) or (match[0].startswith(("an", "as", "at")) and is_word(match[0][2:]))
    return f"a {match[1]}" if is_frequent(match[1], is_very=True) and not is_other else match[0]


def _part_pronoun(match: re.Match[str]) -> str:
    """ "did heearn", but not "do heavy"."""
    auxiliary, pronoun, verb = match.groups()
    known = None if is_word(pronoun + verb) else _are_words(verb) or _verb_with_particle(verb)
    return match[0] if known is None else f"{auxiliary} {pronoun} {known}"


def _verb_with_particle(run: str) -> str | None:
    """ "payin" as "pay in"."""
    found = _VERB_AND_PARTICLE.fullmatch(run)
    return f"{found[1]} {found[2]}" if found and is_word(found[1]) and is_frequent(found[1], is_very=True) else None


def _part_unknown(match: re.Match[str]) -> str:
    return match[0] if is_word(match[0].lower()) else f"{match[1]} {match[2]}"


def _part_the(match: re.Match[str]) -> str:
    """ "theearth's"; what has no such ending `vocabulary` parts."""
    return match[0] if is_word(match[0]) or not is_word(match[2]) else f"the {match[2]}"


def _part_short_form(match: re.Match[str]) -> str:
    """ "counteremfof" and "voltsrms", but neither "forms" nor "termsof"."""
    left, right = _are_words(match[1]), _are_words(match[3])
    if not (match[1] or match[3]) or left is None or right is None or _are_words(match[0]) is not None:
        return match[0]
    gap = " " if match.string[match.end() : match.end() + 1].isupper() else ""
    return " ".join(part for part in (left, match[2], right) if part) + gap


def _part_per(match: re.Match[str]) -> str:
    """ "milesper hour", "milliroentgensper hour", but not "whisper"."""
    unit = _SMALLER.sub("", match[1])
    return match[0] if is_word(match[0]) or not is_word(unit) else f"{match[1]} per"


def _part_powered(match: re.Match[str]) -> str:
    """ "100-Wlamp", but neither "60Watt" nor "4Wheel"."""
    whole = (match[1][-1] + match[2]).lower()
    return f"{match[1]} {match[2]}" if is_frequent(match[2]) and not is_word(whole) else match[0]


def _part_capital(match: re.Match[str]) -> str:
    """ "Ricardomodifythis", "Lewisand", "Rayleighrefractometeris", but neither "Vangelis" nor "Legoland"."""
    whole = match[0].lower()
    if is_word(whole):
        return match[0]
    pieces = parted(whole)
    if len(pieces) > _FEW or (len(pieces) == _FEW and pieces[-1] in _LAST):
        return " ".join(pieces).capitalize()
    for at in range(3, len(whole) - _TERM):
        term = parted(whole[at:])
        if len(term) == _FEW and len(term[0]) >= _TERM and term[1] in _LAST:
            return f"{match[0][:at]} {' '.join(term)}"
    return _part_long_name(match[0]) if len(whole) > MAX_LETTERS else match[0]


def _part_long_name(run: str) -> str:
    """ "Keldonhoferdiffraction": a name before the longest term that ends what is too long for a word."""
    terms = [run[at:] for at in range(5, len(run) - _TERM + 1) if is_word(run[at:])]
    return f"{run.removesuffix(terms[0])} {terms[0]}" if terms else run


_PARTINGS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (_ARTICLE, _part_article),
    (_SHORT_NOUN, _part_short_noun),
    (_SMALL_ARTICLE, _part_small_article),
    (_SMALL_PAIR, lambda match: " ".join(part for part in match.groups() if part)),
    (_PRONOUN, _part_pronoun),
    (_AFTER_AUXILIARY, _part_unknown),
    (_THE, _part_the),
    (_AND, _part_unknown),
    (_SHORT_FORM, _part_short_form),
    (_PER, _part_per),
    (_POWERED, _part_powered),
    (_CAPITAL, _part_capital),
    (_SALT, _part_unknown),
)
"""In the order in which they are tried."""
