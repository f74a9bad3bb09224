"""Plans a dialogue's events before any request: which turn, what was said before, what is heard, what comes next.

An event knows only what has been *said* by its time: the words of each earlier turn that have ended. A turn that was
cut off is included as far as it was heard, and one that is still running as far as it has come. Words that the other
speaker starts early, inside the turn, belong to a later turn and are excluded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from data_schemas.config import OracleConfig
from data_schemas.records import Turn
from pipelines.oracle.schedule import Tick, list_words, make_ticks
from spoken.conversation import ROLES, format_history_line


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """One tick of a turn, with the index of the request that answers it among the dialogue's requests.

    `request` is None at level 5, which has no request. `speaker` says the predicted words; `truth` is their body as
    planned, even if it was cut off later.
    """

    turn_index: int
    speaker: str
    tick: Tick
    request: int | None
    truth: str


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """The contents of one request: what was said before, the words heard, and `hint` for levels 1 to 4."""

    speaker: str
    history: tuple[str, ...]
    heard: str
    level: int
    hint: str


@dataclass(frozen=True, slots=True)
class OraclePlan:
    """A dialogue's events, by turn and in order of time, and the requests for them in the same order."""

    events: list[PlannedEvent]
    requests: list[PlannedRequest]


def plan_dialogue(turns: Sequence[Turn], config: OracleConfig) -> OraclePlan:
    """Returns the oracle events of all turns that are answered (`find_answered_turns`), and the requests for them."""
    plan = OraclePlan([], [])
    for turn, answer in find_answered_turns(turns, config.both_directions):
        schedule = make_ticks(list_words(turn), config.interval_s, config.level_bounds, config.max_requests_per_turn)
        requests: dict[int, int] = {}
        for index, tick in enumerate(schedule):
            if tick.asks == index:
                requests[index] = len(plan.requests)
                plan.requests.append(_make_request(turns, turn, answer, tick))
            request = None if tick.asks is None else requests[tick.asks]
            plan.events.append(PlannedEvent(turn.turn_index, answer.speaker, tick, request, answer.body))
    return plan


def find_answered_turns(turns: Sequence[Turn], both_directions: bool) -> Iterator[tuple[Turn, Turn]]:
    """Yields each turn of the user with the assistant's next turn; with `both_directions` also the reverse.

    Turns that nobody answers are left out.
    """
    for place, turn in enumerate(turns):
        answer = next((later for later in turns[place + 1 :] if later.speaker != turn.speaker), None)
        if answer is not None and (both_directions or turn.speaker == "B"):
            yield turn, answer


def _make_request(turns: Sequence[Turn], turn: Turn, answer: Turn, tick: Tick) -> PlannedRequest:
    """Makes the request of a tick: what each earlier turn had said by then, and the words of this turn heard so far."""
    said_before = (_format_turn(each, tick.t_s) for each in turns if each.turn_index < turn.turn_index)
    return PlannedRequest(
        speaker=answer.speaker,
        history=tuple(line for line in said_before if line),
        heard=" ".join(word.word for word in list_words(turn)[: tick.n_words_heard]),
        level=tick.level,
        hint=answer.body,
    )


def _format_turn(turn: Turn, t_s: float) -> str:
    """Returns the words of a turn that have ended by a time, as a line of history; empty if none has."""
    words = list_words(turn)
    ended = [word.word for word in words if word.end_s <= t_s]
    if not ended:
        return ""
    is_whole = len(ended) == len(words)
    said = turn.spoken_text if is_whole else " ".join(ended)
    return format_history_line(ROLES[turn.speaker], said, is_whole=is_whole and turn.cut_s is None)
