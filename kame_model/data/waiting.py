"""Silence behind a dialogue's last word, so that an answer which has been said is not said again.

A recording ends half a second after its last word, and what had trained on such recordings alone never met the time
after an answer: running freely, a `nano` that had said the right answer said it again until the recording ended, in 18
of 24 held-out dialogues. Here the last silent frames of both speakers are repeated.
"""

from dataclasses import replace

import numpy as np

from kame_model.data.swap import Sides, is_silent
from kame_model.encode.rows import SpeakerTokens
from kame_model.frames.ids import PADDING_ID

SILENT_FRAMES = 4
"""The end of a dialogue that is repeated: 0.32 s of the 0.6 s behind its last word (`mixing.after_s`)."""


def waiting(sides: Sides, n_frames: int) -> Sides:
    """The dialogue with `n_frames` of silence behind it; as it is where it does not end in silence."""
    ends = [each.text[-SILENT_FRAMES:] for each in sides]
    if n_frames < 1 or not all(len(each) == SILENT_FRAMES and is_silent(each) for each in ends):
        return sides
    return Sides(_waiting(sides.own, n_frames), _waiting(sides.other, n_frames))


def _waiting(side: SpeakerTokens, n_frames: int) -> SpeakerTokens:
    repeated = np.resize(np.arange(len(side.text) - SILENT_FRAMES, len(side.text)), n_frames)
    return replace(
        side,
        text=np.append(side.text, np.full(n_frames, PADDING_ID, side.text.dtype)),
        codes=np.concatenate([side.codes, side.codes[:, repeated]], axis=1),
        answer_mask=np.append(side.answer_mask, np.zeros(n_frames, bool)),
    )
