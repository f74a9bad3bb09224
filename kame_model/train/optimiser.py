"""AdamW over the weights that are trained, the learning rate of a step, and the moving average of the weights."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from data_schemas.config.training import OptimConfig

_DECAYING = (nn.Linear, nn.Embedding)
"""Modules whose `weight` decays: matrices, adapters among them, and tables of embeddings."""


def get_trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, by name."""
    return {name: each for name, each in model.named_parameters() if each.requires_grad}


def make_optimiser(model: nn.Module, config: OptimConfig) -> torch.optim.AdamW:
    """AdamW over the trained weights; matrices and tables decay, norms' scales and the oracle's shift do not.

    A weight's number of dimensions does not tell which it is: moshi's norm scales are (1, 1, dim). So it goes by the
    module that holds the weight.
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
        fused=True,  # one kernel for all weights; on a CPU 5 ms a step of nano in the place of 16
    )


def compute_learning_rate(step: int, max_steps: int, config: OptimConfig) -> float:
    """The learning rate of a step, 0 to max_steps - 1: a linear warm-up, then half a cosine down to its last share."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    done = (step - config.warmup_steps) / max(1, max_steps - config.warmup_steps)
    falling = (1 + math.cos(math.pi * min(1.0, done))) / 2
    return config.learning_rate * (config.final_share + (1 - config.final_share) * falling)


class MovingAverage:
    """An exponential moving average of the trained weights.

    Args:
        model: whose trained weights are averaged, starting from what they are now.
        decay: weight of the past at each step, once as many steps are done that their mean is no longer of few.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._model, self._decay = model, decay
        self.weights: dict[str, Tensor] = {
            name: each.detach().clone() for name, each in get_trained_parameters(model).items()
        }

    @torch.no_grad()
    def update(self, n_done: int) -> None:
        """Moves the average towards the weights as they are now.

        Args:
            n_done: updates before this one. The decay is at most (1 + n) / (10 + n), as in TensorFlow's
                `ExponentialMovingAverage(num_updates=n)`: a short run is not averaged with its random start.
        """
        decay = min(self._decay, (1 + n_done) / (10 + n_done))
        for name, each in get_trained_parameters(self._model).items():
            self.weights[name].lerp_(each.detach(), 1 - decay)

    @contextmanager
    def swap_in(self) -> Iterator[None]:
        """A block in which the model has the averaged weights."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for name, each in get_trained_parameters(self._model).items():
            kept = each.detach().clone()
            each.copy_(self.weights[name])
            self.weights[name].copy_(kept)
