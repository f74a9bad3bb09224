"""The form with an early start: the assistant starts shortly before the question ends, with a lead."""

import random
from dataclasses import replace
from typing import Final

from data_schemas.config import FormsConfig
from data_schemas.records import Placement, Turn
from pipelines.script.exchange import Exchange
from pipelines.script.forms.answering import answer
from pipelines.script.forms.turns import AFTER, make_assistant_turn, make_spoken, make_user_turn
from pipelines.script.leads import LONG_LEAD_WORDS, format_lead, list_long_leads

_EARLY_S: Final = (0.2, 0.8)
"""Seconds before the end. A lead of `LONG_LEAD_WORDS` lasts about 3 s, over 1 s longer than the question."""


def fits(exchange: Exchange) -> bool:
    """Returns whether the question is long enough for an answer that overlaps its end, and there is a long lead."""
    return exchange.question.n_words >= LONG_LEAD_WORDS and bool(list_long_leads(exchange))


def write(exchange: Exchange, config: FormsConfig, rng: random.Random) -> tuple[Turn, ...]:
    """Makes a question and an answer that overlaps its end; the lead repeats nothing that is not yet heard."""
    early: Placement = replace(AFTER, rule="early", seconds=round(rng.uniform(*_EARLY_S), 3))
    reply = replace(answer(exchange, config, rng), lead=make_spoken(format_lead(rng.choice(list_long_leads(exchange)))))
    return make_user_turn(0, exchange.question), make_assistant_turn(1, reply, early)
