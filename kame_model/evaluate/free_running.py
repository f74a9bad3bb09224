"""A front-end by itself: its own text and sound go back in, the user is a recording, the oracle comes as a server's.

Text *and* sound are the model's own, so an early mistake has its consequences, as with a caller.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from backends.codec.protocol import Codes
from data_schemas.config.model import SamplingConfig
from kame_model.evaluate.conditions import Script
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID
from kame_model.frames.oracle_stream import OracleQueue
from kame_model.model.front_end import FrontEnd
from kame_model.model.streaming import FrontEndGen

_SILENT = (PADDING_ID, END_OF_PADDING_ID)


@dataclass(frozen=True, slots=True, eq=False)
class FreeRun:
    """What a model said in one dialogue of T frames.

    Attributes:
        text: int32[T], its inner monologue.
        own: int16[n, T], its sound.
        answer_frame: the frame of the first word of its answer, or of the lead before it; None: it said nothing once
            the question was heard.
        correction_frame: the frame at which a correction came; None: none did, or the answer to be corrected was not
            begun.
    """

    text: NDArray[np.int32]
    own: Codes
    answer_frame: int | None
    correction_frame: int | None


def run_freely(
    front_end: FrontEnd,
    scripts: Sequence[Script],
    sampling: SamplingConfig,
    seed: int,
    batch_size: int = 32,
    on_batch: Callable[[int], None] = lambda n_scripts: None,
) -> list[FreeRun]:
    """Runs all scripts, dialogues of like length side by side.

    Args:
        front_end: in evaluation mode.
        seed: of the sampling; the same seed, batch size and machine give the same runs.
        on_batch: told of each batch how many scripts it held.
    """
    gen = FrontEndGen(front_end, sampling)
    order = sorted(range(len(scripts)), key=lambda at: scripts[at].other.shape[1])
    runs: dict[int, FreeRun] = {}
    for start in range(0, len(order), batch_size):
        torch.manual_seed(seed + start)  # moshi samples from torch's global generator
        group = order[start : start + batch_size]
        runs |= zip(group, _run_batch(front_end, gen, [scripts[at] for at in group]), strict=True)
        on_batch(len(group))
    return [runs[at] for at in range(len(scripts))]


def _run_batch(front_end: FrontEnd, gen: FrontEndGen, scripts: Sequence[Script]) -> Iterator[FreeRun]:
    """One call more than there are frames: a frame is given back by the call after the one that reads it."""
    n_frames = max(script.other.shape[1] for script in scripts)
    n_codebooks = front_end.n_codebooks
    others = np.zeros((len(scripts), n_codebooks, n_frames + 1), np.int64)
    for row, script in zip(others, scripts, strict=True):
        row[:, 1 : script.other.shape[1] + 1] = script.other  # call s reads frame s - 1
    heard = torch.from_numpy(others).to(front_end.lm.device)
    slots = [_Slot(script, front_end.text_card) for script in scripts]
    text = np.full((len(scripts), n_frames), PADDING_ID, np.int32)
    own = np.zeros((len(scripts), n_codebooks, n_frames), np.int16)
    with gen.streaming(len(scripts)):
        for call in range(n_frames + 1):
            oracle = torch.tensor([slot.feed(call - 1) for slot in slots], device=heard.device)
            frame = gen.step(heard[:, :, call], oracle)
            if call > 0:
                text[:, call - 1], own[:, :, call - 1] = frame.text.cpu().numpy(), frame.own.cpu().numpy()
                for slot, token in zip(slots, text[:, call - 1].tolist(), strict=True):
                    slot.hear(call - 1, token)
    for row, slot in enumerate(slots):
        n_own = slot.script.other.shape[1]
        yield FreeRun(text[row, :n_own], own[row, :, :n_own], slot.answer_frame, slot.correction_frame)


class _Slot:
    """One dialogue's oracle queue, and the eye that is kept on when its answer begins, after a lead or at once."""

    def __init__(self, script: Script, start_id: int) -> None:
        self.script = script
        self.answer_frame: int | None = None
        self.correction_frame: int | None = None
        self._opened_frame: int | None = None
        self._said: list[tuple[int, int]] = []  # frames and tokens of the answer and its lead
        self._queue = OracleQueue(start_id)
        self._coming = sorted(script.events, key=lambda event: event[0])

    def feed(self, frame: int) -> int:
        """The id to feed at the input position after `frame`, with all that has come by then."""
        while self._coming and self._coming[0][0] <= frame:
            self._queue.push(map(int, self._coming.pop(0)[1]))
        if self._is_due(frame):
            self.correction_frame, self._coming = frame, []
            self._queue.push(self.script.correction)
        return self._queue.next() if frame >= 0 else PADDING_ID

    def hear(self, frame: int, token: int) -> None:
        """Takes note of what the model said in a frame."""
        if frame < self.script.answer_from_frame or token in _SILENT:
            return
        self._said.append((frame, token))
        self.answer_frame = self._said[0][0]
        opening = list(self.script.opening)
        last = self._said[-len(opening) :]
        if self._opened_frame is None and opening and [each for _, each in last] == opening:
            self._opened_frame = last[0][0]

    def _is_due(self, frame: int) -> bool:
        if not self.script.correction or self._opened_frame is None or self.correction_frame is not None:
            return False
        return frame >= self._opened_frame + self.script.correction_after_frames
