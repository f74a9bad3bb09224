"""Base protocol of the engines that pipeline stages use, and the type of audio samples."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
"""Mono audio, float32 in [-1, 1], shape [n_samples]."""


class Engine(Protocol):
    """Base protocol of the stages' engines."""

    @property
    def name(self) -> str:
        """The back-end's name in the registry."""

    @property
    def digest(self) -> str:
        """Identifies engine and model: it changes whenever the output for the same input could."""
