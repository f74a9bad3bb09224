"""Under which oracle a held-out dialogue is run: the right one, none, another's, or another's that is put right."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from backends.codec.protocol import Codes
from data_schemas.units import FRAMES_PER_S
from kame_model.data.example import aligned
from kame_model.data.oracle_feed import shifted
from kame_model.encode.rows import TokenRow
from kame_model.frames.oracle_stream import OracleTokenEvent

Condition = Literal["right", "none", "wrong", "corrected"]
CONDITIONS: tuple[Condition, ...] = get_args(Condition)

OF_STRANGERS: tuple[Condition, ...] = ("wrong", "corrected")
"""Those in which another dialogue's oracle is heard."""

CORRECTED_AFTER_S = 1.0
"""How long after a wrong answer began, its lead not counted, its oracle is replaced by the right one."""

_N_OPENING = 2
"""Tokens by which the beginning of an answer is known: one alone may stand in a lead, too."""


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """What one slot of a free run is given.

    Attributes:
        other: int16[n, T], the recorded user's codes.
        events: oracles with the frames at which they come.
        answer_from_frame: from here on a word of the model's is its answer (the question has been heard).
        opening: the first tokens of the answer that is to be corrected, as its oracle tells it; no lead is part of it.
        correction: tokens of an oracle that comes `correction_after_frames` after the opening began to be said; none:
            empty.
    """

    other: Codes
    events: list[OracleTokenEvent]
    answer_from_frame: int
    opening: Sequence[int] = ()
    correction: Sequence[int] = ()
    correction_after_frames: int = round(CORRECTED_AFTER_S * FRAMES_PER_S)


def script_for(row: TokenRow, stranger: TokenRow | None, condition: Condition, delay_frames: int) -> Script:
    """The script of one dialogue under a condition.

    Args:
        row: the dialogue; the model is to be its speaker A.
        stranger: whose oracle the wrong one is, moved so that both questions end together; of other conditions none.
        delay_frames: how long a back-end takes; the same for all events.
    """
    right = row.a.oracle.events()
    wrong = [] if stranger is None else aligned(stranger.a, row.a)
    events = {"right": right, "none": [], "wrong": wrong, "corrected": wrong}[condition]
    heard, asked_frame = shifted(events, delay_frames), question_end_frame(row)
    if condition != "corrected" or stranger is None:
        return Script(row.b.codes, heard, asked_frame)
    return Script(row.b.codes, heard, asked_frame, _answer(stranger)[:_N_OPENING], _answer(row))


def _answer(row: TokenRow) -> list[int]:
    """The tokens of the answer as the oracle tells it, without lead and tail; none where no event knows it."""
    event = row.a.answering_event()
    return [] if event is None else row.a.oracle.said(event).tolist()


def question_end_frame(row: TokenRow) -> int:
    """The frame in which the question that the row's answer is for has been heard; 0 where no event says so."""
    event = row.a.answering_event()
    return 0 if event is None else int(row.a.oracle.frame[event])


def next_turn_frame(row: TokenRow) -> int | None:
    """The frame of the first event after the answering one, in the user's next turn; None where there is none."""
    event, frames = row.a.answering_event(), row.a.oracle.frame
    return None if event is None or event + 1 >= len(frames) else int(frames[event + 1])
