"""Protocol of audio codecs."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from backends.engine import Engine, Samples
from backends.options import OptionValue
from data_schemas.code_layout import CodeLayout

Codes = NDArray[np.int16]
"""A recording as a codec's tokens, shape [n_codebooks, n_frames], 12.5 frames per second; each in [0, card)."""


class CodecStream(Protocol):
    """Encodes and decodes audio in frames of 80 ms, for several independent streams at once."""

    def encode_frame(self, samples: NDArray[np.float32]) -> NDArray[np.int16]:
        """Encodes the next 1,920 samples of each stream, [batch_size, 1920], to codes [batch_size, n_codebooks]."""

    def decode_frame(self, codes: NDArray[np.int16]) -> NDArray[np.float32]:
        """Decodes each stream's codes, [batch_size, n_codebooks], to its next 1,920 samples, [batch_size, 1920].

        They are in [-1, 1], like those of `Codec.decode`.
        """

    def set_active(self, active: NDArray[np.bool_]) -> None:
        """Sets which streams, [batch_size], are active from now on; input to the others has no effect."""

    def reset(self, streams: NDArray[np.bool_]) -> None:
        """Resets these streams, [batch_size], and makes them active."""


class Codec(Engine, Protocol):
    """Converts mono audio at 24 kHz to tokens, 12.5 frames per second, and tokens to audio."""

    @property
    def n_codebooks(self) -> int:
        """Number of codes per frame of one voice."""

    @property
    def card(self) -> int:
        """Size of the largest codebook."""

    @property
    def layout(self) -> CodeLayout:
        """How a front-end reads and outputs its codes: size, delay and loss weight of each codebook."""

    def encode(self, sounds: Sequence[Samples]) -> list[Codes]:
        """Encodes recordings of any lengths; each one's codes do not depend on the others in `sounds`.

        A recording has `data_schemas.units.count_covering_frames` frames: the last is padded with silence.
        """

    def decode(self, codes: Codes) -> Samples:
        """Decodes codes to audio, 1,920 samples per frame, in [-1, 1] whatever the codes are.

        A decoder that overshoots (Mimi's ends in a convolution without bounds) clips it here, once for all who play,
        store or measure it.
        """

    def stream(self, batch_size: int) -> AbstractContextManager[CodecStream]:
        """Returns a context manager that yields a stream; inside the block the codec does nothing else."""

    def save(self, folder: str) -> dict[str, OptionValue]:
        """Writes its files into an empty folder, without subfolders; none if the options define it.

        A checkpoint includes these files, and the server that loads it builds the codec from them, elsewhere.

        Returns:
            The options that build it again, except `path` and `device`. Built with them, and with `path=FOLDER` if
            there is a file, it has the same digest.
        """
