"""A front-end by itself: its own text and sound go back in, the user is a recording, the oracle comes as a server's.

Text *and* sound are the model's own, so an early mistake has its consequences, as with a caller.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.codec.protocol import Codes
from data_schemas.config.model import SamplingConfig
from data_schemas.config.recall import Told
from data_schemas.units import FRAMES_PER_S
from kame_model.data.oracle_feed import shifted
from kame_model.evaluate.turns import Asked
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID
from kame_model.frames.oracle_stream import OracleQueue, OracleTokenEvent
from kame_model.model.front_end import FrontEnd
from kame_model.model.streaming import Frame, FrontEndGen
from kame_model.text.tokenizer import Tokenizer

_SILENT = (PADDING_ID, END_OF_PADDING_ID)

N_OPENING_WORDS = 3
"""Words of an answer, as its oracle tells it, after which it is being said: a lead may hold one or two of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """What one slot of a free run is given.

    Attributes:
        other: int16[n, T], the recorded user's codes.
        events: oracles with the frames at which they come.
        answer_from_frame: from here on what the model says may be the answer that is corrected.
        opening: the first tokens of the answer that is to be corrected, up to its third word's first, as its oracle
            tells them.
        correction: tokens of an oracle that comes `correction_after_frames` after the opening was said in a row; none:
            empty.
    """

    other: Codes
    events: list[OracleTokenEvent]
    answer_from_frame: int = 0
    opening: Sequence[int] = ()
    correction: Sequence[int] = ()
    correction_after_frames: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class FreeRun:
    """What a model said in one dialogue of T frames.

    Attributes:
        text: int32[T], its inner monologue.
        own: int16[n, T], its sound.
        correction_frame: the frame at which a correction came; None: none did, or the answer to be corrected was not
            begun.
    """

    text: NDArray[np.int32]
    own: Codes
    correction_frame: int | None


def script_for(
    asked: Asked,
    stranger: Asked | None,
    oracle: Told,
    delay_s: float,
    correction_after_s: float,
    tokenizer: Tokenizer,
    other: Codes | None = None,
) -> Script:
    """The script of one dialogue.

    Args:
        asked: the dialogue, of which the model is to be speaker A.
        stranger: whose oracle the wrong one is, moved so that both questions end together.
        delay_s: how long a back-end takes; the same for all events.
        correction_after_s: from the third word of the wrong answer to the correction.
        other: codes in the place of the recorded user's.
    """
    codes = asked.row.b.codes if other is None else other
    if oracle in ("wrong", "corrected") and stranger is not None:
        told = stranger.row.a.oracle
        events = told.events()[: stranger.turn.event + 1]
        events = shifted(events, asked.turn.start - stranger.turn.start)
    else:
        events = [] if oracle == "none" else asked.row.a.oracle.events()
    events = shifted(events, round(delay_s * FRAMES_PER_S))
    if oracle != "corrected" or stranger is None:
        return Script(codes, events)
    return Script(
        codes,
        events,
        asked.turn.start,
        _opening(stranger.row.a.oracle.said(stranger.turn.event).tolist(), tokenizer),
        asked.row.a.oracle.said(asked.turn.event).tolist(),
        round(correction_after_s * FRAMES_PER_S),
    )


def _opening(tokens: Sequence[int], tokenizer: Tokenizer) -> Sequence[int]:
    """The tokens up to the first one of the third word; all of a shorter answer."""
    starts = [at for at, token in enumerate(tokens) if at == 0 or tokenizer.starts_word(token)]
    return tokens if len(starts) < N_OPENING_WORDS else tokens[: starts[N_OPENING_WORDS - 1] + 1]


class Generator(Protocol):
    """What runs freely, many conversations side by side: `FrontEndGen`, or a double of it."""

    def streaming(self, batch_size: int) -> AbstractContextManager[None]:
        """A block in which `step` may be called, with fresh state."""

    def step(self, other: Tensor, oracle: Tensor) -> Frame:
        """One frame of every slot: see `FrontEndGen.step`."""


MakesGenerator = Callable[[FrontEnd, SamplingConfig], Generator]
"""How a front-end is run."""


def plan_batches(n_frames: Sequence[int], batch_size: int) -> list[list[int]]:
    """Which scripts are run side by side, by their numbers: those of like length."""
    order = sorted(range(len(n_frames)), key=lambda at: n_frames[at])
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


def run_freely(
    front_end: FrontEnd,
    scripts: Sequence[Script],
    sampling: SamplingConfig,
    seed: int,
    generator: MakesGenerator = FrontEndGen,
) -> list[FreeRun]:
    """Runs scripts side by side.

    Args:
        front_end: in evaluation mode.
        seed: of the sampling; the same scripts, seed and machine give the same runs.
    """
    torch.manual_seed(seed)  # moshi samples from torch's global generator
    return list(_run(front_end, generator(front_end, sampling), scripts))


def _run(front_end: FrontEnd, gen: Generator, scripts: Sequence[Script]) -> Iterator[FreeRun]:
    """More calls than there are frames, by the longest delay: so much later a frame is given back whole."""
    n_frames = max(script.other.shape[1] for script in scripts)
    n_codebooks, n_late = front_end.n_codebooks, front_end.layout.longest_delay
    others = np.zeros((len(scripts), n_codebooks, n_frames + n_late), np.int64)
    for row, script in zip(others, scripts, strict=True):
        row[:, 1 : script.other.shape[1] + 1] = script.other  # call s reads frame s - 1
    heard = torch.from_numpy(others).to(front_end.lm.device)
    slots = [_Slot(script, front_end.text_card) for script in scripts]
    text = np.full((len(scripts), n_frames), PADDING_ID, np.int32)
    own = np.zeros((len(scripts), n_codebooks, n_frames), np.int16)
    with gen.streaming(len(scripts)):
        for call in range(n_frames + n_late):
            oracle = torch.tensor([slot.feed(call - 1) for slot in slots], device=heard.device)
            frame, at = gen.step(heard[:, :, call], oracle), call - n_late
            if at >= 0:
                text[:, at], own[:, :, at] = frame.text.cpu().numpy(), frame.own.cpu().numpy()
                for slot, token in zip(slots, text[:, at].tolist(), strict=True):
                    slot.hear(at, token)
    for at, slot in enumerate(slots):
        n_own = slot.script.other.shape[1]
        yield FreeRun(text[at, :n_own], own[at, :, :n_own], slot.correction_frame)


class _Slot:
    """One dialogue's oracle queue, and the eye that is kept on when the answer to be corrected begins."""

    def __init__(self, script: Script, start_id: int) -> None:
        self.script = script
        self.correction_frame: int | None = None
        self._opened_frame: int | None = None
        self._said: list[int] = []
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
        opening = list(self.script.opening)
        self._said = [*self._said, token][-len(opening) :] if opening else []
        if self._opened_frame is None and opening and self._said == opening:
            self._opened_frame = frame

    def _is_due(self, frame: int) -> bool:
        if not self.script.correction or self._opened_frame is None or self.correction_frame is not None:
            return False
        return frame >= self._opened_frame + self.script.correction_after_frames
