"""The engine: one batched step of front-end and codec for all slots of the device."""

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from statistics import median
from types import TracebackType
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np
import torch
from moshi.utils.compile import no_cuda_graph
from numpy.typing import NDArray

from backends.codec.protocol import Codec, CodecStream
from backends.engine import Samples
from data_schemas.config.model import SamplingConfig
from data_schemas.errors import ConfigError
from data_schemas.units import FRAME_N_SAMPLES
from kame_model.frames.ids import PADDING_ID
from kame_model.model.front_end import FrontEnd
from kame_model.model.streaming import UNSAID, FrontEndGen
from kame_model.text.tokenizer import Tokenizer

_T = TypeVar("_T")

N_WARM_UP = 3
"""Steps that are not measured: moshi captures its CUDA graphs in the second call of each function."""


class RunInThread(Protocol):
    """Protocol of a function that runs work in the engine's thread; awaiting the call returns the work's result."""

    def __call__(self, work: Callable[[], _T], /) -> Awaitable[_T]:
        """Starts the work at once, or when the result is awaited."""


class FrameIn(NamedTuple):
    """The input of one slot: float32[1920] of its caller, and the oracle's id for this input position."""

    samples: Samples
    oracle: int


class FrameOut(NamedTuple):
    """The output of one slot: float32[1920], the inner monologue's token, and its piece of text."""

    samples: Samples
    text_token: int
    text: str


class FrontEndEngine:
    """A front-end and its codec over slots; each slot is a separate conversation.

    All methods are synchronous and belong to one thread: the one that enters the `with` block also steps and exits it.

    Args:
        front_end: in evaluation mode.
        codec: the one it was trained with.
        tokenizer: the one it was trained with.
        n_slots: the batch size of every step, however many slots are taken.
        sampling: how tokens are sampled; one random generator serves all slots.
        cuda_graphs: whether moshi captures its functions in CUDA graphs, if there is CUDA.
        is_heard: whether its codes are decoded to audio; otherwise its audio is silence, and only its text is used.

    Raises:
        ConfigError: the codec does not have the front-end's codes.
    """

    def __init__(
        self,
        front_end: FrontEnd,
        codec: Codec,
        tokenizer: Tokenizer,
        n_slots: int,
        sampling: SamplingConfig,
        cuda_graphs: bool = True,
        is_heard: bool = True,
    ) -> None:
        if (codec.n_codebooks, codec.card) != (front_end.n_codebooks, front_end.card):
            raise ConfigError(
                f"The front-end speaks {front_end.n_codebooks} codebooks of {front_end.card} entries, codec "
                f"{codec.name} {codec.n_codebooks} of {codec.card}.",
                "Use the codec it was trained with.",
            )
        self.n_slots = n_slots
        self._is_heard = is_heard
        self._codec = codec
        self._tokenizer = tokenizer
        self._device = front_end.lm.device
        self._gen = FrontEndGen(front_end, sampling)
        self._graphs: AbstractContextManager[None] = nullcontext() if cuda_graphs else no_cuda_graph()
        self._open = ExitStack()
        self._stream: CodecStream
        self._has_begun = np.zeros(n_slots, np.bool_)
        self._texts = [tokenizer.decode_stream() for _ in range(n_slots)]

    def __enter__(self) -> Self:
        """Creates the states of all slots. On a CPU it also sets torch's number of threads to 1, and leaves it so."""
        if self._device.type == "cpu":
            torch.set_num_threads(1)  # a step of one frame is too small for several threads
        with ExitStack() as stack:
            stack.enter_context(self._graphs)
            stack.enter_context(self._gen.streaming(self.n_slots))
            self._stream = stack.enter_context(self._codec.stream(self.n_slots))
            self._open = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Releases the states."""
        self._open.close()

    def step(self, inputs: Mapping[int, FrameIn]) -> dict[int, FrameOut]:
        """Steps these slots by one frame, and returns the output of each; the others keep their state.

        The first step of a slot reads nothing and returns silence: its input frame lies before the model's first
        position (see kame_model/model/streaming.py), for the codec as well.
        """
        active = np.zeros(self.n_slots, np.bool_)
        active[list(inputs)] = True
        samples = np.zeros((self.n_slots, FRAME_N_SAMPLES), np.float32)
        oracle = np.full(self.n_slots, PADDING_ID, np.int64)
        for slot, given in inputs.items():
            samples[slot], oracle[slot] = given
        self._stream.set_active(active & self._has_begun)
        codes = self._stream.encode_frame(samples).astype(np.int64)
        self._gen.pause(torch.from_numpy(~active))
        frame = self._gen.step(torch.from_numpy(codes).to(self._device), torch.from_numpy(oracle).to(self._device))
        text, own = frame.text.cpu().numpy(), frame.own.cpu().numpy()
        self._has_begun |= active
        return self._make_outputs(list(inputs), text, own)

    def reset(self, slot: int) -> None:
        """Clears the state of a slot; its next step is its first."""
        chosen = np.zeros(self.n_slots, np.bool_)
        chosen[slot] = True
        self._gen.reset(torch.from_numpy(chosen))
        self._stream.reset(chosen)
        self._has_begun[slot] = False
        self._texts[slot] = self._tokenizer.decode_stream()

    def measure(self, n_steps: int = 20) -> float:
        """Returns the median time of a step of all slots, seconds. It resets all slots."""
        times_s = [self.time_step(self.n_slots) for _ in range(N_WARM_UP + n_steps)]
        for slot in range(self.n_slots):
            self.reset(slot)
        return median(times_s[N_WARM_UP:])

    def time_step(self, n_callers: int) -> float:
        """Steps the first slots with silence; returns how long that took, seconds. Reset them before they are used."""
        silence = {slot: FrameIn(np.zeros(FRAME_N_SAMPLES, np.float32), PADDING_ID) for slot in range(n_callers)}
        began_s = time.perf_counter()
        self.step(silence)
        return time.perf_counter() - began_s

    def _make_outputs(self, slots: list[int], text: NDArray[np.int64], own: NDArray[np.int64]) -> dict[int, FrameOut]:
        """Returns the output of these slots, with silence for those that have said nothing yet."""
        has_said = own[:, 0] != UNSAID
        sound = np.zeros((self.n_slots, FRAME_N_SAMPLES), np.float32)
        if self._is_heard:
            self._stream.set_active(has_said)
            sound = self._stream.decode_frame(np.where(has_said[:, None], own, 0).astype(np.int16))
        said = {}
        for slot in slots:
            if has_said[slot]:
                token = int(text[slot])
                said[slot] = FrameOut(sound[slot].copy(), token, self._texts[slot].feed(token))
            else:
                said[slot] = FrameOut(np.zeros(FRAME_N_SAMPLES, np.float32), PADDING_ID, "")
        return said
