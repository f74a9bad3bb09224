"""Letters that the text as a whole tells apart: genes in both cases, the hypotheses of a test, means in angle brackets.

A gene's two forms sound alike, "T and t"; they are said "big T and little t" wherever the text names both.
"""

import re
from typing import Final

from spoken.rules.rule import about
from spoken.written.traced import Traced

_OF_GENES: Final = re.compile(r"(?i)\b(?:genes?|alleles?|genotypes?|heterozyg\w+|homozyg\w+)\b")
_PAIR: Final = re.compile(r"(?<![A-Za-z\d])([A-Z])(?=[a-z](?![A-Za-z\d]))(?i:\1)")
_NUMBERS: Final = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|[a-z]+teen|[a-z]+ty"
_BARE: Final = re.compile(
    rf"(?<![\w'.^/-])(?<![^A-Za-z][A-Za-z] )([B-HJ-Zb-hj-z])"
    rf"(?![\w'^/-]|\.\w|\. [A-Z]\.| ?[=+*<>]| (?:[A-Za-z]|{_NUMBERS})\b)"
)
"""A letter by itself that is no word, no initial and no part of a formula, nor of a name such as "p fifty three"."""

_GENOTYPE: Final = re.compile(r"(?<![A-Za-z\d'])(?:([A-Za-z])(?i:\1)){1,4}(?![A-Za-z\d'])")
_FIRST_LETTERS: Final = re.compile(r"(?<![A-Za-z\d'])A( (?:versus|vs\.?|and|or) )a(?![A-Za-z\d'])")
"""What is said of an article's letter only where its capital stands beside it."""
_CROSSED: Final = frozenset("xy")
"""Letters of chromosomes and of crosses, "Tt x Tt"."""

_TOLD: Final = re.compile(r"\b(?:big|little|capital|small) $")

_HYPOTHESIS: Final = re.compile(r"(?<![A-Za-z\d])H ?_? ?\{?0")
_ALTERNATIVE: Final = re.compile(r"(?<![A-Za-z\d'-])H_?\{?[aA]\}?(?![\w'(+-])")

_COMPARED: Final = re.compile(r"(?<![\w\\^'])([A-Za-z])( ?[<>≤≥/] ?)((?!\1)(?i:\1))(?![\w'(^])")
"""The same letter in both cases on the sides of a sign: "r < R"."""

_IN_ANGLES: Final = re.compile(r"⟨ ?([^⟨⟩|,<>]{1,20}?) ?⟩")
_DEFINED: Final = re.compile(r"⟩ ?\$? ?(?:denotes?|is defined|means?|stands?)\b")
_AVERAGED: Final = re.compile(
    r"(?i)\b(?:expect\w+|averages?|means?|random|probabilit\w+|distribution|toss\w*|quantum|wave ?function|operator"
    r"|state)\b"
)


_KILOTESLA: Final = re.compile(r"(?<=\d )kT(?=[ .,;?)]|$)(?! ?[-+*/=^])")
_OF_FIELDS: Final = re.compile(r"(?i)\bmagnetic (?:fields?|flux)|\bteslas?\b")
_OF_HEAT: Final = re.compile(r"(?i)thermal|temperature|Boltzmann|\bheat|\bk_?B")


def with_fields_named(text: Traced) -> Traced:
    """The text in which "kT" after a number is a field, where fields are spoken of and no energy of heat."""
    told = f"{text.text}\n{about()}"
    is_field = "kT" in text.text and _OF_FIELDS.search(told) and not _OF_HEAT.search(told)
    return text.sub(_KILOTESLA, "kilotesla") if is_field else text


def _named_in_both_cases(text: str) -> frozenset[str]:
    """The genes of a text, in small letters."""
    told = f"{text}\n{about()}"
    if not _OF_GENES.search(told):
        return frozenset()
    bare = set(_BARE.findall(told))
    both = {letter.lower() for letter in bare if letter.isupper() and letter.lower() in bare} - _CROSSED
    both |= {"a"} if _FIRST_LETTERS.search(told) else set()
    return frozenset(both | {match[1].lower() for match in _PAIR.finditer(told)})


def _cased(letters: str) -> str:
    return " ".join(f"{'big' if letter.isupper() else 'little'} {letter}" for letter in letters)


def with_cases_told(text: Traced) -> Traced:
    """The text in which letters that differ by their case alone are called big and little."""
    text = text.sub(_COMPARED, lambda m: f"{_cased(m[1])}{m[2]}{_cased(m[3])}")
    genes = _named_in_both_cases(text.text)
    if not genes:
        return text

    def told(match: re.Match[str]) -> str:
        is_told = _TOLD.search(match.string[max(0, match.start() - 10) : match.start()]) is not None
        return match[0] if is_told or not set(match[0].lower()) <= genes else _cased(match[0])

    return text.sub(_FIRST_LETTERS, r"big A\1little a").sub(_GENOTYPE, told).sub(_BARE, told)


def with_named_hypotheses(text: Traced) -> Traced:
    """The text whose "Ha" beside "H0" is two letters, a hypothesis and no cry."""
    return text.sub(_ALTERNATIVE, "H A") if _HYPOTHESIS.search(f"{text.text}\n{about()}") else text


def with_means_named(text: Traced) -> Traced:
    """The text with what stands in angle brackets named as a mean where it speaks of means, else by its brackets."""
    if "⟨" not in text.text:
        return text
    is_mean = _AVERAGED.search(f"{text.text}\n{about()}") and not _DEFINED.search(text.text)
    return text.sub(_IN_ANGLES, r" the expectation value of \1 " if is_mean else r" \1 in angle brackets ")
