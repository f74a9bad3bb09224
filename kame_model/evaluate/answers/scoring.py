"""Scores a spoken answer against the accepted answers, by words and numbers.

Texts are compared in spoken form: the reader of `spoken` converts digits, money and symbols to words, and each number
then becomes one value, so that "$1,914", "1914" and "nineteen fourteen dollars" contain the same number. Case,
punctuation, accents and articles are ignored (as in SQuAD's and TriviaQA's published scripts: Rajpurkar et al., 2016;
Joshi et al., 2017).
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

from kame_model.evaluate.answers.key_words import is_denied
from kame_model.evaluate.calls.delays import TimedWord, time_words
from spoken.number_words import count_number_words, parse_number_words
from spoken.reader import speak
from spoken.spoken_text import Unspeakable

Rule = Literal["said", "last_number", "option"]
"""How a response is scored. Denied answers do not count ("it is not two", "two is wrong").

said: it contains an accepted answer as consecutive words. last_number: its last number is the answer, as is usual for
arithmetic; "one" is also a pronoun, and counts only if the answer is one or the text ends with "is one". option:
exactly one of the options is given, by its letter, or by its text if no letter is given, and it is the right one; a
letter that is part of an option's text that is said, as in "B lymphocytes" or "E. coli", gives no option."""

_ARTICLES: Final = frozenset({"a", "an", "the"})
_MISSPELT: Final = {"fourty": "forty", "ninty": "ninety"}
"""Misspellings in published answers (Llama Questions has "Two hundred fourty eight")."""
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_BRACKETED: Final = re.compile(r"\s*\([^()]*\)")
_LOOP: Final = re.compile(r"\b(\w+(?: \w+){0,7})(?: \1\b){3,}")
"""One to eight words, said four times or more in a row."""

_LETTERS: Final = "abcdefghij"
_CLAUSE_END: Final = r"(?=\s*(?:[.,:;!?]|$))"
_LETTER_BEGINS: Final = re.compile(
    r"(?<!not )(?<!n't )\b(?:option|letter)\s+(?:is\s+)?(?P<named>[a-j])\b(?!')"
    r"|\b(?:answer|choice|it|that)(?:\s+(?:is|would\s+be|must\s+be)|'s|:)\s+(?:[b-hj]\b(?!')|[ai]" + _CLAUSE_END + ")"
    r"|(?:^|[.!?:]\s|\b(?:no|sorry|rather),?\s)\s*[a-j]" + _CLAUSE_END
)
"""The letter of an option: "option C", "the answer is C", or one that is a clause. "A" and "I" are words as well."""
_LETTER_FOLLOWS: Final = re.compile(
    r"\s*(?:,?\s+(?:or|and)|,|/)\s+(?:option\s+)?([b-hj]\b(?!')|[ai]" + _CLAUSE_END + ")"
)
"""Another one after a letter: "A, B or C"."""
_MARKUP: Final = re.compile(r"[*()\[\]\"_]")


@dataclass(frozen=True, slots=True)
class ResponseScore:
    """The score of a response.

    Attributes:
        is_empty: it has no words.
        is_degenerate: it repeats itself in a loop, and is therefore wrong whatever it contains.
        is_exact: it is an accepted answer and nothing else.
        is_right: it gives an accepted answer, by the question set's rule, and is not degenerate.
    """

    is_empty: bool
    is_degenerate: bool
    is_exact: bool
    is_right: bool


def normalise(text: str) -> list[str]:
    """Returns the words of a text, normalised (normalized) for comparison.

    They are in spoken form and lower case, without articles and possessive "'s"; each number is one word of digits.
    """
    words = [_MISSPELT.get(word, word).removesuffix("'s") for word in _speak_words(text)]
    words = _join_money(_convert_numbers(words))
    return [word for at, word in enumerate(words) if word not in _ARTICLES or words[at - 1 : at] == ["option"]]


def score_response(response: str, accepted: Sequence[str], rule: Rule, options: Sequence[str] = ()) -> ResponseScore:
    """Scores a response against the accepted answers.

    Args:
        options: for the rule `option`, all options of the question, letter A first.
    """
    said = normalise(response)
    answers = [answer for answer in map(normalise, accepted) if answer]
    is_loop = is_degenerate(response)
    if rule == "option":
        is_given = _is_right_option_given(response, said, answers, options)
    else:
        is_given = any(_is_answer_given(said, answer, rule) for answer in answers)
    return ResponseScore(
        is_empty=not any(char.isalnum() for char in response),
        is_degenerate=is_loop,
        is_exact=said in answers or (rule == "option" and normalise(f"option {response}") in answers),
        is_right=is_given and not is_loop,
    )


def is_degenerate(text: str) -> bool:
    """Returns whether a text repeats itself in a loop: one to eight words, four times or more in a row.

    Case and punctuation are ignored.
    """
    return _LOOP.search(" ".join(re.findall(r"\w+", text.lower()))) is not None


def list_accepted_forms(answer: str) -> tuple[str, ...]:
    """Returns a published answer and, if it has text in brackets, also the answer without it.

    "Many (polytheistic)" gives "Many (polytheistic)" and "Many".
    """
    bare = _BRACKETED.sub("", answer).strip()
    return tuple(dict.fromkeys(each for each in (answer.strip(), bare) if each))


def find_answer_time(
    pieces: Sequence[tuple[float, str]], accepted: Sequence[str], rule: Rule, options: Sequence[str] = ()
) -> float | None:
    """Returns when the first word of an accepted answer was said; None if none was said.

    If several were said it is the first, in any of the accepted forms; for the rule `last_number` the last, because
    that one is scored.

    Args:
        pieces: pieces of a text, each with its time, in order; a word's time is that of the piece in which it starts.
        rule, options: as for `score_response`.
    """
    words = time_words(pieces)
    answers = [answer for answer in map(normalise, accepted) if answer]
    n_words = len(words)
    if rule == "last_number":
        ends = [normalise(_join_words(words[at:])) for at in range(n_words)]
        scored = [at for at, said in enumerate(ends) if any(_is_answer_given(said, answer, rule) for answer in answers)]
        return words[scored[-1]].start_s if scored else None
    begins = [normalise(_join_words(words[:end])) for end in range(n_words + 1)]
    starts = []
    if rule == "option":
        right = _find_right_options(answers, options)
        text = _join_words(words)
        starts = [
            len(text[: place + 1].split()) - 1 for option, place in _find_letters(text, options) if option in right
        ]
    for answer in answers:
        end = next((end for end, said in enumerate(begins) if _is_contained(said, answer)), None)
        if end is not None:
            found = (
                at for at in range(end - 1, -1, -1) if _is_contained(normalise(_join_words(words[at:end])), answer)
            )
            starts.append(next(found))
    return words[min(starts)].start_s if starts else None


def _find_letters(text: str, options: Sequence[str]) -> list[tuple[int, int]]:
    """Returns the options that a text gives by letter, each with the position of its letter.

    A letter that is a word of an option's text that is said there does not count.
    """
    plain = _MARKUP.sub(" ", text.lower())
    found = []
    for begin in _LETTER_BEGINS.finditer(plain):
        end = begin.end("named") if begin["named"] else begin.end()
        while True:
            found.append((_LETTERS.index(plain[end - 1]), end - 1))
            following = _LETTER_FOLLOWS.match(plain, end)
            if following is None:
                break
            end = following.end(1)
    if not found:
        return []
    said, inside = _speak_words(text), set[int]()
    for words in _list_option_phrases(options):
        inside.update(within for at in _find_occurrences(said, words) for within in range(at, at + len(words)))
    return [(option, place) for option, place in found if len(_speak_words(text[:place])) not in inside]


def _list_option_phrases(options: Sequence[str]) -> list[list[str]]:
    """Returns the spoken words of the options of two words or more, also without an article at their beginning."""
    texts = [_speak_words(option) for option in options]
    texts += [words[1:] for words in texts if words and words[0] in _ARTICLES]
    return [words for words in texts if len(words) > 1]


def _is_right_option_given(
    response: str, said: Sequence[str], answers: Sequence[Sequence[str]], options: Sequence[str]
) -> bool:
    """Returns whether the right option is given and no other; options of equal text count as one."""
    given = _find_given_options(response, said, options)
    return bool(given) and given <= _find_right_options(answers, options)


def _find_given_options(response: str, said: Sequence[str], options: Sequence[str]) -> set[int]:
    """Returns the indices of the options that a response gives: by letter, or, if it has no letter, by text.

    An option whose text is part of another option's text is not given by that one; neither is an option after "not".
    """
    letters = {option for option, _ in _find_letters(response, options)}
    if letters:
        return letters
    spans = [
        (at, at + len(text), number)
        for number, text in enumerate(map(normalise, options))
        if text
        for at in _find_places(said, text)
    ]
    return {
        number
        for start, end, number in spans
        if not any(a <= start and end <= b and b - a > end - start for a, b, _ in spans)
    }


def _find_right_options(answers: Sequence[Sequence[str]], options: Sequence[str]) -> set[int]:
    """Returns the indices of the options whose text is an accepted answer."""
    return {number for number, text in enumerate(options) if normalise(text) in answers}


def _join_words(words: Sequence[TimedWord]) -> str:
    return " ".join(word.text for word in words)


def _is_answer_given(said: Sequence[str], answer: Sequence[str], rule: Rule) -> bool:
    """Returns whether an answer is given: in consecutive words, or by the rule `last_number` as the last number.

    By `last_number`, an answer that does not contain exactly one number must be given in consecutive words, too.
    """
    wanted = [word for word in answer if _NUMBER.fullmatch(word)]
    if rule != "last_number" or len(wanted) != 1:
        return _is_contained(said, answer)
    numbers = [
        word
        for at, word in enumerate(said)
        if _NUMBER.fullmatch(word)
        and not is_denied(said, at, at + 1)
        and (word != "1" or wanted == ["1"] or _is_amount_of_one(said, at))
    ]
    return bool(numbers) and Decimal(numbers[-1]) == Decimal(wanted[0])


def _is_amount_of_one(said: Sequence[str], at: int) -> bool:
    """Returns whether the "one" at position `at` is certainly an amount: the text ends with "is one", "equals one"."""
    return at == len(said) - 1 and said[at - 1 : at] in (["is"], ["equals"])


def _is_contained(said: Sequence[str], answer: Sequence[str]) -> bool:
    """Returns whether an answer is said in consecutive words, and not denied."""
    return bool(_find_places(said, answer))


def _find_places(said: Sequence[str], answer: Sequence[str]) -> list[int]:
    """Returns the positions at which an answer starts and is not denied, as in "it is not Paris", "Paris is wrong"."""
    return [at for at in _find_occurrences(said, answer) if not is_denied(said, at, at + len(answer))]


def _find_occurrences(said: Sequence[str], words: Sequence[str]) -> list[int]:
    """Returns the positions in `said` at which `words` occur consecutively."""
    n_words = len(words)
    return [at for at in range(len(said) - n_words + 1) if list(said[at : at + n_words]) == list(words)]


def _speak_words(text: str) -> list[str]:
    """Returns the lower-case words of a text in spoken form; a text without a certain reading is read word by word."""
    plain = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    try:
        said = speak(plain)
    except Unspeakable:
        said = " ".join(_speak_word(word) for word in plain.replace("-", " ").split())
    return re.findall(r"[a-z0-9]+(?:'[a-z]+)*", said.lower())


def _speak_word(word: str) -> str:
    """Returns the spoken form of a word; the word itself if it has none."""
    try:
        return speak(word)
    except Unspeakable:
        return word


def _convert_numbers(words: Sequence[str]) -> list[str]:
    """Returns the words with those of each number replaced by its digits; also "and a half" or "dozen" after it."""
    converted: list[str] = []
    at = 0
    while at < len(words):
        n_words = count_number_words(words, at)
        if not n_words:
            converted.append(words[at])
            at += 1
            continue
        value = parse_number_words(words[at : at + n_words])
        at += n_words
        if list(words[at : at + 3]) == ["and", "a", "half"] and _NUMBER.fullmatch(value):
            value, at = str(Decimal(value) + Decimal("0.5")), at + 3
        elif list(words[at : at + 1]) == ["dozen"] and _NUMBER.fullmatch(value):
            value, at = str(Decimal(value) * 12), at + 1
        converted.append(_trim_number(value))
    return converted


def _trim_number(value: str) -> str:
    """Returns a decimal number without zeros at its end, as "18" for "18.0"; other texts are not changed."""
    return value.rstrip("0").rstrip(".") if "." in value and _NUMBER.fullmatch(value) else value


def _join_money(words: Sequence[str]) -> list[str]:
    """Returns the words with amounts of dollars and cents joined: "18 dollars and 50 cents" becomes "18.5 dollars"."""
    joined = list(words)
    at = 0
    while at < len(joined):
        parts = [each for each in joined[at : at + 5] if each != "and"][:4]
        if len(parts) == 4 and parts[1] in {"dollar", "dollars"} and parts[3] in {"cent", "cents"}:
            dollars, cents = parts[0], parts[2]
            if dollars.isdecimal() and cents.isdecimal() and len(cents) <= 2:
                n_words = 5 if "and" in joined[at : at + 4] else 4
                joined[at : at + n_words] = [_trim_number(f"{dollars}.{cents.zfill(2)}"), "dollars"]
        at += 1
    return joined
