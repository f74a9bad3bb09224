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
        precision: bf16-mixed computes products in bf16, under autocast.
        with_audio: whether the depth transformer is computed at all.
    """

    processes: Processes
    precision: Precision = "fp32"
    with_audio: bool = True

    @property
    def product_type(self) -> torch.dtype:
        """The type in which products of matrices are made, and matrices are kept that are not trained."""
        return torch.bfloat16 if self.precision == "bf16-mixed" else torch.float32

    def forward(
        self, model: nn.Module, batch: Batch, inputs: Tensor | None = None, *, with_audio: bool = True
    ) -> Logits:
        """Logits of a batch.

        Args:
            model: on the device of the batch.
            batch: of examples.
            inputs: what the temporal transformer reads in the place of the batch's columns.
            with_audio: False leaves the depth transformer out; the same on every process, for weights are gathered.
        """
        is_mixed = self.product_type == torch.bfloat16
        with torch.autocast(self.processes.device.type, dtype=torch.bfloat16, enabled=is_mixed):
            logits: Logits = model(
                batch.columns, batch.oracle, inputs=inputs, with_audio=self.with_audio and with_audio
            )
        return logits


def freeze_sound(model: FrontEnd) -> None:
    """Leaves the weights that only sound reaches as they are: without sound no gradient comes to them."""
    for name, each in model.named_parameters():
        if name.startswith(SOUND):
            each.requires_grad_(False)
