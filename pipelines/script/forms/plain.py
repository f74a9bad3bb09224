"""Question and answer."""

import random

from data_schemas.config import FormsConfig
from data_schemas.records import Turn
from pipelines.script.exchange import Exchange
from pipelines.script.forms.answering import answer
from pipelines.script.forms.turns import make_assistant_turn, make_user_turn


def fits(exchange: Exchange) -> bool:
    """Every exchange can be had plainly."""
    return True


def write(exchange: Exchange, config: FormsConfig, rng: random.Random) -> tuple[Turn, ...]:
    """The question, the answer."""
    return make_user_turn(0, exchange.question), make_assistant_turn(1, answer(exchange, config, rng))
