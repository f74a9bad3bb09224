"""Validation within a run: the model's predictions with the right oracle, with a wrong one, and with none."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch.distributed.fsdp import FSDPModule

from data_schemas.config.model import LossConfig
from data_schemas.config.training import DataConfig
from kame_model.data.batch_plan import cut_by_frames
from kame_model.data.example import ValidationExample
from kame_model.frames.batch import Batch, collate, copy_to_device
from kame_model.frames.ids import PADDING_ID
from kame_model.model.front_end import FrontEnd
from kame_model.model.loss import METRICS, compute_loss, compute_means
from kame_model.train.model import ForwardPass

COLUMNS = ("right", "wrong", "none")
"""The oracles that the model gets. Positions count as fed if the right oracle is fed there, in all three."""

Evaluation = dict[str, dict[str, float]]
"""Figures by column: `loss` as it is trained, and the metrics of the loss: nats, and shares for those in `_right`."""


class Evaluator:
    """Evaluates the same validation examples each time, without drawing anything.

    Args:
        judged: the examples.
        data: maximum number of frames of a batch, and the multiple of their lengths.
        loss: weights of the loss.
        forward: device and precision of forward passes.
        with_audio: whether the examples have audio.
    """

    def __init__(
        self,
        judged: Sequence[ValidationExample],
        data: DataConfig,
        loss: LossConfig,
        forward: ForwardPass,
        with_audio: bool,
    ) -> None:
        lengths = np.asarray([each.example.n_positions for each in judged], np.int32)
        batches = cut_by_frames(np.argsort(lengths, kind="stable"), lengths, data)
        share = forward.processes.share
        self._batches = [_collate_with_wrong([judged[at] for at in batch], data.length_multiple) for batch in batches]
        n_turns = -(-len(batches) // share.world)  # equal on all processes, because sharded weights are gathered
        self._mine = [turn * share.world + share.rank for turn in range(n_turns)]
        self._loss, self._forward, self._with_audio = loss, forward, with_audio

    @torch.no_grad()
    def __call__(self, model: FrontEnd) -> Evaluation:
        """Returns the figures with the right, a wrong and no oracle (`COLUMNS`); the mode of the model is restored.

        All processes must call it, and get the same figures.
        """
        was_training = model.training
        model.eval()
        device = self._forward.processes.device
        sums = torch.zeros(len(COLUMNS), 2 * len(METRICS) + 1, dtype=torch.float64)
        for number in self._mine:
            on_cpu, wrong_oracle = self._batches[number % len(self._batches)]
            right, wrong = on_cpu.to(device), copy_to_device(wrong_oracle, device)
            for row, oracle in enumerate((right.oracle, wrong, torch.full_like(wrong, PADDING_ID))):
                batch = replace(right, oracle=oracle)
                logits = self._forward(model, batch, with_audio=self._with_audio)
                parts = compute_loss(logits, batch, self._loss, model.layout.weights)
                if number < len(self._batches):
                    sums[row] += torch.cat([parts.tallies.flatten(), parts.total[None].double()]).cpu()
        model.train(was_training)
        if isinstance(model, FSDPModule):
            model.reshard()  # a forward pass without a backward pass leaves the outermost weights gathered
        sums = self._forward.processes.sum_over_all(sums)
        return {
            column: {"loss": float(row[-1]) / len(self._batches), **compute_means(row[:-1].view(-1, 2))}
            for column, row in zip(COLUMNS, sums, strict=True)
        }


def _collate_with_wrong(judged: Sequence[ValidationExample], multiple: int) -> tuple[Batch, torch.Tensor]:
    """Combines examples to a batch, and returns it with their wrong oracles, int64[B, S].

    A wrong oracle has the answer to another question; the loss with it shows whether the model follows its oracle.
    The number of frames S is a multiple of `multiple`.
    """
    batch = collate([each.example for each in judged], multiple)
    wrong = torch.full_like(batch.oracle, PADDING_ID)
    for row, each in zip(wrong, judged, strict=True):
        row[: len(each.wrong_oracle)] = torch.from_numpy(each.wrong_oracle)
    return batch, wrong
