"""Dialogues joined anew, so that the oracle tells what to say and nothing else does.

A model that meets each question with one answer can learn the answer by heart and ignore its oracle. Here the
assistant's sound, text and oracle, and all that follows, come from another dialogue: both are cut where the question
has been said, and the first half of one is joined to the second half of the other. The oracle events of the question's
half are the other dialogue's too, at the same distance from the cut.

No dialogue of the corpus has an answer that turns out wrong while it is said, yet a server feeds such oracles. So for a
share of examples a second answer takes the first one's place in its middle, a moment after its oracle has come.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kame_model.encode.rows import SpeakerTokens
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID
from kame_model.frames.oracle_stream import OracleTokenEvent, OracleTokens

Scalar = TypeVar("Scalar", bound=np.generic)

QUIET_FRAMES = 6
"""How long the speaker learnt must have been silent before the cut: half a second, so that no word of theirs is cut."""


NOTICE_FRAMES = (6, 12)
"""From the news of another answer to the change: half a second to a second, in which the word at hand is said to its
end. The news is no part of the stream that training shifts: later than this, the answer would change before it."""


class Sides(NamedTuple):
    """A dialogue from one speaker's side: whom the model is to be, and whom it hears."""

    own: SpeakerTokens
    other: SpeakerTokens


class Corrected(NamedTuple):
    """A dialogue whose answer changes in its middle.

    Attributes:
        sides: with the first answer's oracle, as it was before the news.
        news: events from the news on, at the very frames at which they come; they clear what is left of the first's.
    """

    sides: Sides
    news: list[OracleTokenEvent]


def handover(own: SpeakerTokens) -> int | None:
    """The frame after which the question has been said and the answer not begun: that after the event which knows it.

    None where there is no such event, or where the speaker learnt talks by then (a lead over the question's end).
    """
    event = own.answering_event()
    if event is None:
        return None
    cut = int(own.oracle.frame[event]) + 1
    before = own.text[max(0, cut - QUIET_FRAMES) : cut]
    return cut if is_silent(before) else None


def is_silent(text: NDArray[np.int32]) -> bool:
    """Whether no word is said in these frames of somebody's text."""
    return bool(np.isin(text, (PADDING_ID, END_OF_PADDING_ID)).all())


def swapped(question: Sides, answer: Sides) -> Sides | None:
    """The question of one dialogue with the answer of another; None where one of them has no clean cut."""
    cut, other_cut = handover(question.own), handover(answer.own)
    if cut is None or other_cut is None:
        return None
    return Sides(
        _joined(question.own, cut, answer.own, other_cut), _joined(question.other, cut, answer.other, other_cut)
    )


def corrected(first: Sides, second: Sides, draw: random.Random) -> Corrected | None:
    """A dialogue whose answer changes to another dialogue's between two of its words.

    The last oracle of the second's question comes `NOTICE_FRAMES` before the change; before it stand the first's.

    Args:
        draw: where in the answer it changes, and how long before that the news comes.

    Returns:
        None where the answer has no pause to change in, or the second has no clean cut.
    """
    cut = handover(second.own)
    answer = np.flatnonzero(first.own.answer_mask)
    if cut is None or len(answer) == 0:
        return None
    pauses = np.flatnonzero(first.own.text[: answer[-1]] == END_OF_PADDING_ID)
    pauses = pauses[pauses > answer[0] + NOTICE_FRAMES[1]]
    if len(pauses) == 0:
        return None
    change = int(pauses[draw.randrange(len(pauses))])
    news_frame = change - draw.randint(*NOTICE_FRAMES)
    before, after = first.own.oracle, moved(second.own.oracle, change - cut)
    kept = [
        (before, event, int(before.frame[event])) for event in range(len(before)) if before.frame[event] < news_frame
    ]
    known = [event for event in range(len(after)) if after.ratio[event] >= 1 and after.frame[event] < change][-1:]
    later = [event for event in range(len(after)) if after.frame[event] >= change]
    news = [(news_frame, after.said(event).tolist()) for event in known]
    news += [(int(after.frame[event]), after.said(event).tolist()) for event in later]
    own = replace(_joined(first.own, change, second.own, cut), oracle=_packed(kept))
    return Corrected(Sides(own, _joined(first.other, change, second.other, cut)), news)


def moved(oracle: OracleTokens, n_frames: int) -> OracleTokens:
    """Events later by `n_frames`, or earlier where that is negative; what would come before frame 0 is left out."""
    frames = (oracle.frame + n_frames).tolist()
    return _packed([(oracle, event, frame) for event, frame in enumerate(frames) if frame >= 0])


def _packed(events: Sequence[tuple[OracleTokens, int, int]]) -> OracleTokens:
    """Events of any streams, each at a frame of its own."""
    return OracleTokens.pack(
        frame=[frame for _, _, frame in events],
        ratio=[float(oracle.ratio[event]) for oracle, event, _ in events],
        level=[int(oracle.level[event]) for oracle, event, _ in events],
        skip_forbid=[bool(oracle.skip_forbid[event]) for oracle, event, _ in events],
        preds=[oracle.pred(event).tolist() for oracle, event, _ in events],
        hints=[oracle.hint(event).tolist() for oracle, event, _ in events],
    )


def _joined(first: SpeakerTokens, cut: int, second: SpeakerTokens, second_cut: int) -> SpeakerTokens:
    """Frames before `cut` of one and from `second_cut` on of the other, with the other's oracle."""

    def join(one: NDArray[Scalar], other: NDArray[Scalar]) -> NDArray[Scalar]:
        return np.concatenate([one[..., :cut], other[..., second_cut:]], axis=-1)

    return replace(
        second,
        text=join(first.text, second.text),
        codes=join(first.codes, second.codes),
        answer_mask=join(first.answer_mask, second.answer_mask),
        oracle=moved(second.oracle, cut - second_cut),
    )
