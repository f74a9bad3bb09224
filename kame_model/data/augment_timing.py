"""When an oracle comes, and what a dialogue makes of it in training; the pictures are those of `augment.py`."""

import random
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data_schemas.guesses import Guesses
from kame_model.data.oracle_feed import Fed, apply_guesses
from kame_model.data.splicing import (
    Clip,
    Sides,
    handover,
    has_been_asked,
    joined,
    laid_over,
    quiet_frames,
    run_of,
    silence,
    spliced,
    told_frames,
)
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID

NOTICE_FRAMES = (6, 12)
"""From the news of another answer to the change: half a second to a second, in which the word at hand is said to its
end. The news is no part of the stream that training shifts: later than this, the answer would change before it."""

ANSWER_LAG_FRAMES = (1, 8)
"""From the feeding of a token that had to be waited for to its saying."""

FILLER_SILENCE_FRAMES = (3, 9)
"""Silence at least before and behind what is said in a wait, a quarter of a second; and how much more there may be
before it."""


class Wait(NamedTuple):
    """Silence before a frame of an answer: before its first word, or once it is begun."""

    frame: int
    n_frames: int
    is_begun: bool


class FedDialogue(NamedTuple):
    """A dialogue, and the oracle as it comes to it."""

    sides: Sides
    fed: list[Fed]


def delayed(
    sides: Sides,
    fed: list[Fed],
    n_spare: int,
    draw: random.Random,
    *,
    fillers: Iterable[Clip] = (),
    begins_word: NDArray[np.bool_] | None = None,
) -> FedDialogue:
    """The dialogue with each answer said when its oracle has come, where the recording says it sooner.

    Without it such an answer would have been told by nothing. The lead stretches, by silence or by another one; where
    the oracle comes with gaps the answer waits between its words too. Both speakers are silent meanwhile.

        QQQQQ...........       QQQQQ.................
        ......lllaaa.tt.   →   ......lll..ll.a..aa.tt.
            A        A-AA                    A-AA

    What does not fit, and where the user talks, makes the back-end quicker.

    Args:
        fed: the oracle as it comes; its frames are those of the recording.
        n_spare: frames by which the dialogue may grow.
        fillers: of which the first may be said in a wait before an answer.
        begins_word: bool[text_card + 1], whether a piece begins a word; None: an answer once begun does not wait.
    """
    own = sides.own
    coming = {each.event: each for each in fed}
    waits: list[Wait] = []
    for event in np.flatnonzero(own.oracle.skip_forbid).tolist():
        if event not in coming or coming[event].is_as_recorded(own.oracle):
            continue
        frames = told_frames(own, event)
        if frames is None:
            continue
        late = np.asarray(coming[event].token_positions()[: len(frames)]) - frames
        if late.max() <= 0:
            continue
        late += draw.randint(*ANSWER_LAG_FRAMES)
        may_wait = has_been_asked(sides, event, int(frames[-1])) and all(map(len, map(quiet_frames, sides)))
        n_quicker = max(0, int(late.max()) - (n_spare if may_wait else 0))
        fed = _made_quicker(fed, run_of(own.oracle, event), n_quicker)
        of_answer = _waits(own.text, frames, late - n_quicker, begins_word)
        n_spare -= sum(each.n_frames for each in of_answer)
        waits += of_answer
    return _with_waits(sides, fed, waits, fillers, draw) if waits else FedDialogue(sides, fed)


def corrected(
    sides: Sides,
    fed: list[Fed],
    second: Sides,
    draw: random.Random,
    begins_word: NDArray[np.bool_] | None = None,
    guesses: Guesses = "feed",
) -> FedDialogue | None:
    """The dialogue with another one's answer in the middle of its own, a moment after that one's oracle has come.

    No dialogue of the corpus has an answer that turns out wrong while it is said, yet a server feeds such oracles. The
    change is between two of the answer's words, the news `NOTICE_FRAMES` before it.

        QQQQQ...........       QQ..........       QQQQQ...............
        ......llaaaaa.t.   +   ...llbbb.tt.   =   ......llaa.llbbb.tt.
            A                    B                    A    B

    Args:
        sides, fed: the first answer, and its oracle as it comes; of that all from the news on is lost.
        second: whose last oracle before its answer is the news.
        draw: where in the answer it changes, and how long before that the news comes.
        begins_word: as `delayed` has it; None: the change may be in a word that is said slowly.
        guesses: how answers to later questions that are not finished are treated.

    None where the answer has no pause to change in, or the second has no clean cut.
    """
    cut = handover(second.own)
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
    own, other = joined(sides.own, change, second.own, cut), joined(sides.other, change, second.other, cut)
    after = own.oracle
    known = np.flatnonzero((after.ratio >= 1) & (after.frame < change))[-1:].tolist()
    later = np.flatnonzero(after.frame >= change).tolist()
    news = [Fed(-1, news_frame, after.said(event).tolist()) for event in known]
    asked = [Fed(event, int(after.frame[event]), after.said(event).tolist()) for event in later]
    news += [each._replace(event=-1) for each in apply_guesses(after, asked, guesses)]
    return FedDialogue(Sides(own, other), [each for each in fed if each.frame < news_frame] + news)


def _waits(
    text: NDArray[np.int32], frames: NDArray[np.int64], late: NDArray[np.int64], begins_word: NDArray[np.bool_] | None
) -> list[Wait]:
    """Where an answer waits: before its first word, and between words after a pause.

    Args:
        frames: of its tokens.
        late: by how many frames each is said too soon.
    """
    places = [0]
    if begins_word is not None:
        follows_pause = np.diff(frames) > 1
        places += (1 + np.flatnonzero(follows_pause & begins_word[text[frames[1:]]])).tolist()
    waits: list[Wait] = []
    n_waited = 0
    for place, stop in zip(places, [*places[1:], len(frames)], strict=True):
        n_more = int(late[place:stop].max()) - n_waited
        if n_more > 0:
            first = int(frames[place])
            is_announced = first > 0 and text[first - 1] in (PADDING_ID, END_OF_PADDING_ID)
            waits.append(Wait(first - is_announced, n_more, is_begun=place > 0))
            n_waited += n_more
    return waits


def _made_quicker(fed: list[Fed], run: slice, n_frames: int) -> list[Fed]:
    """The oracle with the events of one run earlier."""
    return [
        each._replace(frame=max(0, each.frame - n_frames)) if run.start <= each.event < run.stop else each
        for each in fed
    ]


def _with_waits(
    sides: Sides, fed: list[Fed], waits: list[Wait], fillers: Iterable[Clip], draw: random.Random
) -> FedDialogue:
    """Silence put into a dialogue before some of its frames, a filler in the first before an answer if that has room.

    An event that is asked for behind a wait comes later by it.
    """
    asked = sides.own.oracle.frame
    fed = [each._replace(frame=each.frame + sum(n for at, n, _ in waits if at <= asked[each.event])) for each in fed]
    first = next((each for each in waits if not each.is_begun and each.n_frames > 2 * FILLER_SILENCE_FRAMES[0]), None)
    filler = next(iter(fillers), None) if first is not None else None
    quiet = [quiet_frames(each) for each in sides]
    own, other = sides
    for wait in reversed(waits):  # the last first: frames before it stay
        at, n_frames, _ = wait
        said, meanwhile = (silence(each, its, at, n_frames) for each, its in zip(sides, quiet, strict=True))
        if filler is not None and wait is first:
            least, more = FILLER_SILENCE_FRAMES
            n_spare = n_frames - len(filler.text) - 2 * least
            if n_spare >= 0:
                said = laid_over(said, filler, least + draw.randint(0, min(n_spare, more)))
        own, other = spliced(own, at, at, said), spliced(other, at, at, meanwhile)
    return FedDialogue(Sides(own, other), fed)
