"""What is said in a dialogue changed for training: each augmentation a function of it and of what is drawn.

Each gives None where the dialogue does not lend itself to it; `augment_timing.py` has those of when the oracle comes.
In the pictures a line is a speaker, a letter a frame: `Q` the user's words, `l` the assistant's lead, `a` or `b` its
answer, `t` what it says behind it, `.` silence, and under them where the oracle tells `a` or `b`.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kame_model.data.copying import Pieces
from kame_model.data.splicing import (
    LAST_FRAMES,
    Clip,
    Sides,
    clip_of,
    handover,
    has_been_asked,
    is_silent,
    joined,
    laid_over,
    make_empty_oracle,
    quiet_frames,
    run_of,
    silence,
    spliced,
    told_frames,
)
from kame_model.frames.ids import PADDING_ID, ZERO_ID
from kame_model.frames.inner_monologue import find_words
from kame_model.frames.oracle_stream import OracleTokens

FILLER_PAUSE_FRAMES = (3, 12)
"""Silence before something that is said while the oracle is not there yet: a quarter of a second to one."""


def swapped(question: Sides, answer: Sides) -> Sides | None:
    """The question of one dialogue with the answer of another, its oracle, and all that follows it.

    A model that meets each question with one answer can learn the answer by heart and ignore its oracle. Both dialogues
    are cut where the question has been said; oracle events keep their distance from there.

        QQQQQ......       QQ..........       QQQQQ.........
        ......lla..   +   ...llbbb.tt.   =   ......llbbb.tt.
            A               B                    B

    None where one of them has no clean cut (`handover`).
    """
    cut, other_cut = handover(question.own), handover(answer.own)
    if cut is None or other_cut is None:
        return None
    return Sides(joined(question.own, cut, answer.own, other_cut), joined(question.other, cut, answer.other, other_cut))


def answer_span(sides: Sides) -> slice | None:
    """The frames of the answer and of the pause behind it, which `spoken` replaces.

    None where the answer's words are not those of its oracle, or the user talks while they are said.
    """
    own = sides.own
    event = own.answering_event()
    frames = None if event is None else told_frames(own, event)
    if event is None or frames is None or len(frames) < len(own.oracle.said(event)):
        return None
    start, last = int(frames[0]), int(frames[-1])
    return slice(start, _find_next_word(sides, last)) if has_been_asked(sides, event, last) else None


def spoken(sides: Sides, span: slice, utterance: Clip) -> Sides | None:
    """The dialogue with an utterance of the speech rows for its answer, as text and as sound; the oracle tells it.

    So new words are copied while the model hears itself say them. Guesses that were right tell the utterance too, other
    guesses stay. Lead and tail stay; the user is silent meanwhile as before and after.

        QQQQQ..............Q       QQQQQ................Q
        ......lllaaa.tt.....   →   ......lllbbbbb..tt.....
            A                          B

    Args:
        span: of `answer_span`.

    None where the user's words leave no silence to be repeated.
    """
    own, other = sides
    event, quiet = own.answering_event(), quiet_frames(other)
    if event is None or len(quiet) == 0:
        return None
    start, stop = span.start, span.stop
    meanwhile = silence(other, quiet, start, len(utterance.text))
    told = utterance.text[find_words(utterance.text)]
    changed = spliced(own, start, stop, utterance, is_answer=True)
    return Sides(
        replace(changed, oracle=_replace_event_tokens(changed.oracle, event, told)),
        spliced(other, start, stop, meanwhile),
    )


def substituted(sides: Sides, pieces: Pieces, draw: random.Random) -> Sides | None:
    """The dialogue with its answer in other pieces, in oracle and text alike: `spoken` where there are no speech rows.

    Each piece of the vocabulary stands for another one, a beginning of a word for a beginning, in the whole run of the
    oracle and in the answer. What the speaker is heard to say is not those words; so while they are said, their sound
    (`~`) is neither fed nor learnt.

        QQQQQ...........       QQQQQ...........
        ......lllaaa.tt.   →   ......lllbbb~tt.
            A                      B

    None where the answer's words are not those of its oracle.
    """
    own = sides.own
    event = own.answering_event()
    frames = None if event is None else told_frames(own, event)
    if event is None or frames is None or len(frames) < len(own.oracle.said(event)):
        return None
    table = _draw_table(pieces, draw)
    text, codes, oracle = own.text.copy(), own.codes.copy(), own.oracle
    text[frames] = table[text[frames]]
    later = np.flatnonzero(find_words(own.text[frames[-1] + 1 :]))
    codes[:, frames[0] : int(frames[-1]) + 1 + int(later[0]) if len(later) else len(text)] = ZERO_ID
    run = run_of(oracle, event)
    preds, hints = oracle.pred_values.copy(), oracle.hint_values.copy()
    for values, offsets in ((preds, oracle.pred_offsets), (hints, oracle.hint_offsets)):
        of_run = slice(offsets[run.start], offsets[run.stop])
        values[of_run] = table[values[of_run]]
    oracle = replace(oracle, pred_values=preds, hint_values=hints)
    return sides._replace(own=replace(own, text=text, codes=codes, oracle=oracle))


def stalled(sides: Sides, fillers: Sequence[Clip], draw: random.Random) -> Sides | None:
    """The dialogue without any oracle, and so without an answer: its lead, then a stall, then silence to its end.

    With the answer for a target, whoever has no oracle would be taught to guess.

        QQQQQ...........       QQQQQ...........
        ......lllaaa.tt.   →   ......lll.ss....
            A

    Args:
        fillers: what is said from the answer's place on, one after the other ("I don't know yet"); maybe nothing. One
            that does not fit before the dialogue's end is left out.

    None where the answer is not found in the text, or somebody's words leave no silence to be repeated.
    """
    own, other = sides
    event = own.answering_event()
    frames = None if event is None else told_frames(own, event)
    if event is None or frames is None:
        return None
    start, end = int(frames[0]), sides.n_frames
    quiet = [quiet_frames(each) for each in sides]
    if not all(map(len, quiet)) or not has_been_asked(sides, event, start):
        return None
    said, meanwhile = (silence(each, its, start, end - start) for each, its in zip(sides, quiet, strict=True))
    at = 0
    for each in fillers:
        at += draw.randint(*FILLER_PAUSE_FRAMES)
        if start + at + len(each.text) <= end:
            said = laid_over(said, each, at)
            at += len(each.text)
    own = spliced(own, start, end, said)
    return Sides(replace(own, oracle=make_empty_oracle()), spliced(other, start, end, meanwhile))


def waiting(sides: Sides, n_frames: int) -> Sides | None:
    """The dialogue with silence behind it, so that an answer which has been said is not said again.

    A recording ends half a second after its last word, and what had trained on such recordings alone never met the time
    after an answer: running freely, a `nano` that had said the right answer said it again until the recording ended, in
    18 of 24 held-out dialogues. The last silent frames of both speakers are repeated.

        QQQQQ............       QQQQQ..................
        ......lllaaa.tt..   →   ......lllaaa.tt........
            A                       A

    None where it does not end in silence.
    """
    ends = [each.text[-LAST_FRAMES:] for each in sides]
    if n_frames < 1 or not all(len(each) == LAST_FRAMES and is_silent(each) for each in ends):
        return None
    end = sides.n_frames
    repeated = np.resize(np.arange(end - LAST_FRAMES, end), n_frames)
    text = np.full(n_frames, PADDING_ID, np.int32)
    return Sides(*(spliced(each, end, end, Clip(text, each.codes[:, repeated])) for each in sides))


def told(utterance: Sides, frame: int, n_before: int) -> Sides | None:
    """A speech row as an exchange: silence, an oracle that tells the utterance, the utterance.

        ..........       ................
        aaa.aa....   →   ......aaa.aa....
                           A

    Args:
        utterance: the row, without an oracle of its own.
        frame: at which the oracle comes.
        n_before: frames of silence before the row.

    None where nothing is said in it, or there is no silence.
    """
    own, other = utterance
    words = find_words(own.text)
    quiet = [quiet_frames(each) for each in utterance]
    if not all(map(len, quiet)) or not words.any():
        return None
    before, meanwhile = (
        silence(each, its, utterance.n_frames, n_before) for each, its in zip(utterance, quiet, strict=True)
    )
    said = own.text[words].tolist()
    event = OracleTokens.pack([frame], [1.0], [5], [True], [said], [said])
    own = spliced(replace(own, answer_mask=words), 0, 0, before)
    return Sides(replace(own, oracle=event), spliced(other, 0, 0, meanwhile))


def lead_of(sides: Sides) -> Clip | None:
    """What the speaker learnt says between the question's end and the answer; None where nothing is."""
    own, cut = sides.own, handover(sides.own)
    event = own.answering_event()
    frames = None if cut is None or event is None else told_frames(own, event)
    if cut is None or frames is None:
        return None
    return clip_of(own.text[cut : frames[0]], own.codes[:, cut : frames[0]])


def _find_next_word(sides: Sides, last: int) -> int:
    """The frame before the first word of either speaker after a frame; the end where there is none."""
    later = [np.flatnonzero(find_words(each.text[last + 1 :])) for each in sides]
    return min([max(last + 1, last + int(each[0])) for each in later if len(each)], default=sides.n_frames)


def _replace_event_tokens(oracle: OracleTokens, event: int, told: NDArray[np.int32]) -> OracleTokens:
    """The events of one run with other tokens wherever they told what `event` does."""
    run, before = run_of(oracle, event), oracle.said(event)

    def tell(at: int, tokens: NDArray[np.int32]) -> list[int]:
        is_told = run.start <= at < run.stop and np.array_equal(tokens, before)
        found: list[int] = (told if is_told else tokens).tolist()
        return found

    return OracleTokens.pack(
        frame=oracle.frame.tolist(),
        ratio=oracle.ratio.tolist(),
        level=oracle.level.tolist(),
        skip_forbid=oracle.skip_forbid.tolist(),
        preds=[tell(at, oracle.pred(at)) for at in range(len(oracle))],
        hints=[tell(at, oracle.hint(at)) for at in range(len(oracle))],
    )


def _draw_table(pieces: Pieces, draw: random.Random) -> NDArray[np.int32]:
    """By id the id that stands for it; what is no piece of a word stands for itself."""
    generator = np.random.default_rng(draw.getrandbits(64))
    table = np.arange(pieces.text_card + 1, dtype=np.int32)
    for kind in (pieces.first, pieces.more):
        among = np.asarray(kind, np.int32)
        table[among] = generator.permutation(among)
    return table
