"""Augmentations that change what is said in a training dialogue; `augment_timing.py` has those of the oracle's timing.

Each returns None if the dialogue is not suitable. In the pictures, a line is a speaker and a letter a frame: `Q` the
user's words, `l` the assistant's lead, `a` or `b` its answer, `t` its tail, `.` silence; below them, `A` or `B` where
the oracle with that answer arrives.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kame_model.data.copying import WordPieces
from kame_model.data.splicing import (
    LAST_FRAMES,
    SOUND_FRAMES,
    DialogueSides,
    TokenClip,
    cut_clip,
    find_handover,
    find_quiet_frames,
    find_run,
    find_said_frames,
    is_silent,
    is_user_silent,
    join_at_cuts,
    make_empty_oracle,
    make_silence,
    overlay_clip,
    splice_clip,
)
from kame_model.encode.rows import SpeakerTokens
from kame_model.frames.ids import PADDING_ID, ZERO_ID
from kame_model.frames.inner_monologue import find_words
from kame_model.frames.oracle_stream import OracleTokens

FILLER_PAUSE_FRAMES = (3, 12)
"""Silence before something that is said while there is no oracle yet: a quarter of a second to one second."""


def swap_answer(question: DialogueSides, answer: DialogueSides) -> DialogueSides | None:
    """Joins the question of one dialogue to another's answer, its oracle and everything after it.

    A model that always sees a question with the same answer can memorise the answer and ignore the oracle. Both
    dialogues are cut after the question; oracle events keep their distance from the cut.

        QQQQQ......       QQ..........       QQQQQ.........
        ......lla..   +   ...llbbb.tt.   =   ......llbbb.tt.
            A               B                    B

    Returns:
        The dialogue; None if one of them has no clean cut (`find_handover`).
    """
    cut, other_cut = find_handover(question.own), find_handover(answer.own)
    if cut is None or other_cut is None:
        return None
    return DialogueSides(
        join_at_cuts(question.own, cut, answer.own, other_cut),
        join_at_cuts(question.other, cut, answer.other, other_cut),
    )


def find_answer_span(sides: DialogueSides) -> slice | None:
    """Returns the frames of the answer and of the pause after it, which `replace_answer` replaces.

    None if the words of the answer are not those of its oracle, or the user talks between the question and the end of
    the answer.
    """
    own = sides.own
    found = _find_whole_answer(own)
    if found is None:
        return None
    event, frames = found
    start, last = int(frames[0]), int(frames[-1])
    return slice(start, _find_frame_before_next_word(sides, last)) if is_user_silent(sides, event, last) else None


def replace_answer(sides: DialogueSides, span: slice, utterance: TokenClip) -> DialogueSides | None:
    """Replaces the answer by an utterance of the speech rows, in text, audio and oracle.

    So the model copies new words while it hears itself say them. Right guesses of the oracle get the utterance too,
    other guesses are kept, and so are lead and tail. The user is silent during it, as before and after.

        QQQQQ..............Q       QQQQQ................Q
        ......lllaaa.tt.....   →   ......lllbbbbb..tt.....
            A                          B

    Args:
        sides: the dialogue.
        span: frames to replace, from `find_answer_span`.
        utterance: the new answer.

    Returns:
        The dialogue; None if it has no event with the answer, or the user is never silent, so that there is no silence
            to repeat.
    """
    event = sides.own.find_answering_event()
    changed = None if event is None else _exchange_frames(sides, span, utterance, is_answer=True)
    if event is None or changed is None:
        return None
    own, new_tokens = changed.own, utterance.text[find_words(utterance.text)]
    return changed._replace(own=replace(own, oracle=_replace_event_tokens(own.oracle, event, new_tokens)))


def substitute_answer(sides: DialogueSides, pieces: WordPieces, draw: random.Random) -> DialogueSides | None:
    """Replaces the pieces of the answer by others, in oracle and text; for mixtures without speech rows.

    Each piece of the vocabulary is mapped to another one (pieces that begin a word to each other), in the whole run of
    the oracle and in the answer. The audio of the speaker has other words, so it is neither fed nor learnt there (`~`).

        QQQQQ...........       QQQQQ...........
        ......lllaaa.tt.   →   ......lllbbb~tt.
            A                      B

    Returns:
        The dialogue; None if the words of the answer are not those of its oracle.
    """
    own = sides.own
    found = _find_whole_answer(own)
    if found is None:
        return None
    event, frames = found
    table = _draw_piece_mapping(pieces, draw)
    text, codes, oracle = own.text.copy(), own.codes.copy(), own.oracle
    text[frames] = table[text[frames]]
    later = np.flatnonzero(find_words(own.text[frames[-1] + 1 :]))
    codes[:, frames[0] : int(frames[-1]) + 1 + int(later[0]) if len(later) else len(text)] = ZERO_ID
    run = find_run(oracle, event)
    preds, hints = oracle.pred_values.copy(), oracle.hint_values.copy()
    for values, offsets in ((preds, oracle.pred_offsets), (hints, oracle.hint_offsets)):
        of_run = slice(offsets[run.start], offsets[run.stop])
        values[of_run] = table[values[of_run]]
    oracle = replace(oracle, pred_values=preds, hint_values=hints)
    return sides._replace(own=replace(own, text=text, codes=codes, oracle=oracle))


def stall_answer(sides: DialogueSides, fillers: Sequence[TokenClip], draw: random.Random) -> DialogueSides | None:
    """Removes the oracle, and with it the answer: after the lead come the fillers (`s`), if there are any, and silence.

    If the answer were the target without an oracle, the model would be trained to guess.

        QQQQQ...........       QQQQQ...........
        ......lllaaa.tt.   →   ......lll.ss....
            A

    Args:
        sides: the dialogue.
        fillers: what is said from the start of the answer on, one after the other ("I don't know yet"); may be empty.
            Fillers that do not fit before the end of the dialogue are dropped.
        draw: generator for the pauses.

    Returns:
        The dialogue; None if the answer is not found in the text, the user speaks between the question and the answer,
        or a speaker has no silence to repeat.
    """
    own, other = sides
    found = _find_answer(own)
    if found is None:
        return None
    event, frames = found
    start, end = int(frames[0]), sides.n_frames
    quiet = [find_quiet_frames(each) for each in sides]
    if not all(map(len, quiet)) or not is_user_silent(sides, event, start):
        return None
    said, silence = (make_silence(each, its, start, end - start) for each, its in zip(sides, quiet, strict=True))
    at = 0
    for each in fillers:
        at += draw.randint(*FILLER_PAUSE_FRAMES)
        if start + at + len(each.text) <= end:
            said = overlay_clip(said, each, at)
            at += len(each.text)
    own = splice_clip(own, start, end, said)
    return DialogueSides(replace(own, oracle=make_empty_oracle()), splice_clip(other, start, end, silence))


def append_silence(sides: DialogueSides, n_frames: int) -> DialogueSides | None:
    """Appends silence to a dialogue, so that an answer which was said is not said again.

    A recording ends half a second after its last word, so a model trained only on recordings never sees the time after
    an answer: running freely, a `nano` that had said the right answer repeated it until the recording ended, in 18 of
    24 held-out dialogues. The last silent frames of both speakers are repeated.

        QQQQQ............       QQQQQ..................
        ......lllaaa.tt..   →   ......lllaaa.tt........
            A                       A

    Returns:
        The dialogue; None if it does not end in silence, or `n_frames` is less than 1.
    """
    ends = [each.text[-LAST_FRAMES:] for each in sides]
    if n_frames < 1 or not all(len(each) == LAST_FRAMES and is_silent(each) for each in ends):
        return None
    end = sides.n_frames
    repeated = np.resize(np.arange(end - LAST_FRAMES, end), n_frames)
    text = np.full(n_frames, PADDING_ID, np.int32)
    return DialogueSides(*(splice_clip(each, end, end, TokenClip(text, each.codes[:, repeated])) for each in sides))


def prepend_oracle(utterance: DialogueSides, frame: int, n_before: int) -> DialogueSides | None:
    """Turns a row of speech into an exchange: silence, an oracle with the words of the utterance, the utterance.

    The silence is copied from the quiet frames of the row.

        ..........       ................
        aaa.aa....   →   ......aaa.aa....
                           A

    Args:
        utterance: the row, without an oracle of its own.
        frame: the frame of the exchange, counted from its start, at which the oracle arrives.
        n_before: frames of silence that are put before the row.

    Returns:
        The exchange; None if nothing is said in the row, or one of its sides has no quiet frames to copy.
    """
    own, other = utterance
    words = find_words(own.text)
    quiet = [find_quiet_frames(each) for each in utterance]
    if not all(map(len, quiet)) or not words.any():
        return None
    before, silence = (
        make_silence(each, its, utterance.n_frames, n_before) for each, its in zip(utterance, quiet, strict=True)
    )
    said = own.text[words].tolist()
    event = OracleTokens.pack([frame], [1.0], [5], [True], [said], [said])
    own = splice_clip(replace(own, answer_mask=words), 0, 0, before)
    return DialogueSides(replace(own, oracle=event), splice_clip(other, 0, 0, silence))


def exchange_lead(sides: DialogueSides, lead: TokenClip) -> DialogueSides | None:
    """Replaces the lead by that of another dialogue, so that leads are not memorised with their questions.

        QQQQQ...........       QQQQQ..............
        ......lllaaa.tt.   →   ......mmmmm.aaa.tt.
            A                      A

    Args:
        sides: the dialogue.
        lead: the other lead, from `cut_lead`.

    Returns:
        The dialogue; None if it has no lead, or the user talks from the end of the question to the answer or is never
            silent.
    """
    own, place, event = sides.own, _find_lead(sides.own), sides.own.find_answering_event()
    if place is None or event is None or not is_user_silent(sides, event, place.stop):
        return None
    said = place.start + np.flatnonzero(find_words(own.text[place]))
    return _exchange_frames(sides, slice(int(said[0]), place.stop), lead) if len(said) else None


def exchange_tail(sides: DialogueSides, tail: TokenClip) -> DialogueSides | None:
    """Replaces the tail by that of another dialogue, so that tails are not memorised with their answers.

        QQQQQ...........       QQQQQ...........
        ......lllaaa.tt.   →   ......lllaaa.u..
            A                      A

    Args:
        sides: the dialogue.
        tail: the other tail, from `cut_tail`.

    Returns:
        The dialogue; None if it has no whole tail (`cut_tail`), or the user is never silent.
    """
    place = _find_tail(sides)
    return None if place is None else _exchange_frames(sides, place, tail)


def cut_lead(sides: DialogueSides) -> TokenClip | None:
    """Returns the lead: what the speaker to learn says between the question and the answer.

    None if nothing is said there, or question or answer are not found.
    """
    own, place = sides.own, _find_lead(sides.own)
    return None if place is None else cut_clip(own.text[place], own.codes[:, place])


def cut_tail(sides: DialogueSides) -> TokenClip | None:
    """Returns the tail: what the speaker to learn says after the answer and before the user speaks again.

    None if nothing is said there, the answer is not found or not complete, or the last word of the tail is not over
    before the user speaks or the dialogue ends.
    """
    own, place = sides.own, _find_tail(sides)
    return None if place is None else TokenClip(own.text[place], own.codes[:, place])


class _Answer(NamedTuple):
    """The event whose tokens are the answer, and the frames of the text that say them."""

    event: int
    frames: NDArray[np.int64]


def _find_answer(own: SpeakerTokens) -> _Answer | None:
    """Returns the answer as far as it is said (an interruption may cut it); None if it is not found."""
    event = own.find_answering_event()
    frames = None if event is None else find_said_frames(own, event)
    return None if event is None or frames is None else _Answer(event, frames)


def _find_whole_answer(own: SpeakerTokens) -> _Answer | None:
    """Returns the answer; None if it is not found, or if not all of its tokens are said."""
    found = _find_answer(own)
    return None if found is None or len(found.frames) < len(own.oracle.get_fed(found.event)) else found


def _find_lead(own: SpeakerTokens) -> slice | None:
    """Returns the frames between the question and the first word of the answer; None if one of them is not found."""
    cut, found = find_handover(own), _find_answer(own)
    return None if cut is None or found is None else slice(cut, int(found.frames[0]))


def _find_tail(sides: DialogueSides) -> slice | None:
    """Returns the frames from the first word of the tail until its last one is over; None as in `cut_tail`."""
    own, other = sides
    found = _find_whole_answer(own)
    if found is None:
        return None
    after = int(found.frames[-1]) + 1
    user_words = np.flatnonzero(find_words(other.text[after:]))
    end = after + int(user_words[0]) if len(user_words) else sides.n_frames
    said = after + np.flatnonzero(find_words(own.text[after:end]))
    stop = int(said[-1]) + 1 + SOUND_FRAMES[1] if len(said) else end
    return slice(int(said[0]), stop) if len(said) and stop <= end else None


def _exchange_frames(
    sides: DialogueSides, place: slice, clip: TokenClip, *, is_answer: bool = False
) -> DialogueSides | None:
    """Replaces frames by a clip, during which the other speaker is silent; None if it has no silence to repeat.

    `is_answer` is whether the words of the clip are the answer.
    """
    own, other = sides
    quiet = find_quiet_frames(other)
    if len(quiet) == 0:
        return None
    silence = make_silence(other, quiet, place.start, len(clip.text))
    return DialogueSides(
        splice_clip(own, place.start, place.stop, clip, is_answer=is_answer),
        splice_clip(other, place.start, place.stop, silence),
    )


def _find_frame_before_next_word(sides: DialogueSides, last: int) -> int:
    """Returns the frame before the next word of either speaker after `last`; the number of frames if there is none.

    The returned frame is always after `last`.
    """
    later = [np.flatnonzero(find_words(each.text[last + 1 :])) for each in sides]
    return min([max(last + 1, last + int(each[0])) for each in later if len(each)], default=sides.n_frames)


def _replace_event_tokens(oracle: OracleTokens, event: int, new_tokens: NDArray[np.int32]) -> OracleTokens:
    """Returns the oracle with new tokens `new_tokens` in each prediction and hint of a run that equals that of `event`.

    Args:
        oracle: all events.
        event: an event of the run.
        new_tokens: the new tokens.
    """
    run, before = find_run(oracle, event), oracle.get_fed(event)

    def replace_tokens(at: int, tokens: NDArray[np.int32]) -> list[int]:
        is_replaced = run.start <= at < run.stop and np.array_equal(tokens, before)
        found: list[int] = (new_tokens if is_replaced else tokens).tolist()
        return found

    return OracleTokens.pack(
        frame=oracle.frame.tolist(),
        ratio=oracle.ratio.tolist(),
        level=oracle.level.tolist(),
        skip_forbid=oracle.skip_forbid.tolist(),
        preds=[replace_tokens(at, oracle.get_pred(at)) for at in range(len(oracle))],
        hints=[replace_tokens(at, oracle.get_hint(at)) for at in range(len(oracle))],
    )


def _draw_piece_mapping(pieces: WordPieces, draw: random.Random) -> NDArray[np.int32]:
    """Returns int32[text_card + 1], a random new id for each id; ids that are not pieces are mapped to themselves."""
    generator = np.random.default_rng(draw.getrandbits(64))
    table = np.arange(pieces.text_card + 1, dtype=np.int32)
    for kind in (pieces.first, pieces.more):
        among = np.asarray(kind, np.int32)
        table[among] = generator.permutation(among)
    return table
