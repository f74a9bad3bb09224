"""Cuts, joins and extends dialogues on frames, for the augmentations of training.

Nothing here draws at random, and no array that is passed in is changed.
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
"""Minimum silence of a speaker before a cut: half a second, so that no word is cut."""

SOUND_FRAMES = (-2, 7)
"""Where a token's word may be audible, relative to the token's frame: onsets before it, and its length."""

NEAR_FRAMES = 12
"""Quiet frames on either side of a place that are repeated to make silence there."""

LAST_FRAMES = 4
"""The end of a dialogue that is repeated to append silence: 0.32 s of the 0.6 s after its last word."""

N_SURE_TOKENS = 4
"""Number of consecutive tokens by which an oracle's words are found in a text: a lead may contain one or two of
them."""


class DialogueSides(NamedTuple):
    """A dialogue from one speaker's side: the speaker that the model learns, and the one that it hears."""

    own: SpeakerTokens
    other: SpeakerTokens

    @property
    def n_frames(self) -> int:
        """Number of frames of the dialogue."""
        return len(self.own.text)


class TokenClip(NamedTuple):
    """Something that the speaker to learn says, from its first word on: int32[T] and int16[n_codebooks, T]."""

    text: NDArray[np.int32]
    codes: Codes


def is_silent(text: NDArray[np.int32]) -> bool:
    """Returns whether these frames of a speaker's text have no words."""
    return not find_words(text).any()


def find_handover(own: SpeakerTokens) -> int | None:
    """Returns the frame after the question and before the answer: the one after the event of the whole question.

    None if there is no such event, or the speaker to learn is talking then (a lead over the end of the question).
    """
    event = own.find_answering_event()
    if event is None:
        return None
    cut = int(own.oracle.frame[event]) + 1
    return cut if is_silent(own.text[max(0, cut - QUIET_FRAMES) : cut]) else None


def find_run(oracle: OracleTokens, event: int) -> slice:
    """Returns the slice of all events that belong to the same turn of the user as `event`."""
    lasts = np.flatnonzero(oracle.skip_forbid)
    before, after = lasts[lasts < event], lasts[lasts >= event]
    return slice(int(before[-1]) + 1 if len(before) else 0, int(after[0]) + 1 if len(after) else len(oracle))


def is_user_silent(sides: DialogueSides, event: int, until: int) -> bool:
    """Returns whether the user says nothing after the frame of an event up to and including the frame `until`.

    The event is usually at the end of the question.
    """
    return is_silent(sides.other.text[int(sides.own.oracle.frame[event]) + 1 : until + 1])


def find_said_frames(own: SpeakerTokens, event: int) -> NDArray[np.int64] | None:
    """Returns the frames of the text that say an event's tokens, as far as they are said (an answer may be cut off).

    None if the first `N_SURE_TOKENS` tokens are not in the text after the event, or the event has no tokens.
    """
    after = int(own.oracle.frame[event]) + 1
    frames = after + np.flatnonzero(find_words(own.text[after:]))
    said, expected = own.text[frames].tolist(), own.oracle.get_fed(event).tolist()
    opening = expected[:N_SURE_TOKENS]
    at = next((at for at in range(len(said)) if opening and said[at : at + len(opening)] == opening), None)
    if at is None:
        return None
    differs = (one != other for one, other in zip(said[at:], expected, strict=False))
    n_same = next((n for n, is_other in enumerate(differs) if is_other), len(expected))
    return frames[at : at + n_same]


def cut_clip(text: NDArray[np.int32], codes: Codes) -> TokenClip | None:
    """Returns the part of some frames from the first word until the last one is over; None if nothing is said."""
    words = np.flatnonzero(find_words(text))
    if len(words) == 0:
        return None
    heard = slice(int(words[0]), int(words[-1]) + 1 + SOUND_FRAMES[1])
    return TokenClip(text[heard], codes[:, heard])


def find_quiet_frames(side: SpeakerTokens) -> NDArray[np.int64]:
    """Returns the frames at which a speaker is not audible, in order.

    If the speaker's words leave none, the last `LAST_FRAMES` frames are returned if they have no words, else none.
    """
    words = np.flatnonzero(find_words(side.text))
    is_quiet = np.ones(len(side.text), np.bool_)
    heard = (words[:, None] + np.arange(SOUND_FRAMES[0], SOUND_FRAMES[1] + 1)).ravel()
    is_quiet[heard[(heard >= 0) & (heard < len(is_quiet))]] = False
    if not is_quiet.any() and is_silent(side.text[-LAST_FRAMES:]):
        is_quiet[-LAST_FRAMES:] = True
    return np.flatnonzero(is_quiet)


def make_silence(side: SpeakerTokens, quiet: NDArray[np.int64], near: int, n_frames: int) -> TokenClip:
    """Returns silence of a speaker as it sounds near a frame, by repeating quiet frames (at least one must exist)."""
    at = min(int(np.searchsorted(quiet, near)), len(quiet) - 1)
    repeated = np.resize(quiet[max(0, at - NEAR_FRAMES) : at + NEAR_FRAMES], n_frames)
    return TokenClip(np.full(n_frames, PADDING_ID, np.int32), side.codes[:, repeated])


def overlay_clip(silent: TokenClip, clip: TokenClip, at: int) -> TokenClip:
    """Returns a copy of silence with a clip in it from frame `at` on; what does not fit is cut off."""
    text, codes = silent.text.copy(), silent.codes.copy()
    n_frames = min(len(clip.text), len(text) - at)
    text[at : at + n_frames], codes[:, at : at + n_frames] = clip.text[:n_frames], clip.codes[:, :n_frames]
    return TokenClip(text, codes)


def splice_clip(
    side: SpeakerTokens, start: int, stop: int, clip: TokenClip, *, is_answer: bool = False
) -> SpeakerTokens:
    """Returns a speaker with the frames from `start` to before `stop` replaced; later frames and oracle events move.

    An event within the replaced frames keeps its frame, or gets the one after the clip if that is earlier.

    Args:
        side: the speaker.
        start: first frame that is replaced.
        stop: the frame after the last one that is replaced.
        clip: the new frames.
        is_answer: whether the words of the clip are the answer.
    """
    n_frames = len(clip.text)
    mask = find_words(clip.text) & is_answer
    frame = side.oracle.frame
    moved_frame = np.where(frame >= stop, frame + n_frames - (stop - start), np.minimum(frame, start + n_frames))

    def replace_frames(values: NDArray[Scalar], between: NDArray[Scalar]) -> NDArray[Scalar]:
        return np.concatenate([values[..., :start], between, values[..., stop:]], axis=-1)

    return replace(
        side,
        text=mark_padding_ends(replace_frames(side.text, clip.text)),
        codes=replace_frames(side.codes, clip.codes),
        answer_mask=replace_frames(side.answer_mask, mask),
        oracle=replace(side.oracle, frame=moved_frame.astype(np.int32)),
    )


def join_at_cuts(first: SpeakerTokens, cut: int, second: SpeakerTokens, second_cut: int) -> SpeakerTokens:
    """Joins the frames before `cut` of one and those from `second_cut` on of the other, with the other's oracle.

    Its events keep their distance from the cut; those that would be before the first frame are dropped.
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
    """Returns a text with the end of padding before each run of tokens that follows padding, and nowhere else."""
    words = find_words(text)
    marked = np.where(words, text, np.int32(PADDING_ID))
    marked[:-1][words[1:] & ~words[:-1]] = END_OF_PADDING_ID
    return marked


def make_empty_oracle() -> OracleTokens:
    """Returns a stream without events."""
    return OracleTokens.pack([], [], [], [], [], [])


def _move_events(oracle: OracleTokens, n_frames: int) -> OracleTokens:
    """Returns all events moved by `n_frames`; those that would be before the first frame are dropped."""
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
