"""The form with an interruption (barge-in): the user interrupts; the assistant stops, listens, and answers briefly."""

import random
from typing import Final

from data_schemas.config import FormsConfig
from data_schemas.records import Placement, Turn
from pipelines.script.exchange import Exchange
from pipelines.script.forms.answering import answer, make_repeated_reply
from pipelines.script.forms.turns import Reply, make_assistant_turn, make_spoken, make_user_turn
from pipelines.script.leads import format_lead, list_answer_words, list_long_leads
from pipelines.script.question_kinds import classify_question
from spoken.spoken_text import SpokenText

REACTION_S: Final = (0.12, 0.28)
"""How long the assistant continues after the user starts, in seconds; it is silent within 300 ms."""

_MARGIN: Final = 3
"""Words of the assistant before the interruption, and planned after it."""

_HEARD: Final = 8
"""Words of a long answer after which a user may ask for it again; a shorter one is heard completely first."""

_BRIEF: Final = 10
"""Maximum number of words of an answer that is given if a short one is asked for."""

_NOT_YET: Final = (
    "Wait, just the answer please.", "Sorry, just tell me the answer.", "Okay, but what is the answer?",
    "Stop, can you just give me the answer?", "Sorry, I only need the answer.", "Never mind the details, what is it?",
)  # fmt: skip
_SHORTER: Final = (
    "Hold on, just the short answer please.", "Can you keep it short please?", "Wait, can you make it short?",
)  # fmt: skip
_SAID: Final = (
    "Wait, say that again please.", "Sorry, what was that?", "Hold on, what did you say?", "Wait, what was it again?",
    "Sorry, I missed that.", "Sorry, can you repeat that?", "Hang on, could you say that again?",
)  # fmt: skip
_NUMBER_SAID: Final = ("Sorry, what was the number?", "Wait, what number was that?", "Hold on, what was the number?")


def fits(exchange: Exchange) -> bool:
    """Returns whether the answer is long enough to be interrupted, or can have a lead that makes it so."""
    return bool(_find_places(_plan_reply(None, exchange), exchange) or list_long_leads(exchange))


def write(exchange: Exchange, config: FormsConfig, rng: random.Random) -> tuple[Turn, ...]:
    """Makes the question, an answer that is cut off, the user's interruption, and the short answer.

    The exchange must fit (`fits`).
    """
    planned = _plan_reply(answer(exchange, config, rng, has_tail=False).lead, exchange)
    if not _find_places(planned, exchange):
        planned = _plan_reply(make_spoken(format_lead(rng.choice(list_long_leads(exchange)))), exchange)
    full_answer, at = make_assistant_turn(1, planned), rng.choice(_find_places(planned, exchange))
    cut = Placement(rule="interrupt", seconds=round(rng.uniform(*REACTION_S), 3), turn_index=None, word_index=at)
    was_said = full_answer.answer_word_index is not None and at >= full_answer.answer_word_index
    return (
        make_user_turn(0, exchange.question),
        full_answer,
        make_user_turn(2, make_spoken(rng.choice(_list_cut_ins(exchange, was_said))), cut),
        make_assistant_turn(3, make_repeated_reply(exchange, config, rng)),
    )


def _plan_reply(lead: SpokenText | None, exchange: Exchange) -> Reply:
    """Returns the full answer with this lead, as it is before the interruption cuts it."""
    return Reply(lead, exchange.answer, None, exchange.answer_word_index)


def _find_places(planned: Reply, exchange: Exchange) -> list[int]:
    """Returns the words of the reply after which the user may cut in: well before the answer, or after much of it."""
    n_lead = planned.lead.n_words if planned.lead else 0
    last = n_lead + planned.body.n_words - _MARGIN
    answer_at = n_lead + exchange.answer_word_index
    heard = answer_at + min(len(list_answer_words(exchange)), _HEARD) - 1
    return [*range(_MARGIN - 1, min(answer_at - _MARGIN + 1, last)), *range(max(heard, _MARGIN - 1), last)]


def _list_cut_ins(exchange: Exchange, was_said: bool) -> tuple[str, ...]:
    """Returns the sentences with which the user may interrupt: to have the answer now or, if it was said, again."""
    if not was_said:
        return (*_NOT_YET, *_SHORTER) if exchange.short_answer.n_words <= _BRIEF else _NOT_YET
    return (*_SAID, *_NUMBER_SAID) if classify_question(exchange.question.text) in {"sum", "number"} else _SAID
