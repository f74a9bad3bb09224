"""The optimiser (optimizer): AdamW, the learning rate schedule, and the moving average of the weights."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from data_schemas.config.training import OptimConfig

_DECAYING = (nn.Linear, nn.Embedding)
"""Modules whose `weight` has weight decay: matrices, including adapters, and embeddings."""


def get_trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Returns the parameters that are trained, by name."""
    return {name: each for name, each in model.named_parameters() if each.requires_grad}


def make_optimiser(model: nn.Module, config: OptimConfig) -> torch.optim.AdamW:
    """Returns AdamW over the trained weights, with weight decay for matrices and embeddings only.

    Scales of norms and the shift of the oracle do not decay. They are distinguished by module, because the number of
    dimensions is not enough: moshi's norm scales are (1, 1, dim).
    """
    decaying = {f"{name}.weight" for name, each in model.named_modules() if isinstance(each, _DECAYING)}
    parameters = get_trained_parameters(model)
    matrices = [each for name, each in parameters.items() if name in decaying]
    vectors = [each for name, each in parameters.items() if name not in decaying]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        fused=True,  # one kernel for all weights; on a CPU 5 ms instead of 16 for a step of nano
    )


def compute_learning_rate(step: int, max_steps: int, config: OptimConfig, time_share: float = 0.0) -> float:
    """Returns the learning rate of a step: linear warm-up, then half a cosine down to `final_share` of the maximum.

    Args:
        step: 0 to max_steps - 1.
        max_steps: number of steps of the run.
        config: maximum rate, warm-up and final share.
        time_share: share of the run's maximum time that has passed; the cosine is at this place if the steps are not
            as far, so that a run that ends by its time also ends with a low learning rate.
    """
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    done = max(time_share, (step - config.warmup_steps) / max(1, max_steps - config.warmup_steps))
    falling = (1 + math.cos(math.pi * min(1.0, done))) / 2
    return config.learning_rate * (config.final_share + (1 - config.final_share) * falling)


class MovingAverage:
    """An exponential moving average of the trained weights.

    Args:
        model: model whose trained weights are averaged, starting from their current values.
        decay: weight of the past at each step, after enough steps (see `update`).
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._model, self._decay = model, decay
        self.weights: dict[str, Tensor] = {
            name: each.detach().clone() for name, each in get_trained_parameters(model).items()
        }

    @torch.no_grad()
    def update(self, n_done: int) -> None:
        """Moves the average towards the current weights.

        Args:
            n_done: number of updates before this one. The decay is at most (1 + n) / (10 + n), as in TensorFlow's
                `ExponentialMovingAverage(num_updates=n)`, so that in a short run the random start has little weight.
        """
        decay = min(self._decay, (1 + n_done) / (10 + n_done))
        for name, each in get_trained_parameters(self._model).items():
            self.weights[name].lerp_(each.detach(), 1 - decay)

    @contextmanager
    def swap_in(self) -> Iterator[None]:
        """Context manager in which the model has the averaged weights; its own are restored afterwards."""
        self._swap_weights()
        try:
            yield
        finally:
            self._swap_weights()

    @torch.no_grad()
    def _swap_weights(self) -> None:
        """Swaps the model's weights and the averaged ones."""
        for name, each in get_trained_parameters(self._model).items():
            kept = each.detach().clone()
            each.copy_(self.weights[name])
            self.weights[name].copy_(kept)
