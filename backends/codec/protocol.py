"""What a codec must do."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from backends.engine import Engine, Samples
from backends.options import OptionValue
from data_schemas.code_layout import CodeLayout

Codes = NDArray[np.int16]
"""A sound as a codec's tokens, shape [n_codebooks, n_frames], 12.5 frames a second; each in [0, card)."""


class CodecStream(Protocol):
    """Sound to codes and back, a frame of 80 ms at a time, for several streams at once; they do not see each other."""

    def encode_frame(self, samples: NDArray[np.float32]) -> NDArray[np.int16]:
        """The codes [batch_size, n_codebooks] of the next 1,920 samples of each stream, [batch_size, 1920]."""

    def decode_frame(self, codes: NDArray[np.int16]) -> NDArray[np.float32]:
        """The next 1,920 samples of each stream, [batch_size, 1920], of its codes, [batch_size, n_codebooks].

        They lie in [-1, 1], as those of `Codec.decode`.
        """

    def set_active(self, active: NDArray[np.bool_]) -> None:
        """From now on only these streams, [batch_size], move; what the others are given leaves no trace."""

    def reset(self, streams: NDArray[np.bool_]) -> None:
        """Begins these streams, [batch_size], anew, and makes them active."""


class Codec(Engine, Protocol):
    """Turns mono sound at 24 kHz into tokens, 12.5 frames a second, and tokens into sound."""

    @property
    def n_codebooks(self) -> int:
        """Codes of one frame of one voice."""

    @property
    def card(self) -> int:
        """Entries of the largest codebook."""

    @property
    def layout(self) -> CodeLayout:
        """How a front-end is to read and say its codes: entries, delays and loss weight of each codebook."""

    def encode(self, sounds: Sequence[Samples]) -> list[Codes]:
        """The codes of each sound, of any lengths; what else is in `sounds` does not change them.

        A sound has `data_schemas.units.count_covering_frames` frames: the last is filled with silence.
        """

    def decode(self, codes: Codes) -> Samples:
        """The sound of codes, 1,920 samples a frame, in [-1, 1] whatever the codes are.

        A decoder that overshoots (Mimi's ends in a convolution without bounds) clips it here, once for all who play,
        keep or measure it.
        """

    def stream(self, batch_size: int) -> AbstractContextManager[CodecStream]:
        """Streams for the time of a `with` block; the codec does nothing else meanwhile."""

    def save(self, folder: str) -> dict[str, OptionValue]:
        """Writes the files that it is made of into an empty folder, all side by side; none where options are enough.

        A checkpoint takes these files along, and whoever serves it builds the codec of them, elsewhere.

        Returns:
            The options that make it again, less `path` and `device`. Built with them, and with `path=FOLDER` where
            there is a file, it has the same digest.
        """
