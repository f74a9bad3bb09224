"""A front-end that needs no weights: it waits for the oracle that knows the answer, and says it as it is told to."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from backends.codec.protocol import Codes
from backends.engine import Samples
from data_schemas.config.model import SamplingConfig
from data_schemas.units import FRAME_N_SAMPLES
from kame_model.frames.ids import PADDING_ID
from kame_model.model.front_end import FrontEnd
from kame_model.model.streaming import UNSAID, Frame
from kame_model.text.tokenizer import Tokenizer

SILENCE, SPEECH = 1, 5
"""Codes of a user in every codebook."""

N_KNOWING = 3
"""Words of an oracle that knows the answer, at least: a guess that comes late is shorter (`recall_rows`)."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How it answers.

    Attributes:
        n_times: how often it says what the oracle tells.
        early: tokens that it says when a guess comes, while the user speaks.
        before, after: tokens that it says besides.
        wait_frames: how long it keeps the answer to itself.
        is_a_turn_late: it answers when the user has spoken once more.
        skips: words of the oracle that it leaves out, from the first on.
    """

    n_times: int = 1
    early: Sequence[int] = ()
    before: Sequence[int] = ()
    after: Sequence[int] = ()
    wait_frames: int = 0
    is_a_turn_late: bool = False
    skips: int = 0


@dataclass(slots=True)
class _Slot:
    """One dialogue: the oracle that started after the user's last word is the one that knows.

    `n_spoken` is how often the user has begun to speak, `n_asked` how often by the time of the answer that waits.
    """

    is_user_silent: bool = True
    n_spoken: int = 0
    told: list[int] = field(default_factory=list)
    is_known: bool = False
    n_asked: int = 0
    answer: list[int] | None = None
    n_waited: int = 0
    queue: list[int] = field(default_factory=list)


class ScriptedGenerator:
    """Stands in for `FrontEndGen`; its codes tell its words (`ScriptedCodec`)."""

    def __init__(self, front_end: FrontEnd, sampling: SamplingConfig, habits: Habits) -> None:
        self._start_id, self._n_codebooks, self._habits = front_end.text_card, front_end.n_codebooks, habits
        self._slots: list[_Slot] = []
        self._n_calls = 0

    @contextmanager
    def streaming(self, batch_size: int) -> Iterator[None]:
        """Begins new dialogues, one for each slot of a batch."""
        self._slots, self._n_calls = [_Slot() for _ in range(batch_size)], 0
        yield

    def step(self, other: Tensor, oracle: Tensor) -> Frame:
        """Returns the next frame of each dialogue, as `FrontEndGen.step`; the first one is unsaid."""
        said = [
            self._say(slot, bool(codes[0] == SILENCE), int(token))
            for slot, codes, token in zip(self._slots, other, oracle, strict=True)
        ]
        self._n_calls += 1
        if self._n_calls == 1:
            return Frame(torch.full((len(said),), UNSAID), torch.full((len(said), self._n_codebooks), UNSAID))
        text = torch.tensor(said)
        return Frame(text, torch.stack([text % 10, text // 10, *([text] * (self._n_codebooks - 2))], dim=1))

    def _say(self, slot: _Slot, is_user_silent: bool, token: int) -> int:
        """Takes a frame of the user and of the oracle of a dialogue, and returns the token that is said."""
        slot.n_spoken += slot.is_user_silent and not is_user_silent
        slot.is_user_silent = is_user_silent
        if token == self._start_id:
            slot.told, slot.is_known = [], is_user_silent
            slot.queue += [] if is_user_silent else self._habits.early
        elif token != PADDING_ID:
            slot.told.append(token)
        elif len(slot.told) >= N_KNOWING and slot.is_known:
            slot.answer, slot.n_asked, slot.n_waited = slot.answer or slot.told, slot.n_spoken, 0
            slot.told = []
        is_due = slot.n_spoken > slot.n_asked if self._habits.is_a_turn_late else True
        if slot.answer is not None and is_due and is_user_silent:
            slot.n_waited += 1
            if slot.n_waited > self._habits.wait_frames:
                habits = self._habits
                slot.queue = [*habits.before, *(slot.answer[habits.skips :] * habits.n_times), *habits.after]
                slot.answer = None
        return slot.queue.pop(0) if slot.queue else PADDING_ID


class ScriptedCodec:
    """Sound that is the codes themselves: the first sample of a frame is the word."""

    def decode(self, codes: Codes) -> Samples:
        """Returns a frame of silence for each frame of codes, with the token in its first sample."""
        sound = np.zeros((codes.shape[1], FRAME_N_SAMPLES), np.float32)
        sound[:, 0] = (codes[0] + 10 * codes[1]) / 1000
        return sound.reshape(-1)

    def encode(self, sounds: Sequence[Samples]) -> list[Codes]:
        """Returns codes of silence for each sound; only its number of frames is kept."""
        return [np.full((3, -(-len(sound) // FRAME_N_SAMPLES)), SILENCE, np.int16) for sound in sounds]


def hear_with(tokenizer: Tokenizer, sound: Samples) -> list[str]:
    """Returns the words in a sound that `ScriptedCodec` decoded."""
    tokens = np.rint(sound.reshape(-1, FRAME_N_SAMPLES)[:, 0] * 1000).astype(int).tolist()
    return tokenizer.decode([token for token in tokens if token > PADDING_ID]).split()
