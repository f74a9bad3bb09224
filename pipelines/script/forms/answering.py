"""Makes the assistant's answers with lead, body and tail."""

import random
from typing import Final

from data_schemas.config import FormsConfig
from pipelines.script.exchange import Exchange
from pipelines.script.forms.turns import Reply, make_spoken
from pipelines.script.leads import draw_lead, drop_answer_words, list_tails
from spoken.spoken_text import SpokenText

_BRIEF_LEADS: Final = ("Sure.", "Of course.", "Okay.", "Sorry.", "Right.", "No problem.", "All right.")


def answer(exchange: Exchange, config: FormsConfig, rng: random.Random, has_tail: bool = True) -> Reply:
    """Makes a reply with the full answer, in most cases after a lead, and in some before a tail, if `has_tail`."""
    lead = draw_lead(exchange, config, rng)
    tail = draw_tail(exchange, config, rng) if has_tail else None
    return Reply(lead, exchange.answer, tail, exchange.answer_word_index)


def make_short_reply(exchange: Exchange, config: FormsConfig, rng: random.Random) -> Reply:
    """Makes a reply with the short answer, in most cases after a lead, for a user who then asks for the reasoning."""
    return Reply(draw_lead(exchange, config, rng), exchange.short_answer, None, exchange.short_answer_word_index)


def make_repeated_reply(exchange: Exchange, config: FormsConfig, rng: random.Random) -> Reply:
    """Makes a reply with the short answer, for a user who interrupts or asks again.

    In most cases a word or two come before it, in some a tail behind it.
    """
    lead = (
        make_spoken(rng.choice(drop_answer_words(_BRIEF_LEADS, exchange)))
        if rng.random() >= config.share_without_lead
        else None
    )
    tail = draw_tail(exchange, config, rng)
    return Reply(lead, exchange.short_answer, tail, exchange.short_answer_word_index)


def draw_tail(exchange: Exchange, config: FormsConfig, rng: random.Random) -> SpokenText | None:
    """Draws the words after an answer; returns None except in the configured share of answers."""
    if rng.random() >= config.tail_share:
        return None
    return make_spoken(rng.choice(list_tails(exchange)))
