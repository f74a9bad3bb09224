"""Augmentations of when an oracle arrives, and how the dialogue responds; `augment.py` explains the pictures."""

import random
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data_schemas.guesses import Guesses
from kame_model.data.oracle_feed import FedEvent, apply_guesses
from kame_model.data.splicing import (
    DialogueSides,
    TokenClip,
    find_handover,
    find_quiet_frames,
    find_run,
    find_said_frames,
    is_user_silent,
    join_at_cuts,
    make_silence,
    overlay_clip,
    splice_clip,
)
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID

NOTICE_FRAMES = (6, 12)
"""From the arrival of another answer to the change, half a second to a second, so that the current word is finished.
This oracle is not shifted with the stream: if it were later, the answer would change before it."""

ANSWER_LAG_FRAMES = (1, 8)
"""From the feeding of a token that was waited for until it is said."""

FILLER_SILENCE_FRAMES = (3, 9)
"""Minimum silence before and after what is said in a wait (a quarter of a second), and the maximum of what is added to
it before."""


class AnswerPause(NamedTuple):
    """Silence before a frame of an answer: before its first word, or after it has begun."""

    frame: int
    n_frames: int
    is_begun: bool


class FedDialogue(NamedTuple):
    """A dialogue with the oracle events that are fed to it."""

    sides: DialogueSides
    fed: list[FedEvent]


def delay_answers(
    sides: DialogueSides,
    fed: list[FedEvent],
    n_spare: int,
    draw: random.Random,
    *,
    fillers: Iterable[TokenClip] = (),
    begins_word: NDArray[np.bool_] | None = None,
) -> FedDialogue:
    """Delays each answer until its oracle has arrived, where the recording has the answer earlier.

    Otherwise the answer would be said before any oracle contained it. The lead is extended by silence or by another
    lead; if the oracle has gaps, the answer also waits between its words. Both speakers are silent while it waits.

        QQQQQ...........       QQQQQ.................
        ......lllaaa.tt.   →   ......lll..ll.a..aa.tt.
            A        A-AA                    A-AA

    If the dialogue cannot grow that much, or the user talks, the oracle arrives earlier instead.

    Args:
        sides: the dialogue.
        fed: its oracle events; their frames are those of the recording.
        n_spare: number of frames by which the dialogue may grow.
        draw: generator for lags and fillers.
        fillers: the first of them may be said in a wait before an answer.
        begins_word: bool[text_card + 1], whether a piece begins a word; None: an answer does not wait once it has
            begun.

    Returns:
        The dialogue and its events; `sides` itself if no answer waits, with events that may be earlier.
    """
    own = sides.own
    coming = {each.event: each for each in fed}
    waits: list[AnswerPause] = []
    for event in np.flatnonzero(own.oracle.skip_forbid).tolist():
        if event not in coming or coming[event].is_as_recorded(own.oracle):
            continue
        frames = find_said_frames(own, event)
        if frames is None:
            continue
        fed_positions = coming[event].find_token_positions()
        frames = frames[: len(fed_positions)]  # a withdrawn guess, or a hint, may be shorter than what is said
        late = np.asarray(fed_positions[: len(frames)]) - frames
        if late.max() <= 0:
            continue
        late += draw.randint(*ANSWER_LAG_FRAMES)
        may_wait = is_user_silent(sides, event, int(frames[-1])) and all(map(len, map(find_quiet_frames, sides)))
        n_quicker = max(0, int(late.max()) - (n_spare if may_wait else 0))
        fed = _advance_run(fed, find_run(own.oracle, event), n_quicker)
        of_answer = _find_waits(own.text, frames, late - n_quicker, begins_word)
        n_spare -= sum(each.n_frames for each in of_answer)
        waits += of_answer
    return _insert_waits(sides, fed, waits, fillers, draw) if waits else FedDialogue(sides, fed)


def correct_answer(
    sides: DialogueSides,
    fed: list[FedEvent],
    second: DialogueSides,
    draw: random.Random,
    begins_word: NDArray[np.bool_] | None = None,
    guesses: Guesses = "feed",
) -> FedDialogue | None:
    """Changes a dialogue to another one's answer in the middle of its own, shortly after the other's oracle arrived.

    No dialogue of the corpus has an answer that turns out to be wrong while it is said, but a server feeds such
    oracles. The change is between two words of the answer, `NOTICE_FRAMES` after the new oracle.

        QQQQQ...........       QQ..........       QQQQQ...............
        ......llaaaaa.t.   +   ...llbbb.tt.   =   ......llaa.llbbb.tt.
            A                    B                    A    B

    Args:
        sides, fed: the first answer and its oracle events; events from the new oracle on are dropped.
        second: its last oracle before its answer is the new one.
        draw: generator for the place of the change and the time of the new oracle before it.
        begins_word: as in `delay_answers`; None: the change may be inside a word that is said slowly.
        guesses: how answers to later, unfinished questions are treated.

    Returns:
        The dialogue; None if the answer has no pause in which to change, or the second has no clean cut.
    """
    cut = find_handover(second.own)
    answer = np.flatnonzero(sides.own.answer_mask)
    if cut is None or len(answer) == 0:
        return None
    pauses = np.flatnonzero(sides.own.text[: answer[-1]] == END_OF_PADDING_ID)
    notice = draw.randint(*NOTICE_FRAMES)
    pauses = pauses[pauses > answer[0] + notice]
    if begins_word is not None:
        pauses = pauses[begins_word[sides.own.text[pauses + 1]]]
    if len(pauses) == 0:
        return None
    change = int(pauses[draw.randrange(len(pauses))])
    news_frame = change - notice
    own, other = join_at_cuts(sides.own, change, second.own, cut), join_at_cuts(sides.other, change, second.other, cut)
    after = own.oracle
    known = np.flatnonzero((after.ratio >= 1) & (after.frame < change))[-1:].tolist()
    later = np.flatnonzero(after.frame >= change).tolist()
    news = [FedEvent(-1, news_frame, after.get_fed(event).tolist()) for event in known]
    asked = [FedEvent(event, int(after.frame[event]), after.get_fed(event).tolist()) for event in later]
    news += [each._replace(event=-1) for each in apply_guesses(after, asked, guesses)]
    return FedDialogue(DialogueSides(own, other), [each for each in fed if each.frame < news_frame] + news)


def _find_waits(
    text: NDArray[np.int32], frames: NDArray[np.int64], late: NDArray[np.int64], begins_word: NDArray[np.bool_] | None
) -> list[AnswerPause]:
    """Returns where an answer waits: before its first word, and between words after a pause.

    Args:
        text: the speaker's text.
        frames: frames of the answer's tokens.
        late: number of frames by which each token must be later.
        begins_word: as in `delay_answers`.
    """
    places = [0]
    if begins_word is not None:
        follows_pause = np.diff(frames) > 1
        places += (1 + np.flatnonzero(follows_pause & begins_word[text[frames[1:]]])).tolist()
    waits: list[AnswerPause] = []
    n_waited = 0
    for place, stop in zip(places, [*places[1:], len(frames)], strict=True):
        n_more = int(late[place:stop].max()) - n_waited
        if n_more > 0:
            first = int(frames[place])
            is_announced = first > 0 and text[first - 1] in (PADDING_ID, END_OF_PADDING_ID)
            waits.append(AnswerPause(first - is_announced, n_more, is_begun=place > 0))
            n_waited += n_more
    return waits


def _advance_run(fed: list[FedEvent], run: slice, n_frames: int) -> list[FedEvent]:
    """Returns the events with those of one run moved `n_frames` earlier, but not before frame 0."""
    return [
        each._replace(frame=max(0, each.frame - n_frames)) if run.start <= each.event < run.stop else each
        for each in fed
    ]


def _insert_waits(
    sides: DialogueSides,
    fed: list[FedEvent],
    waits: list[AnswerPause],
    fillers: Iterable[TokenClip],
    draw: random.Random,
) -> FedDialogue:
    """Inserts silence before the frames of the waits; a filler is said in the first long enough one before an answer.

    A filler that does not fit into this wait is left out. An event that is requested after a wait is later by it.
    """
    asked = sides.own.oracle.frame
    fed = [each._replace(frame=each.frame + sum(n for at, n, _ in waits if at <= asked[each.event])) for each in fed]
    first = next((each for each in waits if not each.is_begun and each.n_frames > 2 * FILLER_SILENCE_FRAMES[0]), None)
    filler = next(iter(fillers), None) if first is not None else None
    quiet = [find_quiet_frames(each) for each in sides]
    own, other = sides
    for wait in reversed(waits):  # the last one first, so that earlier frames do not move
        at, n_frames, _ = wait
        said, silence = (make_silence(each, its, at, n_frames) for each, its in zip(sides, quiet, strict=True))
        if filler is not None and wait is first:
            least, more = FILLER_SILENCE_FRAMES
            n_spare = n_frames - len(filler.text) - 2 * least
            if n_spare >= 0:
                said = overlay_clip(said, filler, least + draw.randint(0, min(n_spare, more)))
        own, other = splice_clip(own, at, at, said), splice_clip(other, at, at, silence)
    return FedDialogue(DialogueSides(own, other), fed)
