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


def script_for(row: TokenRow, stranger: TokenRow, condition: Condition, delay_frames: int) -> Script:
    """The script of one dialogue under a condition.

    Args:
        row: the dialogue; the model is to be its speaker A.
        stranger: whose oracle the wrong one is, moved so that both questions end together.
        delay_frames: how long a back-end takes; the same for all events.
    """
    right = row.a.oracle.events()
    wrong = aligned(stranger.a, row.a)
    events = {"right": right, "none": [], "wrong": wrong, "corrected": wrong}[condition]
    last = answering_event(row)
    correction = [] if condition != "corrected" or last is None else row.a.oracle.said(last).tolist()
    return Script(row.b.codes, shifted(events, delay_frames), question_end_frame(row), correction)


def answering_event(row: TokenRow) -> int | None:
    """The event that knows the row's answer: of those that had heard all of a question (a greeting and a follow-up have
    one too) the last before the answer's words. None where there is none.
    """
    oracle = row.a.oracle
    answers = row.a.answer_mask.nonzero()[0]
    before = int(answers[0]) if len(answers) else row.n_frames
    heard = ((oracle.ratio >= 1) & (oracle.frame < before)).nonzero()[0]
    return int(heard[-1]) if len(heard) else None


def question_end_frame(row: TokenRow) -> int:
    """The frame in which the question that the row's answer is for has been heard; 0 where no event says so."""
    event = answering_event(row)
    return 0 if event is None else int(row.a.oracle.frame[event])


def next_turn_frame(row: TokenRow) -> int | None:
    """The frame of the first event after the answering one, in the user's next turn; None where there is none."""
    event, frames = answering_event(row), row.a.oracle.frame
    return None if event is None or event + 1 >= len(frames) else int(frames[event + 1])
