"""Extracts the key words of an answer and finds where they are said: consecutive content words, numbers by value.

The key words of "It is the Treaty of Versailles" are "treaty versailles". They are found in "the treaty at Versailles"
but not in "a treaty signed in Versailles". Numbers are compared by value, so that "minus five" and "negative five" are
equal, and only as a whole: "six" is not found in "thirty six".
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import Final, NamedTuple

from spoken.number_words import count_number_words, find_cardinal, parse_number_words, split_numbers
from spoken.spoken_text import make_word_set

FUNCTION_WORDS: Final = make_word_set(
    "a an the this that these those there here "
    "i you he she it we they me him her us them my your his its our their who whom whose which what "
    "is are was were be been being am has have had having do does did doing "
    "will would shall should can could may might must "
    "of in on at to from by with for about as into onto over under between among through during within upon per "
    "and or but so then if because since while than also just very well"
)
"""Function words, which another wording of the same answer may lack. They exclude negations and quantities."""

_NOT_BEING: Final = make_word_set("isn't wasn't aren't weren't")
_NEGATIONS: Final = _NOT_BEING | make_word_set("not never neither nor don't doesn't didn't")
"""Negations: what follows directly is denied."""
_NEGATIONS_OF_BE: Final = make_word_set("not never cannot can't couldn't wouldn't shouldn't won't mustn't")
"""Negations of a following "be": "it cannot be twelve"."""
_PRONOUNS: Final = make_word_set("it that this he she they these those")
_NO_BEHIND: Final = make_word_set("is are was were be has have had with there")
"""Behind these "no" denies what follows ("there is no gold"); elsewhere it corrects what was said: "six no five"."""
_PASSED_OVER: Final = make_word_set(
    "a an the this that these those his her its their our my your of in on at to from with for by"
)
"""May stand between a negation and what it denies: "not in the house". A verb begins another clause."""

_ADVERBS: Final = make_word_set("really actually quite exactly simply called named")
"""May stand between a negation and what it denies, but not within a complete answer: "no it isn't really six"."""
_DOUBTING: Final = make_word_set("think believe suppose")
"""Denied, these deny the clause that follows: "I don't think it is Paris"."""
_DOUBTED_BEGINNINGS: Final = _PASSED_OVER | _PRONOUNS | _ADVERBS | make_word_set("is was are were it's answer")
"""What such a clause may begin with: "that the answer is"."""

_PRONOUN_ONE: Final = FUNCTION_WORDS - {"and", "or", "to", "over", "per", "by"}
""" "One" before these is somebody: "one could argue", "one who", "one of the first". Not "one over two", "one and a
half"."""

_AUXILIARIES: Final = make_word_set("do does did can could would should")
_ASKED_ABOUT: Final = make_word_set("that this it you")
"""Behind an auxiliary these begin a question: the "one" of "one does that help" is no pronoun."""
_WRONG: Final = make_word_set("wrong incorrect false")
_RIGHT: Final = make_word_set("it right correct true answer")

_PARTS: Final = frozenset({"dozen", "half", "halves", "quarter", "quarters"})
_OPERATORS: Final = frozenset({"cubed", "divided", "minus", "or", "over", "pi", "plus", "squared", "to"})
_JOINING: Final = frozenset({"and", "by", "times"})
"""Words behind a number that make another amount of it: at once, and these three where a further number follows."""

_NEXT_OPTION: Final = re.compile(r"[;,]? or |[;,] ")
_ORDINAL: Final = re.compile(r"^(?:or )?(?:first|second|third|fourth), ")


class SpokenUnit(NamedTuple):
    """A word, or a whole number by its value: `text`, and the positions [start, end) of its words."""

    text: str
    start: int
    end: int

    @property
    def is_number(self) -> bool:
        """Whether it is an amount; ordinals are not."""
        return self.text[-1].isdigit()


def extract_words(text: str) -> list[str]:
    """Returns a text's words in lower case, of letters and "'"; all other characters, also digits, separate words."""
    return "".join(char if char.isalpha() or char in "' " else " " for char in text.lower()).split()


def split_into_units(words: Sequence[str]) -> list[SpokenUnit]:
    """Splits words into units; each number is one unit. A lone "one" stays a word, because it is often a pronoun."""
    units, at = list[SpokenUnit](), 0
    while at < len(words):
        n_words = count_number_words(words, at)
        if n_words and list(words[at : at + n_words]) != ["one"]:
            units += _split_numbers(words, at, n_words)
        else:
            n_words = 1
            units.append(SpokenUnit(words[at], at, at + 1))
        at += n_words
    return units


def _split_numbers(words: Sequence[str], at: int, n_words: int) -> list[SpokenUnit]:
    """Splits `n_words` number words from position `at` into units; a repetition starts another ("sixty sixty five")."""
    groups: list[list[tuple[int, int]]] = []
    for length in split_numbers(words[at : at + n_words]):
        own = tuple(words[at : at + length])
        before = groups[-1] if groups else []
        last = tuple(words[slice(*before[-1])]) if before else ()
        is_again = bool(before) and own in (last, tuple(words[slice(*before[0])]))
        is_begun_again = bool(before) and len(last) < len(own) and own[: len(last)] == last
        if not before or is_again or is_begun_again:
            groups.append([])
        groups[-1].append((at, at + length))
        at += length
    return [_make_number_unit(words, group[0][0], group[-1][1]) for group in groups]


def _make_number_unit(words: Sequence[str], start: int, end: int) -> SpokenUnit:
    """Makes a unit of the number words [start, end); a sign without a number stays a word."""
    own = words[start:end]
    has_value = any(find_cardinal(word) for word in own)
    return SpokenUnit(parse_number_words(own) if has_value else own[0], start, end)


def find_content_units(words: Sequence[str]) -> list[SpokenUnit]:
    """Returns the units that are neither function words nor "one" as a pronoun."""
    return [
        unit
        for unit in split_into_units(words)
        if unit.text not in FUNCTION_WORDS and not (unit.text == "one" and _is_pronoun(words[unit.end : unit.end + 2]))
    ]


def _is_pronoun(following: Sequence[str]) -> bool:
    """Returns whether "one" before these (at most two) words is a pronoun, as in "one could argue"."""
    is_question = following[:1] and following[0] in _AUXILIARIES and {*following[1:]} <= _ASKED_ABOUT
    return bool(following) and following[0] in _PRONOUN_ONE and not is_question


def find_key_words(answer: Sequence[str]) -> tuple[str, ...]:
    """Returns the key words of an answer: the number it starts with, if that is an amount, else all content words.

    The key of "thirty six students got B" is 36. The first words of "one could argue so", "first in first out", "four
    to one" and "two dollars and five cents" are no key, because many other answers contain them. For an answer of
    function words only ("it is they") the key is all its words.
    """
    n_number = count_number_words(answer, 0) if answer else 0
    if n_number and _is_amount(answer[:n_number], answer[n_number:]):
        return tuple(each.text for each in split_into_units(answer[:n_number]))
    return tuple(each.text for each in find_content_units(answer) or split_into_units(answer))


def find_key(key: Sequence[str], words: Sequence[str]) -> list[SpokenUnit]:
    """Finds where a key is said: consecutive units, skipping function words between them. Matches do not overlap.

    "Seven" is found neither in "seven and a half" nor in "it is not seven". An empty key is found nowhere.
    """
    if not key:
        return []
    units = find_content_units(words)
    if all(each in FUNCTION_WORDS for each in key):
        units = split_into_units(words)
    found, at = list[SpokenUnit](), 0
    while at + len(key) <= len(units):
        own = units[at : at + len(key)]
        is_it = [each.text for each in own] == list(key) and not (len(key) == 1 and _is_part_of_more(own[0], words))
        if is_it and not is_denied(words, own[0].start, own[-1].end):
            found.append(SpokenUnit(" ".join(key), own[0].start, own[-1].end))
            at += len(key)
        else:
            at += 1
    return found


def find_other_answers(
    key: Sequence[str], words: Sequence[str], oracle_words: Sequence[str], others: Sequence[Sequence[str]]
) -> list[SpokenUnit]:
    """Finds where another answer is said: another number, or another option; in the order of the words.

    Args:
        key: key of the right answer. Numbers count only if it contains one, or starts with "one".
        oracle_words: the oracle's words. Numbers it says before (or after) the key may be said there as often, too.
        others: keys of other answers, such as the other options; matches inside the right key do not count.
    """
    right = find_key(key, words)
    found = [place for other in others if tuple(other) != tuple(key) for place in find_key(other, words)]
    found = [each for each in found if not any(at.start <= each.start and each.end <= at.end for at in right)]
    if has_number(key):
        found += _find_other_numbers(key, words, oracle_words, right)
    return sorted(set(found), key=lambda each: each.start)


def _find_other_numbers(
    key: Sequence[str], words: Sequence[str], oracle_words: Sequence[str], right: Sequence[SpokenUnit]
) -> Iterator[SpokenUnit]:
    """Yields the said numbers that are neither part of the key nor said by the oracle on the same side of the key.

    Args:
        key: key of the right answer.
        words: the words that were said.
        oracle_words: the oracle's words.
        right: where the key was said.
    """
    oracle_key = find_key(key, oracle_words)
    allowed = Counter(
        (unit.text, _is_behind(unit, oracle_key) and bool(right)) for unit in _find_outside(oracle_words, oracle_key)
    )
    for unit in _find_outside(words, right):
        place = (unit.text, _is_behind(unit, right))
        allowed[place] -= 1
        is_part = len(key) > 1 and unit.text in key
        if unit.is_number and not is_part and allowed[place] < 0 and not is_denied(words, unit.start, unit.end):
            yield unit


def _find_outside(words: Sequence[str], keys: Sequence[SpokenUnit]) -> list[SpokenUnit]:
    """Returns the units of a text that start in none of the places `keys`."""
    inside = {at for each in keys for at in range(each.start, each.end)}
    return [unit for unit in split_into_units(words) if unit.start not in inside]


def _is_behind(unit: SpokenUnit, keys: Sequence[SpokenUnit]) -> bool:
    """Returns whether a unit starts after the first of the places `keys`; False without any."""
    return bool(keys) and unit.start > keys[0].start


def has_number(key: Sequence[str]) -> bool:
    """Returns whether a key contains a number or starts with "one", so that any other number is another answer."""
    return bool(key) and (key[0] == "one" or any(SpokenUnit(each, 0, 0).is_number for each in key))


def is_denied(words: Sequence[str], start: int, end: int) -> bool:
    """Returns whether what is said at the positions [start, end) is denied, as far as the words show that.

    It is denied by a negation before it in its clause ("it is not Paris", "it cannot be Paris"), or by what follows
    ("Paris is wrong", "Paris is not right"). "No, it isn't" and "no, not that" are complete answers, which do not deny
    what follows: without punctuation "No, it isn't. Rome." and "No, it isn't Rome." are the same words, and follow-up
    questions are answered by the former.
    """
    before = _drop_trailing(words[:start], _PASSED_OVER | _ADVERBS)
    has_adverb = not _ADVERBS.isdisjoint(words[len(before) : start])
    last, second = (before[-1] if before else "", before[-2] if len(before) > 1 else "")
    if last == "be":
        return second in _NEGATIONS_OF_BE
    if last in _NEGATIONS and (has_adverb or not _is_complete_answer(words, len(before) - 1)):
        return True
    is_none = (last == "no" and second in _NO_BEHIND) or (last == "but" and second == "anything")
    return is_none or _is_doubted(before) or _is_denied_behind(words[end : end + 4])


def _is_doubted(before: Sequence[str]) -> bool:
    """Returns whether the words end as in "I don't think it is", "I do not believe that the answer is"."""
    before = _drop_trailing(before, _DOUBTED_BEGINNINGS)
    return len(before) > 1 and before[-1] in _DOUBTING and before[-2] in _NEGATIONS


def _drop_trailing(words: Sequence[str], dropped: Set[str]) -> Sequence[str]:
    """Returns the words without those at the end that are in a set."""
    end = len(words)
    while end and words[end - 1] in dropped:
        end -= 1
    return words[:end]


def _is_complete_answer(words: Sequence[str], at: int) -> bool:
    """Returns whether the negation at position `at` ends "no it isn't", or is the "not" of "no not that"."""
    if words[at] in _NOT_BEING:
        return at > 1 and words[at - 2] == "no" and words[at - 1] in _PRONOUNS
    return at > 0 and words[at - 1] == "no" and list(words[at : at + 2]) == ["not", "that"]


def _is_denied_behind(words: Sequence[str]) -> bool:
    """Returns whether words that follow an answer deny it: "is wrong", "is not right", "isn't the answer"."""
    verb, *rest = [word for word in words if word not in ("a", "an", "the")] or [""]
    if verb in ("is", "was"):
        return bool(rest) and (rest[0] in _WRONG or (rest[0] == "not" and bool(_RIGHT.intersection(rest[1:2]))))
    return verb in _NOT_BEING and bool(_RIGHT.intersection(rest[:1]))


def _is_part_of_more(unit: SpokenUnit, words: Sequence[str]) -> bool:
    """Returns whether a unit is a number that continues after it, as in "seven and a half" or "two dozen"."""
    rest = [word for word in words[unit.end : unit.end + 3] if word not in ("and", "a")]
    return unit.is_number and bool(_PARTS.intersection(rest[:1]))


def find_offered_options(question: str, key: Sequence[str]) -> list[tuple[str, ...]]:
    """Returns the keys of the wrong options of a question: "Is it X, Y, or Z?", "…: first, X; or second, Y?".

    Only the last sentence is read. A list counts as options only if the right answer is in it; else there are none.

    Args:
        question: spoken text with punctuation.
        key: key of the right answer.
    """
    last = re.split(r"(?<=[.?!])\s+(?=[A-Z])", question.strip())[-1] if question.strip() else ""
    for listed in _find_possible_lists(last):
        keys = [find_key_words(extract_words(each)) for each in listed]
        if tuple(key) in keys and len(keys) > 1:
            return [each for each in keys if each and each != tuple(key)]
    return []


def _find_possible_lists(sentence: str) -> list[list[str]]:
    """Returns the possible lists of options in a sentence, one for each possible start, the longest first."""
    body = sentence.rstrip(" .?!")
    begins = [found.end() for found in re.finditer(r"(?i)\bis it:? |\bchoices are:? |\bchoices: |: ", body)]
    lists = []
    for begin in begins:
        text = body[begin:]
        parts = text.split("; ") if "; " in text else _NEXT_OPTION.split(text)
        lists.append([_ORDINAL.sub("", part.strip()) for part in parts if part.strip()])
    return lists


def _is_amount(number: Sequence[str], rest: Sequence[str]) -> bool:
    """Returns whether a number at the start of an answer is a complete amount.

    A lone "one" (often a pronoun), ordinals including fractions, and numbers that continue in the rest are not.
    """
    if (
        list(number) == ["one"]
        or find_cardinal(number[-1]) != number[-1]
        or (_PARTS | _OPERATORS).intersection(rest[:1])
    ):
        return False
    joining = next((at for at, word in enumerate(rest[:2]) if word in _JOINING), len(rest))
    return not any(find_cardinal(word) or word in _PARTS for word in rest[joining + 1 : joining + 3])
