"""The plain form: question and answer."""

import random

from data_schemas.config import FormsConfig
from data_schemas.records import Turn
from pipelines.script.exchange import Exchange
from pipelines.script.forms.answering import answer
from pipelines.script.forms.turns import make_assistant_turn, make_user_turn


def fits(exchange: Exchange) -> bool:
    """Returns True: every exchange fits."""
    return True


def write(exchange: Exchange, config: FormsConfig, rng: random.Random) -> tuple[Turn, ...]:
    """Makes two turns: the question and the answer."""
    return make_user_turn(0, exchange.question), make_assistant_turn(1, answer(exchange, config, rng))
