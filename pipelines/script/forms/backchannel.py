"""The form with backchannels: one speaker says a word while the other one goes on."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from data_schemas.config import FormsConfig
from data_schemas.records import Turn, Utterance
from pipelines.script.exchange import Exchange
from pipelines.script.forms.answering import answer
from pipelines.script.forms.clauses import starts_clause
from pipelines.script.forms.turns import make_assistant_turn, make_backchannel, make_user_turn

_WORDS: Final = ("Okay.", "Right.", "I see.", "All right.", "Uh huh.", "Got it.", "Yeah.", "Sure.")
_MIN_QUESTION: Final = 16
_MIN_ANSWER: Final = 12
_MARGIN: Final = 5
"""Words before the first backchannel, between two, and after the last: closer to the end it would be a reply."""

_LAG_S: Final = (0.0, 0.25)
_SECOND_SHARE: Final = 0.4
_OPENING: Final = 4
"""Number of words that open a sentence without content: "So, in total,", "How much money,"."""


def fits(exchange: Exchange) -> bool:
    """Returns whether the question or the answer is long enough for a backchannel, and has a place for one."""
    return bool(_find_question_places(exchange) or _find_answer_places(exchange))


def write(exchange: Exchange, config: FormsConfig, rng: random.Random) -> tuple[Turn, ...]:
    """Makes question and answer of an exchange that `fits`, with backchannels of the other speaker over one or both.

    The assistant's are over a long question, the user's over a long answer.
    """
    asked = make_user_turn(0, exchange.question)
    reply = answer(exchange, config, rng)
    answered = make_assistant_turn(1, reply)
    n_lead = reply.lead.n_words if reply.lead else 0
    sides = [(0, _find_question_places(exchange)), (1, [at + n_lead for at in _find_answer_places(exchange)])]
    sides = [side for side in sides if side[1]]
    chosen = dict(sides if rng.random() < _SECOND_SHARE else [rng.choice(sides)])
    by_a = _draw_backchannels(0, chosen.get(0, []), rng)
    by_b = _draw_backchannels(1, chosen.get(1, []), rng)
    return (
        replace(asked, utterances=(*asked.utterances, *by_b)),
        replace(answered, utterances=(*by_a, *answered.utterances)),
    )


def _find_question_places(exchange: Exchange) -> list[int]:
    """Returns the words of the question after which the assistant may be heard; none if it is too short."""
    return _find_places(exchange.question.text.split(), _MIN_QUESTION)


def _find_answer_places(exchange: Exchange) -> list[int]:
    """Returns the words of the answer, without its lead, after which the user may be heard; none if it is too short."""
    return _find_places(exchange.answer.text.split(), _MIN_ANSWER)


def _find_places(words: Sequence[str], least_words: int) -> list[int]:
    """Returns the indices of words after which the other speaker may be heard: at punctuation, else at a clause's end.

    Returns none if there are fewer than `least_words`.
    """
    if len(words) < least_words:
        return []
    starts = [at for at in range(len(words)) if at == 0 or words[at - 1][-1] in ".?!"]
    opening = {start + k for start in starts for k in range(_OPENING)}
    inside = [at for at in range(_MARGIN - 1, len(words) - _MARGIN) if at not in opening]
    marked = [at for at in inside if not words[at][-1].isalpha()]
    return marked or [at for at in inside if starts_clause(words, at + 1)]


def _draw_backchannels(turn_index: int, places: Sequence[int], rng: random.Random) -> tuple[Utterance, ...]:
    """Draws one or two backchannels over the turn, after words at these places; none if there is no place."""
    if not places:
        return ()
    chosen = [rng.choice(places)]
    if (rest := [at for at in places if at >= chosen[0] + _MARGIN]) and rng.random() < _SECOND_SHARE:
        chosen.append(rng.choice(rest))
    said = rng.sample(_WORDS, len(chosen))
    return tuple(
        make_backchannel(text, turn_index, at, round(rng.uniform(*_LAG_S), 3))
        for text, at in zip(said, chosen, strict=True)
    )
