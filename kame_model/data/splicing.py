"""Dialogues cut, joined and lengthened on frames: what the augmentations of training are made of.

Nothing here draws at random, and no array that it is given is changed.
"""

from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from backends.codec.protocol import Codes
from kame_model.encode.rows import SpeakerTokens
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID
from kame_model.frames.inner_monologue import find_words
from kame_model.frames.oracle_stream import OracleTokens

Scalar = TypeVar("Scalar", bound=np.generic)

QUIET_FRAMES = 6
"""How long somebody must have been silent before a cut: half a second, so that no word of theirs is cut."""

SOUND_FRAMES = (-2, 7)
"""Where a token's word may be heard, from the token's frame on: onsets before it, and its length."""

NEAR_FRAMES = 12
"""Quiet frames on either side of a place that are repeated for silence there."""

LAST_FRAMES = 4
"""The end of a dialogue that is repeated for silence behind it: 0.32 s of the 0.6 s behind its last word."""

N_SURE_TOKENS = 4
"""Tokens in a row by which the words of an oracle are found in a text: a lead may hold one or two of them."""


class Sides(NamedTuple):
    """A dialogue from one speaker's side: whom the model is to be, and whom it hears."""

    own: SpeakerTokens
    other: SpeakerTokens

    @property
    def n_frames(self) -> int:
        """Frames of the dialogue."""
        return len(self.own.text)


class Clip(NamedTuple):
    """Something that the speaker learnt says by itself, from its first word on: int32[T] and int16[n_codebooks, T]."""

    text: NDArray[np.int32]
    codes: Codes


def is_silent(text: NDArray[np.int32]) -> bool:
    """Whether no word is said in these frames of somebody's text."""
    return not find_words(text).any()


def handover(own: SpeakerTokens) -> int | None:
    """The frame after which the question has been said and the answer not begun: that after the event which knows it.

    None where there is no such event, or where the speaker learnt talks by then (a lead over the question's end).
    """
    event = own.answering_event()
    if event is None:
        return None
    cut = int(own.oracle.frame[event]) + 1
    return cut if is_silent(own.text[max(0, cut - QUIET_FRAMES) : cut]) else None


def run_of(oracle: OracleTokens, event: int) -> slice:
    """The events of one turn, that of `event` among them; other runs tell of what is said in other turns."""
    lasts = np.flatnonzero(oracle.skip_forbid)
    before, after = lasts[lasts < event], lasts[lasts >= event]
    return slice(int(before[-1]) + 1 if len(before) else 0, int(after[0]) + 1 if len(after) else len(oracle))


def has_been_asked(sides: Sides, event: int, until: int) -> bool:
    """Whether the user says nothing more from an event, which comes at the question's end, until after a frame."""
    return is_silent(sides.other.text[int(sides.own.oracle.frame[event]) + 1 : until + 1])


def told_frames(own: SpeakerTokens, event: int) -> NDArray[np.int64] | None:
    """The frames of the text that say what an event tells, as far as it is said (an answer may be cut off).

    None where the first `N_SURE_TOKENS` of its tokens do not stand in the text after it.
    """
    after = int(own.oracle.frame[event]) + 1
    frames = after + np.flatnonzero(find_words(own.text[after:]))
    said, told = own.text[frames].tolist(), own.oracle.said(event).tolist()
    opening = told[:N_SURE_TOKENS]
    at = next((at for at in range(len(said)) if opening and said[at : at + len(opening)] == opening), None)
    if at is None:
        return None
    differs = (one != other for one, other in zip(said[at:], told, strict=False))
    n_same = next((n for n, is_other in enumerate(differs) if is_other), len(told))
    return frames[at : at + n_same]


def clip_of(text: NDArray[np.int32], codes: Codes) -> Clip | None:
    """What is said in some frames, from its first word to as long as its last may be heard; None where nothing is."""
    words = np.flatnonzero(find_words(text))
    if len(words) == 0:
        return None
    heard = slice(int(words[0]), int(words[-1]) + 1 + SOUND_FRAMES[1])
    return Clip(text[heard], codes[:, heard])


def quiet_frames(side: SpeakerTokens) -> NDArray[np.int64]:
    """Frames at which nothing of a speaker is heard, in their order; none where that one's words leave none."""
    words = np.flatnonzero(find_words(side.text))
    is_quiet = np.ones(len(side.text), np.bool_)
    heard = (words[:, None] + np.arange(SOUND_FRAMES[0], SOUND_FRAMES[1] + 1)).ravel()
    is_quiet[heard[(heard >= 0) & (heard < len(is_quiet))]] = False
    if not is_quiet.any() and is_silent(side.text[-LAST_FRAMES:]):
        is_quiet[-LAST_FRAMES:] = True
    return np.flatnonzero(is_quiet)


def silence(side: SpeakerTokens, quiet: NDArray[np.int64], near: int, n_frames: int) -> Clip:
    """Silence of a speaker as it sounds near a frame: those of the quiet frames, of which there are some, repeated."""
    at = min(int(np.searchsorted(quiet, near)), len(quiet) - 1)
    repeated = np.resize(quiet[max(0, at - NEAR_FRAMES) : at + NEAR_FRAMES], n_frames)
    return Clip(np.full(n_frames, PADDING_ID, np.int32), side.codes[:, repeated])


def laid_over(silent: Clip, clip: Clip, at: int) -> Clip:
    """Silence with something said in it from a frame on; what does not fit before its end is left out."""
    text, codes = silent.text.copy(), silent.codes.copy()
    n_frames = min(len(clip.text), len(text) - at)
    text[at : at + n_frames], codes[:, at : at + n_frames] = clip.text[:n_frames], clip.codes[:, :n_frames]
    return Clip(text, codes)


def spliced(side: SpeakerTokens, start: int, stop: int, clip: Clip, *, is_answer: bool = False) -> SpeakerTokens:
    """The frames from `start` to before `stop` replaced; later frames and oracle events move.

    Args:
        is_answer: whether the clip's words bear the answer.
    """
    n_frames = len(clip.text)
    mask = find_words(clip.text) & is_answer
    frame = side.oracle.frame
    moved_frame = np.where(frame >= stop, frame + n_frames - (stop - start), np.minimum(frame, start + n_frames))

    def put(values: NDArray[Scalar], between: NDArray[Scalar]) -> NDArray[Scalar]:
        return np.concatenate([values[..., :start], between, values[..., stop:]], axis=-1)

    return replace(
        side,
        text=mark_padding_ends(put(side.text, clip.text)),
        codes=put(side.codes, clip.codes),
        answer_mask=put(side.answer_mask, mask),
        oracle=replace(side.oracle, frame=moved_frame.astype(np.int32)),
    )


def joined(first: SpeakerTokens, cut: int, second: SpeakerTokens, second_cut: int) -> SpeakerTokens:
    """Frames before `cut` of one and from `second_cut` on of the other, with the other's oracle.

    Its events keep their distance from the cut; one that would come before the first frame is left out.
    """

    def join(one: NDArray[Scalar], other: NDArray[Scalar]) -> NDArray[Scalar]:
        return np.concatenate([one[..., :cut], other[..., second_cut:]], axis=-1)

    return replace(
        second,
        text=mark_padding_ends(join(first.text, second.text)),
        codes=join(first.codes, second.codes),
        answer_mask=join(first.answer_mask, second.answer_mask),
        oracle=_move_events(second.oracle, cut - second_cut),
    )


def mark_padding_ends(text: NDArray[np.int32]) -> NDArray[np.int32]:
    """A text with the end of padding before each run of tokens that follows padding, and nowhere else."""
    words = find_words(text)
    marked = np.where(words, text, np.int32(PADDING_ID))
    marked[:-1][words[1:] & ~words[:-1]] = END_OF_PADDING_ID
    return marked


def make_empty_oracle() -> OracleTokens:
    """A stream without events."""
    return OracleTokens.pack([], [], [], [], [], [])


def _move_events(oracle: OracleTokens, n_frames: int) -> OracleTokens:
    frame = oracle.frame + np.int32(n_frames)
    n_lost = int(np.searchsorted(frame, 0))
    if n_lost == 0:
        return replace(oracle, frame=frame)
    first_pred, first_hint = oracle.pred_offsets[n_lost], oracle.hint_offsets[n_lost]
    return OracleTokens(
        frame=frame[n_lost:],
        ratio=oracle.ratio[n_lost:],
        level=oracle.level[n_lost:],
        skip_forbid=oracle.skip_forbid[n_lost:],
        pred_values=oracle.pred_values[first_pred:],
        pred_offsets=oracle.pred_offsets[n_lost:] - first_pred,
        hint_values=oracle.hint_values[first_hint:],
        hint_offsets=oracle.hint_offsets[n_lost:] - first_hint,
    )
