"""What all engines that stages use have in common, and the sound that they take and give."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
"""Mono sound, float32 in [-1, 1], shape [n_samples]."""


class Engine(Protocol):
    """What stages' engines have in common."""

    @property
    def name(self) -> str:
        """The back-end's name in the registry."""

    @property
    def digest(self) -> str:
        """Stands for engine and model: changes when what it makes of the same could."""
