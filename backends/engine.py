"""Base protocol of the engines that pipeline stages use, and the type of audio samples."""

from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
"""Mono audio, float32 in [-1, 1], shape [n_samples]."""


INSTALL_SPEECH: Final = "Install kame-pipeline[speech] (in a clone: make install)."
"""What to do about a missing or damaged package of the embedded speech engines."""


class Engine(Protocol):
    """Base protocol of the stages' engines."""

    @property
    def name(self) -> str:
        """The back-end's name in the registry."""

    @property
    def digest(self) -> str:
        """Identifies engine and model: it changes whenever the output for the same input could."""
