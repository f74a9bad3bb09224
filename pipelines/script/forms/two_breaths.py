"""The form with two breaths: the question comes as two utterances of one turn."""

import random
from typing import Final

from data_schemas.config import FormsConfig
from data_schemas.records import Turn
from pipelines.script.exchange import Exchange
from pipelines.script.forms.answering import answer
from pipelines.script.forms.clauses import find_breath_breaks
from pipelines.script.forms.turns import make_assistant_turn, make_user_turn

_BREATH_S: Final = (0.3, 0.9)
"""Pause in seconds: shorter than the second of silence that ends a turn in KAME's recipe; a thinking pause is longer.
"""


def fits(exchange: Exchange) -> bool:
    """Returns whether the question has a place for a breath, with enough words on both sides (`find_breath_breaks`)."""
    return bool(find_breath_breaks(exchange.question.text))


def write(exchange: Exchange, config: FormsConfig, rng: random.Random) -> tuple[Turn, ...]:
    """Makes the question as two utterances of one turn, then the answer."""
    at = rng.choice(find_breath_breaks(exchange.question.text))
    pause_s = round(rng.uniform(*_BREATH_S), 3)
    return (
        make_user_turn(0, exchange.question, pauses={at: pause_s}),
        make_assistant_turn(1, answer(exchange, config, rng)),
    )
