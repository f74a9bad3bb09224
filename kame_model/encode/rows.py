"""A token row: a dialogue as the model's tokens, 12.5 frames a second. T frames, n codebooks of one voice."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backends.codec.protocol import Codes
from kame_model.frames.oracle_stream import OracleTokens


@dataclass(frozen=True, slots=True, eq=False)
class SpeakerTokens:
    """What one speaker says, and the oracles for what this speaker will say.

    Attributes:
        text: int32[T], the inner monologue: tokens at their words' frames, padding elsewhere.
        codes: int16[n, T], the speaker's sound.
        oracle: the events whose predicted words this speaker will say.
        answer_mask: bool[T], frames whose text token belongs to the words that bear the answer: from a turn's first one
            (`Turn.answer_word_index`) to the end of its sentence.
    """

    text: NDArray[np.int32]
    codes: Codes
    oracle: OracleTokens
    answer_mask: NDArray[np.bool_]

    def answering_event(self) -> int | None:
        """The event that knows the answer: of those that had heard all of a question (a greeting and a follow-up have
        one too) the last before the answer's words. None where there is none, or no such words."""
        answer = np.flatnonzero(self.answer_mask)
        heard = self.oracle.ratio >= 1
        before = np.flatnonzero(heard & (self.oracle.frame < answer[0])) if len(answer) else answer
        return int(before[-1]) if len(before) else None


@dataclass(frozen=True, slots=True, eq=False)
class TokenRow:
    """A dialogue as tokens; arrays read from a file are read-only views into it.

    `answer` is the words that bear the answer, as they are first said whole; less where a cut took some. `question` is
    all that the user had said before that turn. Both are spoken text: to tell whether a model says the answer, and
    whether the question held it.
    """

    dialogue_id: str
    item_id: str
    source: str
    split: str
    form: str
    question: str
    answer: str
    n_frames: int
    duration_s: float
    a: SpeakerTokens
    b: SpeakerTokens
