"""The form with a follow-up: a second question about the first answer, whose reply is true by construction."""

import random
from dataclasses import replace
from typing import Final

from data_schemas.config import FormsConfig
from data_schemas.records import Turn
from pipelines.script.exchange import Exchange
from pipelines.script.forms.answering import answer, draw_tail, make_repeated_reply, make_short_reply
from pipelines.script.forms.turns import Reply, make_assistant_turn, make_spoken, make_user_turn
from pipelines.script.leads import list_answer_words
from spoken.spoken_text import SpokenText, find_last_words, join_spoken, split_words

_HOW: Final = (
    "How do you get that?", "How did you work that out?", "Can you show me the last step?",
    "And how do you get there?", "What was the last step?", "How does that come out?",
)  # fmt: skip
_HOW_LEADS: Final = ("Sure.", "Well, let me see.", "The last step is this.", "Here is the last step.")
_NO: Final = ("No.", "No, it isn't.", "No, not that.")
_SURE: Final = ("I'm sure.", "Yes, I'm sure.", "Quite sure.")
_NOT_THAT: Final = (("And it isn't", _NO), ("Isn't it", _NO), ("So it's not", _NO), ("Are you sure it isn't", _SURE))
_AGAIN: Final = (
    "Sorry, what was that again?", "Could you repeat that please?", "Can you say that again?", "Sorry, what was it?",
    "Sorry, I missed that. What is it?", "Say that again please?", "Can you repeat the answer?",
)  # fmt: skip
_JUST_AGAIN: Final = (
    "Sorry, say just the answer again?", "Can you say that again, just the answer?", "Just the answer again please?",
    "Okay, so what is the answer in short?", "And what is the answer in a few words?", "So what do I write down?",
)  # fmt: skip

_BRIEF: Final = 10
"""Maximum number of words of an answer that is given "in short"."""


def fits(exchange: Exchange) -> bool:
    """Returns True: a user can always ask for the answer again."""
    return True


def write(exchange: Exchange, config: FormsConfig, rng: random.Random) -> tuple[Turn, ...]:
    """Makes question and answer; the user then asks for the reasoning, about a wrong answer, or for a repetition."""
    if exchange.step is not None and rng.random() < 2 / 3:
        return _make_reasoning_turns(exchange, exchange.step, config, rng)
    if exchange.distractor is not None and rng.random() < 2 / 3:
        return _make_correction_turns(exchange, exchange.distractor, config, rng)
    reply = answer(exchange, config, rng, has_tail=False)
    is_shorter = exchange.short_answer.n_words <= min(_BRIEF, exchange.answer.n_words // 2)
    asked = rng.choice(_JUST_AGAIN if is_shorter else _AGAIN)
    return _make_four_turns(exchange, reply, make_spoken(asked), make_repeated_reply(exchange, config, rng))


def _make_reasoning_turns(
    exchange: Exchange, step: SpokenText, config: FormsConfig, rng: random.Random
) -> tuple[Turn, ...]:
    """Makes the turns of a short answer, whose calculation the user then asks for."""
    reply = make_short_reply(exchange, config, rng)
    lead = make_spoken(rng.choice(_HOW_LEADS)) if rng.random() >= config.share_without_lead else None
    at = find_last_words(list_answer_words(exchange), split_words(step.text))
    shown = Reply(lead, step, draw_tail(exchange, config, rng), at)
    return _make_four_turns(exchange, reply, make_spoken(rng.choice(_HOW)), shown)


def _make_correction_turns(
    exchange: Exchange, wrong: SpokenText, config: FormsConfig, rng: random.Random
) -> tuple[Turn, ...]:
    """Makes the turns of an answer after which the user asks about a wrong one and is corrected."""
    reply = answer(exchange, config, rng, has_tail=False)
    asked, replies = rng.choice(_NOT_THAT)
    no = make_spoken(rng.choice(replies))
    body = join_spoken([no, exchange.short_answer])
    corrected = Reply(None, body, draw_tail(exchange, config, rng), no.n_words + exchange.short_answer_word_index)
    return _make_four_turns(exchange, reply, _make_question(join_spoken([make_spoken(asked), wrong])), corrected)


def _make_four_turns(exchange: Exchange, first: Reply, asked: SpokenText, second: Reply) -> tuple[Turn, ...]:
    """Makes the turns of the question, its answer, a second question and its reply."""
    return (
        make_user_turn(0, exchange.question),
        make_assistant_turn(1, first),
        make_user_turn(2, asked),
        make_assistant_turn(3, second),
    )


def _make_question(said: SpokenText) -> SpokenText:
    """Returns the text with a question mark at its end."""
    return replace(said, written=f"{said.written}?", text=said.text.rstrip(",.?!;:") + "?")
