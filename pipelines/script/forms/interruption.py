"""The user cuts in while the assistant answers; the assistant falls silent, listens, and answers briefly."""

import random
from typing import Final

from data_schemas.config import FormsConfig
from data_schemas.records import Placement, Turn
from pipelines.script.forms.answering import answer, brief
from pipelines.script.forms.turns import Reply, assistant_turn, user_turn, verbatim
from pipelines.script.kinds import kind_of
from pipelines.script.leads import long_leads, worded
from pipelines.script.phrasing import Exchange

REACTION_S: Final = (0.12, 0.28)
"""How long the assistant goes on after the user starts; it is silent within 300 ms."""

_MARGIN: Final = 3
"""Words of the assistant before the interruption, and planned after it."""

_ENOUGH: Final = 8
"""Words of an answer that can be cut; a shorter one gets a long lead."""

_NOT_YET: Final = (
    "Wait, just the answer please.", "Sorry, just tell me the answer.", "Hold on, just the short answer please.",
    "Okay, but what is the answer?", "Stop, can you just give me the answer?", "Sorry, I only need the answer.",
    "Can you keep it short please?", "Wait, can you make it short?", "Never mind the details, what is it?",
)  # fmt: skip
_SAID: Final = (
    "Wait, say that again please.", "Sorry, what was that?", "Hold on, what did you say?", "Wait, what was it again?",
    "Sorry, I missed that.", "Sorry, can you repeat that?", "Hang on, could you say that again?",
)  # fmt: skip
_NUMBER_SAID: Final = ("Sorry, what was the number?", "Wait, what number was that?", "Hold on, what was the number?")


def fits(exchange: Exchange) -> bool:
    """Whether the answer is long enough to be cut, or is made so by its lead."""
    return exchange.answer.n_words >= _ENOUGH or bool(long_leads(exchange))


def write(exchange: Exchange, config: FormsConfig, rng: random.Random) -> tuple[Turn, ...]:
    """Question, an answer that is cut off, what the user cuts in with, the short answer."""
    planned = answer(exchange, config, rng)
    lead = planned.lead if planned.body.n_words >= _ENOUGH else verbatim(worded(rng.choice(long_leads(exchange))))
    told = assistant_turn(1, Reply(lead, planned.body, None, planned.answer_word_index))
    n_words = (lead.n_words if lead else 0) + planned.body.n_words
    at = rng.randint(_MARGIN - 1, n_words - _MARGIN - 1)
    cut = Placement(rule="interrupt", seconds=round(rng.uniform(*REACTION_S), 3), turn_index=None, word_index=at)
    was_said = told.answer_word_index is not None and at >= told.answer_word_index
    return (
        user_turn(0, exchange.question),
        told,
        user_turn(2, verbatim(rng.choice(_cut_ins(exchange, was_said))), cut),
        assistant_turn(3, brief(exchange, config, rng)),
    )


def _cut_ins(exchange: Exchange, was_said: bool) -> tuple[str, ...]:
    if not was_said:
        return _NOT_YET
    return (*_SAID, *_NUMBER_SAID) if kind_of(exchange.question.text) in {"sum", "number"} else _SAID
