"""Free running of a front-end: its own text and audio are fed back, the user is a recording, the oracle is streamed.

Both text and audio are generated (no teacher forcing), so an early mistake has consequences, as in a real conversation.
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
from data_schemas.guesses import Guesses
from data_schemas.units import FRAMES_PER_S
from kame_model.data.oracle_feed import shift_events
from kame_model.evaluate.recall.turns import AskedDialogue
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID
from kame_model.frames.oracle_stream import OracleQueue, OracleTokenEvent
from kame_model.model.front_end import FrontEnd
from kame_model.model.streaming import Frame, FrontEndGen
from kame_model.text.tokenizer import Tokenizer

_SILENT = (PADDING_ID, END_OF_PADDING_ID)

N_OPENING_WORDS = 3
"""Number of the oracle's first words after which an answer counts as started; a lead may contain one or two of them."""


@dataclass(frozen=True, slots=True, eq=False)
class FreeRunScript:
    """The input of one slot of a free run.

    Attributes:
        other: int16[n, T], the recorded user's codes.
        events: oracles with the frames at which they arrive.
        answer_from_frame: first frame at which the answer to be corrected may start.
        opening: first tokens of the answer to be corrected, from its oracle, up to the first token of its third word.
        correction: tokens of an oracle that arrives `correction_after_frames` after the opening was said as
            consecutive tokens; empty: no correction.
    """

    other: Codes
    events: list[OracleTokenEvent]
    answer_from_frame: int = 0
    opening: Sequence[int] = ()
    correction: Sequence[int] = ()
    correction_after_frames: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class FreeRun:
    """The output of a model in one dialogue of T frames.

    Attributes:
        text: int32[T], its inner monologue.
        own: int16[n, T], the codes of its audio.
        correction_frame: the frame at which a correction arrived; None: there was none, or the answer to be corrected
            was not started.
    """

    text: NDArray[np.int32]
    own: Codes
    correction_frame: int | None


def make_script(
    asked: AskedDialogue,
    stranger: AskedDialogue | None,
    oracle: Told,
    delay_s: float,
    correction_after_s: float,
    tokenizer: Tokenizer,
    other: Codes | None = None,
    guesses: Guesses = "feed",
) -> FreeRunScript:
    """Makes the script of one dialogue.

    Args:
        asked: the dialogue in which the model is speaker A.
        stranger: the dialogue of the wrong oracle, shifted so that both questions end at the same time; None: the
            dialogue's own oracle is fed, also where `oracle` is "wrong" or "corrected".
        delay_s: delay of the back-end, seconds, equal for all events.
        correction_after_s: seconds from the third word of the wrong answer to the correction.
        other: codes used instead of the recorded user's.
        guesses: how the server treats answers to an unfinished question.
    """
    delay_frames = round(delay_s * FRAMES_PER_S)
    codes = asked.row.b.codes if other is None else other
    if oracle in ("wrong", "corrected") and stranger is not None:
        stranger_oracle = stranger.row.a.oracle
        events = stranger_oracle.list_events(delay_frames, guesses, n_events=stranger.turn.event + 1)
        events = shift_events(events, asked.turn.start - stranger.turn.start)
    else:
        events = [] if oracle == "none" else asked.row.a.oracle.list_events(delay_frames, guesses)
    if oracle != "corrected" or stranger is None:
        return FreeRunScript(codes, events)
    return FreeRunScript(
        codes,
        events,
        asked.turn.start,
        _cut_opening(stranger.row.a.oracle.get_fed(stranger.turn.event).tolist(), tokenizer),
        asked.row.a.oracle.get_fed(asked.turn.event).tolist(),
        round(correction_after_s * FRAMES_PER_S),
    )


def _cut_opening(tokens: Sequence[int], tokenizer: Tokenizer) -> Sequence[int]:
    """Returns the tokens up to the first one of the third word; all tokens of a shorter answer."""
    starts = [at for at, token in enumerate(tokens) if at == 0 or tokenizer.starts_word(token)]
    return tokens if len(starts) < N_OPENING_WORDS else tokens[: starts[N_OPENING_WORDS - 1] + 1]


class Generator(Protocol):
    """Generates a batch of conversations step by step: `FrontEndGen`, or a test double."""

    def streaming(self, batch_size: int) -> AbstractContextManager[None]:
        """Context manager with new state in which `step` may be called."""

    def step(self, other: Tensor, oracle: Tensor) -> Frame:
        """Generates one frame of every slot: see `FrontEndGen.step`."""


MakesGenerator = Callable[[FrontEnd, SamplingConfig], Generator]
"""Makes the generator of a front-end."""


def plan_batches(n_frames: Sequence[int], batch_size: int) -> list[list[int]]:
    """Groups dialogues of similar length into batches; returns the indices of the dialogues of each batch.

    Args:
        n_frames: length of each dialogue.
        batch_size: maximum number of dialogues of a batch.
    """
    order = sorted(range(len(n_frames)), key=lambda at: n_frames[at])
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


def run_freely(
    front_end: FrontEnd,
    scripts: Sequence[FreeRunScript],
    sampling: SamplingConfig,
    seed: int,
    generator: MakesGenerator = FrontEndGen,
) -> list[FreeRun]:
    """Runs scripts as one batch, and returns what the model said in each, in order; seeds torch's global generator.

    Args:
        front_end: the model, in evaluation mode.
        seed: sampling seed; the same scripts, seed and machine give the same runs.
    """
    torch.manual_seed(seed)  # moshi samples from torch's global generator
    return list(_run(front_end, generator(front_end, sampling), scripts))


def _run(front_end: FrontEnd, gen: Generator, scripts: Sequence[FreeRunScript]) -> Iterator[FreeRun]:
    """Runs all scripts in one batch, and yields what the model said in each.

    It takes as many steps as frames plus the longest delay, after which the codes of a frame are complete.
    """
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
                    slot.look_for_opening(at, token)
    for at, slot in enumerate(slots):
        n_own = slot.script.other.shape[1]
        yield FreeRun(text[at, :n_own], own[at, :, :n_own], slot.correction_frame)


class _Slot:
    """The oracle queue of one dialogue, and the detection of the start of the answer to be corrected."""

    def __init__(self, script: FreeRunScript, start_id: int) -> None:
        self.script = script
        self.correction_frame: int | None = None
        self._opened_frame: int | None = None
        self._said: list[int] = []
        self._queue = OracleQueue(start_id)
        self._coming = sorted(script.events, key=lambda event: event[0])

    def feed(self, frame: int) -> int:
        """Returns the oracle id to feed at the input position after `frame`, given everything that has arrived."""
        while self._coming and self._coming[0][0] <= frame:
            self._queue.push(map(int, self._coming.pop(0)[1]))
        if self._is_due(frame):
            self.correction_frame, self._coming = frame, []
            self._queue.push(self.script.correction)
        return self._queue.pop() if frame >= 0 else PADDING_ID

    def look_for_opening(self, frame: int, token: int) -> None:
        """Notes the first frame at which the model's text completes the opening of the answer to be corrected.

        Call it for every frame in order. Padding, and frames before the script's `answer_from_frame`, are ignored.
        """
        if frame < self.script.answer_from_frame or token in _SILENT:
            return
        opening = list(self.script.opening)
        self._said = [*self._said, token][-len(opening) :] if opening else []
        if self._opened_frame is None and opening and self._said == opening:
            self._opened_frame = frame

    def _is_due(self, frame: int) -> bool:
        """Returns whether the correction is to be fed now: once, so many frames after the wrong answer was started."""
        if not self.script.correction or self._opened_frame is None or self.correction_frame is not None:
            return False
        return frame >= self._opened_frame + self.script.correction_after_frames
