"""How a forward pass is made in this run: on which device, in which precision, with sound or without."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from data_schemas.config.training import Precision
from kame_model.frames.batch import Batch
from kame_model.model.front_end import FrontEnd, Logits
from kame_model.train.processes import Processes

SOUND = ("lm.emb.", "lm.depformer", "lm.linears.")
"""Beginnings of the names of weights that only sound reaches."""


@dataclass(frozen=True, slots=True)
class Computing:
    """What a forward pass needs to know beside the model.

    Attributes:
        processes: the run's; their device is where batches must be.
        precision: bf16-mixed computes in bf16 under autocast, otherwise weights' type decides.
        with_audio: whether the depth transformer is computed.
    """

    processes: Processes
    precision: Precision = "fp32"
    with_audio: bool = True

    @property
    def weights_type(self) -> torch.dtype:
        """The type in which weights are kept."""
        return torch.bfloat16 if self.precision == "bf16" else torch.float32

    def forward(self, model: nn.Module, batch: Batch, inputs: Tensor | None = None) -> Logits:
        """Logits of a batch; `inputs` stand in the place of its columns in the temporal transformer."""
        with torch.autocast(self.processes.device.type, dtype=torch.bfloat16, enabled=self.precision == "bf16-mixed"):
            logits: Logits = model(batch.columns, batch.oracle, inputs=inputs, with_audio=self.with_audio)
        return logits


def freeze_sound(model: FrontEnd) -> None:
    """Leaves the weights that only sound reaches as they are: without sound no gradient comes to them."""
    for name, each in model.named_parameters():
        if name.startswith(SOUND):
            each.requires_grad_(False)
