"""Under which oracle a held-out dialogue is run: the right one, none, another's, or another's that is put right."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from backends.protocols import Codes
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
"""How long after the answer began a wrong oracle is replaced by the right one."""


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """What one slot of a free run is given.

    Attributes:
        other: int16[n, T], the recorded user's codes.
        events: oracles with the frames at which they come.
        answer_from_frame: from here on a word of the model's is its answer (the question has been heard).
        correction: tokens of an oracle that comes `correction_after_frames` after the answer's first word; none: empty.
    """

    other: Codes
    events: list[OracleTokenEvent]
    answer_from_frame: int
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
    last = row.a.answering_event()
    correction = [] if condition != "corrected" or last is None else row.a.oracle.said(last).tolist()
    return Script(row.b.codes, shifted(events, delay_frames), question_end_frame(row), correction)


def question_end_frame(row: TokenRow) -> int:
    """The frame in which the question that the row's answer is for has been heard; 0 where no event says so."""
    event = row.a.answering_event()
    return 0 if event is None else int(row.a.oracle.frame[event])


def next_turn_frame(row: TokenRow) -> int | None:
    """The frame of the first event after the answering one, in the user's next turn; None where there is none."""
    event, frames = row.a.answering_event(), row.a.oracle.frame
    return None if event is None or event + 1 >= len(frames) else int(frames[event + 1])
