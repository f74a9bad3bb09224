"""One of the two says a word over the other, who goes on."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from data_schemas.config import FormsConfig
from data_schemas.records import Turn, Utterance
from pipelines.script.forms.answering import answer
from pipelines.script.forms.turns import assistant_turn, backchannel, user_turn
from pipelines.script.phrasing import Exchange

_WORDS: Final = ("Okay.", "Right.", "I see.", "All right.", "Uh huh.", "Got it.", "Yeah.", "Sure.")
_MIN_QUESTION: Final = 16
_MIN_ANSWER: Final = 12
_MARGIN: Final = 5
"""Words before the first backchannel, between two, and after the last: nearer the end it would be a reply."""

_LAG_S: Final = (0.0, 0.25)
_SECOND_SHARE: Final = 0.4


def fits(exchange: Exchange) -> bool:
    """Whether the question or the answer is long enough to be listened to."""
    return exchange.question.n_words >= _MIN_QUESTION or exchange.answer.n_words >= _MIN_ANSWER


def write(exchange: Exchange, config: FormsConfig, rng: random.Random) -> tuple[Turn, ...]:
    """Over a long question the assistant's backchannels, over a long answer the user's; over both at times."""
    asked = user_turn(0, exchange.question)
    told = assistant_turn(1, answer(exchange, config, rng))
    sides = [
        *(["question"] if exchange.question.n_words >= _MIN_QUESTION else []),
        *(["answer"] if exchange.answer.n_words >= _MIN_ANSWER else []),
    ]
    chosen = sides if rng.random() < _SECOND_SHARE else [rng.choice(sides)]
    by_a = _over(asked, rng) if "question" in chosen else ()
    by_b = _over(told, rng) if "answer" in chosen else ()
    return (
        replace(asked, utterances=(*asked.utterances, *by_b)),
        replace(told, utterances=(*by_a, *told.utterances)),
    )


def _over(turn: Turn, rng: random.Random) -> tuple[Utterance, ...]:
    """One backchannel over the turn, or two; after a mark of punctuation where there is one."""
    words = turn.spoken_text.split()
    first = _place(words, range(_MARGIN - 1, len(words) - _MARGIN), rng)
    places = [first]
    if (rest := range(first + _MARGIN, len(words) - _MARGIN)) and rng.random() < _SECOND_SHARE:
        places.append(_place(words, rest, rng))
    said = rng.sample(_WORDS, len(places))
    return tuple(
        backchannel(text, turn.turn_index, at, round(rng.uniform(*_LAG_S), 3))
        for text, at in zip(said, places, strict=True)
    )


def _place(words: Sequence[str], among: Sequence[int], rng: random.Random) -> int:
    return rng.choice([at for at in among if not words[at][-1].isalpha()] or among)
