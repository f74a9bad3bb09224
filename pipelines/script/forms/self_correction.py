"""The form with a self-correction: the user says something wrong and takes it back, then asks the item's question."""

import random
from dataclasses import replace
from typing import Final

from data_schemas.config import FormsConfig
from data_schemas.records import Turn
from pipelines.script.exchange import Exchange
from pipelines.script.forms.answering import answer
from pipelines.script.forms.turns import insert_words, make_assistant_turn, make_user_turn
from pipelines.script.leads import list_answer_words
from spoken.spoken_text import SpokenText, make_word_set, split_words

_ALIKE: Final = (
    ("two", "three", "four", "five", "six", "seven", "eight", "nine"),
    ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
    ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"),
)
"""Number words that may be mistaken for each other."""

_OTHERS: Final = {word: [each for each in group if each != word] for group in _ALIKE for word in group}
_IN_NUMBERS: Final = make_word_set("zero oh one hundred thousand million billion point minus and a half over to times")
"""Words that may be part of a longer number: a number word next to one is not changed."""

_BACK: Final = ("no, sorry,", "no, sorry, I mean", "sorry, I mean", "no wait,", "I mean,", "no, I meant")
_ASKING: Final = {
    "who": ("what", "where"), "what": ("which", "how"), "which": ("what", "who"), "when": ("where", "what"),
    "where": ("when", "what"), "why": ("how", "what"), "how": ("why", "what"),
}  # fmt: skip
_AGAIN: Final = ("sorry, let me start again.", "no, wait, let me start over.", "sorry, from the beginning.")
_MIN_WORDS: Final = 6


def fits(exchange: Exchange) -> bool:
    """Returns whether the question is long enough for a false start."""
    return exchange.question.n_words >= _MIN_WORDS


def write(exchange: Exchange, config: FormsConfig, rng: random.Random) -> tuple[Turn, ...]:
    """Makes question and answer; in the question, the user takes back a wrong number or word, or starts again."""
    numbers, asking = _find_numbers(exchange), _find_asking_words(exchange.question)
    if numbers and rng.random() < 2 / 3:
        question = _insert_mistake(exchange.question, rng.choice(numbers), rng)
    elif asking and rng.random() < 1 / 2:
        question = _insert_mistake(exchange.question, rng.choice(asking), rng)
    else:
        n_words = rng.randint(2, 3)
        false_start = " ".join(exchange.question.text.split()[:n_words]).rstrip(",.?!;:")
        question = insert_words(exchange.question, 0, f"{false_start}, {rng.choice(_AGAIN)}")
    return make_user_turn(0, question), make_assistant_turn(1, answer(exchange, config, rng))


def _insert_mistake(question: SpokenText, place: tuple[int, list[str]], rng: random.Random) -> SpokenText:
    """Inserts a wrong word before the right one, and after it words that take it back ("no, sorry, I mean").

    `place` has the index of the right word, and the wrong ones to draw from.
    """
    at, others = place
    words = question.text.split()
    wrong = rng.choice(others)
    if words[at][0].isupper():
        words[at] = words[at][0].lower() + words[at][1:]
        wrong = wrong.capitalize()
    return insert_words(replace(question, text=" ".join(words)), at, f"{wrong}, {rng.choice(_BACK)}")


def _find_numbers(exchange: Exchange) -> list[tuple[int, list[str]]]:
    """Returns the indices of single number words of the question, each with wrong ones that are not the answer."""
    words = [word.lower() for word in split_words(exchange.question.text)]
    secret = set(list_answer_words(exchange))
    return [
        (at, others)
        for at, word in enumerate(words)
        if (others := [each for each in _OTHERS.get(word, ()) if each not in secret])
        and not {*words[max(0, at - 1) : at], *words[at + 1 : at + 2]} & (_IN_NUMBERS | set(_OTHERS))
    ]


def _find_asking_words(question: SpokenText) -> list[tuple[int, list[str]]]:
    """Returns the indices of question words that start a sentence, each with other question words."""
    words = question.text.split()
    starts = [at for at in range(len(words)) if at == 0 or words[at - 1][-1] in ".?!"]
    return [(at, list(_ASKING[words[at].lower()])) for at in starts if words[at].lower() in _ASKING]
