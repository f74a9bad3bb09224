"""The form with a thinking pause: the user pauses within the question."""

import random
from dataclasses import replace
from typing import Final

from data_schemas.config import FormsConfig
from data_schemas.records import Turn
from pipelines.script.exchange import Exchange
from pipelines.script.forms.answering import answer
from pipelines.script.forms.clauses import find_pause_breaks
from pipelines.script.forms.turns import insert_words, make_assistant_turn, make_user_turn
from spoken.spoken_text import SpokenText, split_words

_THINKING_S: Final = (1.0, 2.5)
_FILLERS: Final = ("um", "uh", "let me think", "let me see", "hmm", "hold on", "one moment")


def fits(exchange: Exchange) -> bool:
    """Returns whether the question has a place for a pause."""
    return bool(find_pause_breaks(exchange.question.text))


def write(exchange: Exchange, config: FormsConfig, rng: random.Random) -> tuple[Turn, ...]:
    """Makes question and answer, with a pause within the question and, two times in three, a filler before it."""
    question, at = exchange.question, rng.choice(find_pause_breaks(exchange.question.text))
    if rng.random() < 2 / 3:
        filler = rng.choice(_FILLERS)
        question = _insert_filler(question, at, filler)
        at += len(split_words(filler))
    return (
        make_user_turn(0, question, pauses={at: round(rng.uniform(*_THINKING_S), 3)}),
        make_assistant_turn(1, answer(exchange, config, rng)),
    )


def _insert_filler(question: SpokenText, at: int, filler: str) -> SpokenText:
    """Inserts the filler before word `at`: between commas, or as a sentence of its own if a sentence starts there."""
    words = question.text.split()
    if words[at - 1][-1] in ".?!":
        return insert_words(question, at, f"{filler.capitalize()}.")
    words[at - 1] = words[at - 1].rstrip(",;:") + ","
    return insert_words(replace(question, text=" ".join(words)), at, f"{filler},")
