"""Words that lost a space: parted where that is sure, else found, so that the text can be refused."""

import re
from typing import Final

from spoken.rules.chemistry import COMPOUND
from spoken.segments import NEVER_PARTED, is_frequent
from spoken.spoken_text import word_set
from spoken.vocabulary import is_content, is_word, part_words, parted
from spoken.written.glued import MAX_LETTERS, part_terms
from spoken.written.traced import Traced

_LONG_WORDS: Final = word_set(
    "deinstitutionalization deinstitutionalisation hypercholesterolaemia dehydroepiandrosterone "
    "counterrevolutionaries electroencephalographic electroencephalography antidisestablishmentarianism "
    "psychopharmacological otorhinolaryngologist incomprehensibilities spectrophotometrically interdenominationally "
    "pseudohypoparathyroidism interdisciplinarities phosphatidylethanolamine esophagogastroduodenoscopy"
)
_CAPITAL_INSIDE: Final = re.compile(
    r"(?:Mc|Mac|De|La|Le|Di|Da|Du|Van|Von|Fitz|You|Pay|Face|Go|Java|Play|Micro|Star|Air|Ge|Gi|Ce|Wi|Ad|Open|Linked"
    r"|Whats|Power|Git|Snap|Tik|Door|Fed|Quick|Goo|Tre|Epi|Coin|Mega|Check)[A-Z][A-Za-z]*"
    r"|[a-z][A-Z][a-z]{2,}|apo[A-E]|[a-z]{1,3}[DR]NA(?:s|se|ses)?|[a-z]{1,2}[A-Z]|pKa|pKb|pOH|[kMGT]eV|CoA|PhDs?"
    r"|(?:H|Na)OAc|La[A-Z]eX|[A-Z][a-z]Xs?|ReLUs?"
)
"""Names with a capital inside, products and quantities with one small letter before: "McDonald", "iPhone", "pH"."""

_NOT_A_NAME: Final = re.compile(r"a[A-Z][a-z]{2,}")
"""The article and a name: "aRogerian"."""

_SMALL_WORDS: Final = (
    "is|in|of|the|and|to|by|from|with|for|that|does|do|or|an|on|at|if|when|what|how|as|are|was|were|than|which|who"
    "|has|have|had|not|be|it|its|this|if|did|can|nor|but|into|about|given|assume|assuming|value|values|called|named"
    "|where|rate|constant|about|molar|atomic|contains|find|using"
)
_PARTED_CAPITAL: Final = re.compile(rf"(?<![A-Za-z'])({_SMALL_WORDS})(?=[A-Z][a-z]{{2,}}|[A-Z]{{1,2}}(?![A-Za-z]))")
_PARTED_I: Final = re.compile(
    r"(?<![A-Za-z'])(I)(have|had|was|am|would|will|did|do|and|is|when|think|the|to|in|of)(?![A-Za-z'])"
)
"""The pronoun, or the numeral of a war or a king."""

_PARTED_BEFORE_NUMBER: Final = re.compile(r"(?<![A-Za-z'])([a-z]{4,})(at|of|is|to|by|from|with)(?= \$?\d)")
_PARTED_AFTER_WORD: Final = re.compile(r"(?<![A-Za-z])([a-z]{4,})(?=[A-Z](?![A-Za-z]))")
"""A whole word and one capital: "productsA"."""

_PARTED_ARTICLE: Final = re.compile(r"(?<![A-Za-z'])(a)(?=[A-Z][a-z]{3,})")
_PARTED_THE: Final = re.compile(
    r"\b(in|of|for|to|on|at|by|from|with|and|is|that)(the)\b(?!')|\b(the)(most|following|same)\b|\b((?-i:to))(be)\b"
    r"|\b(what|how|there|this|that)(is|are|was|were|would|will)\b",
    re.IGNORECASE,
)
_PARTED_FIRST: Final = re.compile(
    r"(?<![A-Za-z'])(The|Find|If|Given|Assume|Calculate|For|Using)(?=(?:[A-Z][a-z]{4,}|[A-Z]|HCl|NaCl)(?![A-Za-z']))"
)
_FORMULAS: Final = "NaCl|HCl|KCl|NaOH|HOAc|NaOAc|DNA|RNA|ATP"
_PARTED_FORMULA: Final = re.compile(
    rf"(?<![A-Za-z'])({_SMALL_WORDS}|much|many)(?=(?:[A-Z][a-z]?){{2,5}}(?![a-z])|{_FORMULAS})"
    rf"|(?<![A-Za-z])({_FORMULAS})(?=(?:of|is|with|to|and|in|from|by|solutions?)(?![A-Za-z]))"
)
_NAME_PARTS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NAMES: Final = re.compile(r"(?<![\w'-])(?:[A-Z][a-z]+)+[A-Z][a-z]{2,}(?![\w-])|(?<![\w'-])[A-Z]{5,}[a-z]{2,}(?![\w-])")
_PARTICIPLE: Final = 6
_LEAST_OF_NAME: Final = 4
_MOST_OF_NAME: Final = 9
"""Letters of a name that no dictionary has; a longer one may have a word run into it."""

_MIXED: Final = re.compile(
    r"(?<![\w'-])[A-Za-z]*[a-z][A-Z][A-Za-z]*(?![\w-])|(?<![\w'-])[A-Z][a-z]?[A-Z][A-Za-z]{3,}(?![\w-])"
)
_DIGITS_AFTER: Final = re.compile(rf"(?<![A-Za-z\d])((?:{_SMALL_WORDS}|[a-z]{{4,}}|[A-Z][a-z]{{3,}}))(?=\d)")
_DIGITS_BEFORE: Final = re.compile(r"(?<![A-Za-z_^])(\d+(?:\.\d+)?)(?=(?!th\b)[a-z]{4,}(?![\d_^(]))")
_GLUED: Final = re.compile(
    r"(?:what|how|it|there|this|that)(?:is|are|was|would|will)"
    r"|[a-z]{3,}(?:ofthe|would|should|which)|[a-z]{5,}inthe|[a-z]{8,}this",
    re.IGNORECASE,
)
"""Frequent small words without the space beside them; none of the CMU dictionary's words matches."""

_RUN_ON: Final = re.compile(
    r"the(?!o|a|is|b|n|r[aeim]|s|t[ai])[a-z]{3,}|(?:that|where|which|what)[a-z]{3,}|[a-z]{3,}(?<!o)of|[a-z]+for"
)
"""A small word at an edge of a word, where no other words have those letters: "thephasor", "whereihas", "vapof"."""

_RUN_ON_WORD: Final = re.compile(
    r"(?:the|from)(?P<behind>[a-z]{4,})"
    r"|(?P<before>[a-z]{4,})(?:(?<![io])and|with|from|which|shall|has|the|does|reads|(?<=[sdy])(?:in|at|on|by|to))"
    r"|(?P<plural>[a-z]+s)[bcdfgjlnrvxz]"
)
"""A small word, or a letter after a plural, at an edge of a word that is one without it: "xyleneand", "lossin"."""

_LETTER_BEHIND: Final = re.compile(r"([a-z]{6,})[bcfgjkpqvwxzi]")
"""A variable after a frequent word: "frequencyf"."""

_LETTER_AND: Final = re.compile(r"[A-Za-z][A-Z](?:and|is|in|of|for|with|to|at|the|from|if|as|are|has)")
"""A quantity with a small word after it: "tAand"."""


def mend_words(text: Traced) -> Traced:
    """Spaces put back where only one reading is left: "in3 years", "fromthe", "isLiberman", "last10years"."""
    parted_terms = part_terms(text)
    text = part_words(parted_terms, parted_terms.text != text.text).sub(_TITLED, _part_titled)
    text = text.sub(_PARTED_THE, lambda m: " ".join(part for part in m.groups() if part))
    text = text.sub(_PARTED_CAPITAL, r"\1 ").sub(_PARTED_AFTER_WORD, _part_capital).sub(_PARTED_ARTICLE, r"\1 ")
    text = (
        text.sub(_PARTED_FIRST, r"\1 ")
        .sub(_PARTED_FORMULA, r"\g<0> ")
        .sub(_PARTED_FORMULA, r"\g<0> ")
        .sub(_NAMES, _part_names)
    )
    text = text.sub(_MIXED, _part_mixed).sub(_PARTED_I, r"\1 \2").sub(_PARTED_BEFORE_NUMBER, _part_small)
    text = text.sub(_DIGITS_AFTER, r"\1 ").sub(_DIGITS_BEFORE, r"\1 ")
    return text.sub(r"(?<=[A-Za-z,;])(_{2,})|(_{2,})(?=[A-Za-z])", lambda m: f" {m[0]} ")


def is_run_together(word: str) -> bool:
    """Whether a word of ASCII letters has surely lost a space inside."""
    if len(word) > MAX_LETTERS and word.lower() not in _LONG_WORDS:
        return True
    if re.search("[A-Z]{2,}[a-z]{2,}", word) and not re.search("[A-Z][a-z]?s$|[DR]NA(?:ses?|ases?|i)$", word):
        return True
    if re.fullmatch("(?:If|In|For|The|Of|Is)[A-Z]+", word) or _LETTER_AND.fullmatch(word):
        return True
    if re.search("[a-z][A-Z]", word) and (not _CAPITAL_INSIDE.fullmatch(word) or _NOT_A_NAME.fullmatch(word)):
        return True
    return _GLUED.fullmatch(word) is not None


def run_on_word(text: str) -> str | None:
    """The first word of a spoken text that is another with a small word or a variable glued to it; None: there is none.

    Only words of questions and answers are judged so: a row that was copied badly can be left out, and a live answer
    has no such words. What a dictionary has, and short forms ("they've"), are none.
    """
    return next((word for word in re.findall(r"(?<![\w'-])[a-z]+(?![\w'-])", text) if _is_run_on(word)), None)


def _is_run_on(word: str) -> bool:
    if is_word(word) or word in NEVER_PARTED:
        return False
    if _RUN_ON.fullmatch(word) is not None:
        return True
    found = _RUN_ON_WORD.fullmatch(word)
    if found is not None and is_word(found["behind"] or found["before"] or found["plural"]):
        return True
    found = _LETTER_BEHIND.fullmatch(word)
    return found is not None and is_frequent(found[1])


def _part_capital(match: re.Match[str]) -> str:
    """ "productsA", but not "testifS": what stands before the capital is a word."""
    return f"{match[1]} " if is_word(match[1]) else match[0]


def _part_small(match: re.Match[str]) -> str:
    """ "plateat 220": a word and a small one before a number, where both together are no word."""
    return f"{match[1]} {match[2]}" if is_word(match[1]) and not is_word(match[0]) else match[0]


def _part_names(match: re.Match[str]) -> str:
    """ "TheAlforsCompany", "JimDagneyis", "STAFFStaff": two or more names, the last perhaps with a small word after it.

    As it is where a part is neither a word nor a name, as far as one can tell.
    """
    if not is_run_together(match[0]):
        return match[0]
    if shouted := re.fullmatch(r"([A-Z]{4,})([A-Z][a-z]+)", match[0]):
        both = is_word(shouted[1].lower()) and is_word(shouted[2].lower())
        return f"{shouted[1]} {shouted[2]}" if both else match[0]
    *first, last = _NAME_PARTS.split(match[0])
    pieces = parted(last.lower())
    if len(pieces) == 1 and not is_word(last.lower()):
        pieces = _after_name(last.lower())
    if not pieces or not any(is_word(part.lower()) for part in first):
        return match[0]
    return " ".join([*first, pieces[0].capitalize(), *pieces[1:]])


_TITLED: Final = re.compile(
    r"(?:(?<=Mr\.)|(?<=Ms\.)|(?<=Mrs\.)|(?<=Dr\.)|(?<=[ .][A-Z]\.))( ?)([A-Z][a-z]{3,9}?)"
    r"(borrows|wants|owns|paid|bought|sold|has|had|was|is|purchased|contribut\w+|insured|received|invested"
    r"|set(?= up\b))(?![A-Za-z'])"
)
"""A name after a title or an initial, with its verb: "Mr. Keldobought"."""


def _part_titled(match: re.Match[str]) -> str:
    whole = match[2] + match[3]
    return match[0] if is_word(whole.lower()) else f"{match[1]}{match[2]} {match[3]}"


_PIECES: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LETTER_INSIDE: Final = re.compile(r"([A-Z])(in|is|and|of|to|for|if|are|was)")
_FORMULA_LAST: Final = re.compile(r"([A-Za-z][a-z]{1,})((?:[A-Z][a-z]?\d?){2,5})")
_FORMULA_FIRST: Final = re.compile(r"((?:[A-Z][a-z]?\d?){2,4}?)([a-z]{2,})")


def _part_mixed(match: re.Match[str]) -> str:
    """ "usedAerozine", "HaversonStores", "intensityHin", "NaClforms": parted where each part is a word, a name or a
    formula, and one at least is a word or all are names."""
    if not is_run_together(match[0]) or COMPOUND.fullmatch(match[0]):
        return match[0]
    if (found := _FORMULA_LAST.fullmatch(match[0])) and COMPOUND.fullmatch(found[2]) and is_word(found[1].lower()):
        return f"{found[1]} {found[2]}"
    whole = _inner_parts(match[0])
    pieces = [*whole] if len(whole) > 1 else [part for each in _PIECES.split(match[0]) for part in _inner_parts(each)]
    are_known = [len(part) > 1 and is_word(part.lower()) for part in pieces]
    are_names = [_LEAST_OF_NAME <= len(part) <= _MOST_OF_NAME and part[0].isupper() for part in pieces]
    are_formulas = [re.fullmatch(r"[A-Z]{1,3}|[A-Z][a-z]|(?:[A-Z][a-z]?\d?){2,4}", part) is not None for part in pieces]
    is_sure = (
        sum(are_formulas) <= 1
        and max(map(len, pieces)) > 2
        and all(map(any, zip(are_known, are_names, are_formulas, strict=True)))
    )
    return " ".join(pieces) if is_sure and len(pieces) > 1 and (any(are_known) or all(are_names)) else match[0]


def _inner_parts(piece: str) -> tuple[str, ...]:
    """The parts of a piece without a capital inside: a letter or a formula and the word after it."""
    if found := _LETTER_INSIDE.fullmatch(piece):
        return found[1], found[2]
    found = _FORMULA_FIRST.fullmatch(piece)
    if found and COMPOUND.fullmatch(found[1]) and is_word(found[2]) and not is_word(piece.lower()):
        return found[1], found[2]
    return parted(piece, True) if piece.islower() else (piece,)


def _after_name(word: str) -> tuple[str, ...]:
    """An unknown name and the word run into it: a verb's past or a small word of the sure ones."""
    for at in range(4, len(word) - 1):
        if word[at:] in {"is", "has", "was", "and", "had", "of"} or (
            is_content(word[at:], _PARTICIPLE) and word.endswith("ed")
        ):
            return word[:at], word[at:]
    return ()
