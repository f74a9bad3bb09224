"""One frame at a time: moshi's `LMGen`, fed with an oracle, for free running and for the server.

    gen = FrontEndGen(front_end, SamplingConfig())
    with gen.streaming(batch_size):
        for other, oracle in …:                 # one call a frame
            frame = gen.step(other, oracle)     # what is said in a frame before

Call s reads column s of the training layout and samples column s + 1 (see kame_model/frames/sequence.py), and gives a
frame back when its last code is there, after the longest delay of the codes' layout, d (of Mimi 1):

    call      reads, of the other's codes    reads, of the oracle    gives back
    0         nothing: the initial ids       position 0 (idle)       nothing yet
    s         frame s - 1                    position s              frame s - d; nothing yet where s < d

so a back-end's event at frame f is fed from call f + 1 on.
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
from kame_model.model.front_end import FrontEnd, eager_on_cpu

UNSAID = -2
"""In what is given back: nothing yet, or a slot that stood still. In what is imposed: left to the model (moshi,
`LMModel.ungenerated_token_id`)."""


class Frame(NamedTuple):
    """What is said in one frame: `text` [B] and `own` [B, n]; `UNSAID` throughout in slots that have nothing."""

    text: Tensor
    own: Tensor


class FrontEndGen:
    """A front-end that runs freely, many conversations side by side in slots.

    Args:
        front_end: in evaluation mode; it must not be trained while it streams.
        sampling: how tokens are chosen. moshi draws from torch's global generator.
    """

    def __init__(self, front_end: FrontEnd, sampling: SamplingConfig) -> None:
        self._front_end = front_end
        self._gen = _OracleLMGen(front_end, sampling)
        self._cues: list[Cue] = []  # of each slot
        self._running: list[int] = []  # slots that do not rest

    @contextmanager
    def streaming(self, batch_size: int) -> Iterator[None]:
        """A block in which `step` may be called; each has fresh state, and leaves none behind."""
        self._cues = [Cue(self._front_end.text_card) for _ in range(batch_size)]
        self._running = list(range(batch_size))
        with eager_on_cpu(self._front_end.lm.device), self._only_entries(), self._gen.streaming(batch_size):
            yield

    @contextmanager
    def _only_entries(self) -> Iterator[None]:
        """A block in which a codebook that is smaller than the largest has no ids but its own."""
        layout = self._front_end.layout
        with ExitStack() as hooks:
            for head, size in zip(self._front_end.lm.linears, layout.sizes, strict=True):
                if size < layout.card:
                    hooks.callback(head.register_forward_hook(partial(_rule_out_from, size)).remove)
            yield

    @torch.no_grad()
    def step(self, other: Tensor, oracle: Tensor, impose: Tensor | None = None) -> Frame:
        """One frame of every slot.

        Args:
            other: [B, n] the other's codes of the frame just heard; what the first call is given is not read.
            oracle: [B] the oracle's id for this position; padding where there is none.
            impose: [B, 1 + n] text and own codes to say in place of what is sampled, `UNSAID` where the model is free;
                the column after this one, so codes that come late are those of earlier frames.
        """
        self._gen.condition = self._front_end.condition(oracle[:, None], self._feed_cues(oracle))
        self._gen.imposed = impose
        with eager_on_cpu(oracle.device):
            said = self._gen.step(other[..., None])
        assert said is not None  # support_out_of_sync: never
        if self._front_end.cue is not None:
            for slot in self._running:
                self._cues[slot].say(self._gen.said[slot])
        return Frame(said[:, 0, 0], said[:, 1:, 0])

    def rest(self, resting: Tensor) -> None:
        """Slots, bool[B], that stand still from now on: calls leave them as they are. The others go on."""
        self._gen.set_exec_mask(~resting)
        self._running = (~resting).nonzero()[:, 0].tolist()

    def reset(self, slots: Tensor) -> None:
        """Slots, bool[B], that forget everything and start at call 0 with the next one."""
        self._gen.reset_streaming(slots)
        for slot in slots.nonzero()[:, 0].tolist():
            self._cues[slot] = Cue(self._front_end.text_card)

    def _feed_cues(self, oracle: Tensor) -> Tensor | None:
        """[B, 1] the cues, after what each slot said in the call before and what is fed in this one."""
        if self._front_end.cue is None:
            return None
        fed = oracle.tolist()
        for slot in self._running:
            self._cues[slot].feed(fed[slot])
        return torch.tensor([[cue.token] for cue in self._cues], device=oracle.device)


class _OracleLMGen(LMGen):
    """moshi's generation with a summed condition that is another one at each step."""

    def __init__(self, front_end: FrontEnd, sampling: SamplingConfig) -> None:
        super().__init__(
            front_end.lm,
            **sampling.model_dump(),
            on_text_hook=self._impose_text,
            on_audio_hook=self._impose_own,
            support_out_of_sync=True,  # slots may start and rest each on their own
        )
        self._is_heard = front_end.cue is not None
        self.condition: Tensor | None = None
        self.imposed: Tensor | None = None
        self.said: list[int] = []  # the text of the last call, by slot

    def _step(self, input_tokens: Tensor, depformer_replace_tokens: Tensor | None = None) -> Any:
        if self._streaming_state is not None:
            self._streaming_state.condition_sum = self.condition  # moshi copies it into its CUDA graph
        return super()._step(input_tokens, depformer_replace_tokens)

    def _impose_text(self, sampled: Tensor) -> None:
        if self.imposed is not None:
            _impose(sampled, self.imposed[:, 0])
        if self._is_heard:
            self.said = sampled.tolist()

    def _impose_own(self, sampled: Tensor) -> None:
        if self.imposed is not None:
            _impose(sampled, self.imposed[:, 1:])


def _rule_out_from(size: int, head: nn.Module, args: tuple[Tensor], logits: Tensor) -> Tensor:
    """A head's logits without the ids from `size` on; what a forward hook is."""
    return logits.masked_fill(torch.arange(logits.shape[-1], device=logits.device) >= size, -torch.inf)


def _impose(sampled: Tensor, imposed: Tensor) -> None:
    """In place, as moshi's hooks want it."""
    sampled.copy_(torch.where(imposed == UNSAID, sampled, imposed))
