"""Test double of a codec: codes are digests of each frame's samples, and decoded audio is a square wave per frame."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from backends.codec.protocol import CodecStream, Codes
from backends.engine import Samples
from backends.options import Options, OptionValue
from data_schemas import ids
from data_schemas.code_layout import CodeLayout
from data_schemas.units import FRAME_N_SAMPLES, count_covering_frames

_PRIME = 1_000_003


class DoubleCodecOptions(Options):
    """Options for the shape of the codes."""

    n_codebooks: int = Field(default=8, ge=1, le=32, description="Codes of one frame.")
    card: int = Field(default=2048, ge=2, le=32_767, description="Entries of each codebook.")


class DoubleCodec:
    """Equal frames have equal codes, different ones nearly always different codes; frames are independent."""

    name = "double"

    def __init__(self, options: DoubleCodecOptions) -> None:
        self.n_codebooks = options.n_codebooks
        self.card = options.card

    @property
    def digest(self) -> str:
        """Identifies the shape of the codes."""
        return ids.digest("double codec", self.n_codebooks, self.card)

    @property
    def layout(self) -> CodeLayout:
        """The layout of Mimi."""
        return CodeLayout.make_mimi(self.n_codebooks, self.card)

    def encode(self, sounds: Sequence[Samples]) -> list[Codes]:
        """Encodes each recording to [n_codebooks, n_frames]."""
        found = []
        for sound in sounds:
            n_frames = count_covering_frames(len(sound))
            filled = np.pad(sound, (0, n_frames * FRAME_N_SAMPLES - len(sound)))
            found.append(self._encode_frames(filled.reshape(n_frames, FRAME_N_SAMPLES)).T)
        return found

    def decode(self, codes: Codes) -> Samples:
        """Makes a square wave per frame: its first code determines the amplitude, the last one the pitch."""
        return self._decode_codes(codes.T).reshape(-1)

    @contextmanager
    def stream(self, batch_size: int) -> Iterator[CodecStream]:
        """Yields a stream without state, as every frame is independent."""
        yield _Stream(self)

    def save(self, folder: str) -> dict[str, OptionValue]:
        """Writes no file, as the shape of the codes defines the codec, and returns the shape as options."""
        return {"n_codebooks": self.n_codebooks, "card": self.card}

    def _encode_frames(self, frames: NDArray[np.float32]) -> NDArray[np.int16]:
        """Encodes [n, 1920] to [n, n_codebooks]."""
        pcm = np.round(frames * 32_767).astype(np.int64)
        weights = np.arange(1, FRAME_N_SAMPLES + 1)
        sums = (pcm * weights).sum(axis=1) % _PRIME
        books = np.arange(1, self.n_codebooks + 1)
        codes: NDArray[np.int64] = (sums[:, None] * books + sums[:, None] // books) % self.card
        return codes.astype(np.int16)

    def _decode_codes(self, codes: NDArray[np.int16]) -> NDArray[np.float32]:
        """Decodes [n, n_codebooks] to [n, 1920]."""
        half_period = 8 + codes[:, -1:] % 64
        wave = np.where(np.arange(FRAME_N_SAMPLES) // half_period % 2, 1.0, -1.0)
        return (wave * codes[:, :1] / self.card / 4).astype(np.float32)


class _Stream:
    """Encodes and decodes any number of streams by the codec itself."""

    def __init__(self, codec: DoubleCodec) -> None:
        self._codec = codec

    def encode_frame(self, samples: NDArray[np.float32]) -> NDArray[np.int16]:
        """Encodes [B, 1920] to [B, n_codebooks], also of inactive streams."""
        return self._codec._encode_frames(samples)

    def decode_frame(self, codes: NDArray[np.int16]) -> NDArray[np.float32]:
        """Decodes [B, n_codebooks] to [B, 1920], also of inactive streams."""
        return self._codec._decode_codes(codes)

    def set_active(self, active: NDArray[np.bool_]) -> None:
        """Does nothing: there is no state."""

    def reset(self, streams: NDArray[np.bool_]) -> None:
        """Does nothing: there is no state."""
