"""Streaming inference one frame at a time: moshi's `LMGen` with an oracle, for evaluation and the server.

    gen = FrontEndGen(front_end, SamplingConfig())
    with gen.streaming(batch_size):
        for other, oracle in …:                 # one call per frame
            frame = gen.step(other, oracle)     # the output for an earlier frame

Call s reads column s of the training layout and samples column s + 1 (see kame_model/frames/sequence.py), and returns a
frame when its last code is complete, after the longest delay of the codes' layout, d (1 for Mimi):

    call      reads, of the other's codes    reads, of the oracle    returns
    0         nothing: the initial ids       position 0 (idle)       nothing yet
    s         frame s - 1                    position s              frame s - d; nothing yet where s < d

so an oracle event at frame f is fed from call f + 1 on.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from moshi.models.lm import LMGen
from torch import Tensor, nn

from data_schemas.config.model import SamplingConfig
from kame_model.frames.cue import Cue
from kame_model.model.front_end import FrontEnd, disable_compilation_on_cpu

UNSAID = -2
"""In output: no token yet, or a paused slot (moshi, `LMModel.ungenerated_token_id`)."""


class Frame(NamedTuple):
    """Output for one frame: `text` [B] and `own` codes [B, n]; all `UNSAID` in slots without output."""

    text: Tensor
    own: Tensor


class FrontEndGen:
    """Streaming inference with a front-end, for a batch of conversations in slots.

    Args:
        front_end: in evaluation mode; it must not be trained while it streams.
        sampling: temperature and top-k of text tokens and audio codes. moshi uses torch's global generator.
    """

    def __init__(self, front_end: FrontEnd, sampling: SamplingConfig) -> None:
        self._front_end = front_end
        self._gen = _OracleLMGen(front_end, sampling)
        self._cues: list[Cue] = []  # of each slot
        self._running: list[int] = []  # slots that are not paused

    @contextmanager
    def streaming(self, batch_size: int) -> Iterator[None]:
        """Context manager in which `step` may be called; the state is new on entry and is discarded on exit."""
        self._cues = [Cue(self._front_end.text_card) for _ in range(batch_size)]
        self._running = list(range(batch_size))
        with (
            disable_compilation_on_cpu(self._front_end.lm.device),
            self._mask_missing_entries(),
            self._gen.streaming(batch_size),
        ):
            yield

    @contextmanager
    def _mask_missing_entries(self) -> Iterator[None]:
        """Context manager in which ids beyond the size of a smaller codebook cannot be sampled."""
        layout = self._front_end.layout
        with ExitStack() as hooks:
            for head, size in zip(self._front_end.lm.linears, layout.sizes, strict=True):
                if size < layout.card:
                    hooks.callback(head.register_forward_hook(partial(_mask_from, size)).remove)
            yield

    @torch.no_grad()
    def step(self, other: Tensor, oracle: Tensor) -> Frame:
        """Runs one frame of every slot, and returns the output for an earlier frame (see the module's docstring).

        Args:
            other: [B, n] the other's codes of the last frame; ignored in the first call.
            oracle: [B] id of the oracle for this position; padding if there is none.
        """
        self._gen.condition = self._front_end.compute_condition(oracle[:, None], self._feed_cues(oracle))
        with disable_compilation_on_cpu(oracle.device):
            said = self._gen.step(other[..., None])
        assert said is not None  # support_out_of_sync: never
        if self._front_end.cue is not None:
            for slot in self._running:
                self._cues[slot].say(self._gen.said[slot])
        return Frame(said[:, 0, 0], said[:, 1:, 0])

    def pause(self, resting: Tensor) -> None:
        """Pauses slots, bool[B]: further calls do not change their state. All other slots run."""
        self._gen.set_exec_mask(~resting)
        self._running = (~resting).nonzero()[:, 0].tolist()

    def reset(self, slots: Tensor) -> None:
        """Resets the state of slots, bool[B], which start again at call 0 with the next call, or when they are no
        longer paused.
        """
        self._gen.reset_streaming(slots)
        is_running = torch.zeros(len(self._cues), dtype=torch.bool)
        is_running[self._running] = True
        self._gen.set_exec_mask(is_running)  # moshi ends the pause of what it resets
        for slot in slots.nonzero()[:, 0].tolist():
            self._cues[slot] = Cue(self._front_end.text_card)

    def _feed_cues(self, oracle: Tensor) -> Tensor | None:
        """Updates the cues with the oracle ids of this call and returns them, [B, 1]."""
        if self._front_end.cue is None:
            return None
        fed = oracle.tolist()
        for slot in self._running:
            self._cues[slot].feed(fed[slot])
        return torch.tensor([[cue.token] for cue in self._cues], device=oracle.device)


class _OracleLMGen(LMGen):
    """moshi's generation with a summed condition that changes at each step."""

    def __init__(self, front_end: FrontEnd, sampling: SamplingConfig) -> None:
        super().__init__(
            front_end.lm,
            **sampling.model_dump(),
            on_text_hook=None if front_end.cue is None else self._record_text,
            support_out_of_sync=True,  # slots start and pause independently
        )
        self.condition: Tensor | None = None
        self.said: list[int] = []  # the text of the last call, by slot

    def _step(self, input_tokens: Tensor, depformer_replace_tokens: Tensor | None = None) -> Any:
        """As moshi's `_step`, with the current `condition`."""
        if self._streaming_state is not None:
            self._streaming_state.condition_sum = self.condition  # moshi copies it into its CUDA graph
        return super()._step(input_tokens, depformer_replace_tokens)

    def _record_text(self, sampled: Tensor) -> None:
        """Keeps the text tokens [B] that were sampled in this call, for the cues."""
        self.said = sampled.tolist()


def _mask_from(size: int, head: nn.Module, args: tuple[Tensor], logits: Tensor) -> Tensor:
    """Forward hook that masks a head's logits for ids from `size` on."""
    return logits.masked_fill(torch.arange(logits.shape[-1], device=logits.device) >= size, -torch.inf)
