"""Codec 2, David Rowe's vocoder for speech at 700 to 3,200 bit/s, by pycodec2: no weights and no training.

It hears 8 kHz. Sound goes down from 24 kHz and up again through a low-pass that keeps its state for each caller. What
Codec 2 calls a frame lasts 20 or 40 ms, so that one of ours, 80 ms, holds four or two of its. Its bits become codes by
`_LAYOUTS`: neighbouring fields share a codebook as far as this stays small, and codebooks are ordered by field and then
by time, the spectrum first.
"""

import ctypes
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from backends.codec.protocol import CodecStream, Codes
from backends.engine import Samples
from backends.options import Options, OptionValue
from data_schemas import ids
from data_schemas.code_layout import CodeLayout
from data_schemas.fingerprint import get_versions
from data_schemas.units import FRAME_N_SAMPLES, SAMPLE_RATE_HZ, count_covering_frames

if TYPE_CHECKING:
    from pycodec2 import Codec2 as Vocoder

_log = logging.getLogger(__name__)

RECIPE = 1
"""Version of what this file does to sound and codes; raise it when either changes."""

_RATE_HZ: Final = 8_000
_RATIO: Final = SAMPLE_RATE_HZ // _RATE_HZ
_N_SAMPLES: Final = FRAME_N_SAMPLES // _RATIO
_FULL_SCALE: Final = 32_768
_N_TAPS: Final = 145
"""Of the low-pass, 6 dB down at its cutoff and 57 dB at 4.2 kHz: 3 ms of delay each way."""
_CUTOFF_HZ: Final = 3_850
_SILENT_RMS: Final = 10 ** (-60 / 20) * _FULL_SCALE

TEXT_LEAD: Final = 2
"""Frames by which a front-end's text is ahead of its sound, as in the trial in which a small one learnt to speak.

A word's first pieces are written by the time that it is begun. No codebook carries the others' meaning, as Mimi's first
one does, so that all come at once and weigh the same.
"""

_SETTLED: Final = 50
"""Frames of nothing after which the library's codes of them no longer change."""

_Span = tuple[int, int]
"""A field's first bit in a frame of Codec 2, and its bits."""

_LAYOUTS: Final[dict[int, tuple[tuple[_Span, ...], ...]]] = {
    # Two stages of the spectrum, energy, pitch.
    700: (((0, 9),), ((9, 9),), ((18, 4),), ((22, 6),)),
    # First stage of the spectrum; voicing of four times 10 ms; pitch and energy, twice; two more stages.
    1200: (((20, 9),), ((0, 2), (10, 2)), ((2, 8),), ((12, 8),), ((29, 9),), ((38, 9),)),
    # Ten values of the spectrum in pairs, the last with the voicing of four times 10 ms; energy; pitch.
    1300: (((16, 8),), ((24, 8),), ((32, 8),), ((40, 7),), ((0, 4), (47, 5)), ((11, 5),), ((4, 7),)),
    # The same, with the voicing of twice 10 ms; pitch and energy.
    2400: (((10, 8),), ((18, 8),), ((26, 8),), ((34, 7),), ((0, 2), (41, 5)), ((2, 8),)),
    # Ten differences of the spectrum in pairs; voicing of twice 10 ms and pitch; energy.
    3200: (((14, 10),), ((24, 10),), ((34, 10),), ((44, 10),), ((54, 10),), ((0, 9),), ((9, 5),)),
}
"""For each mode the codebooks of one of its frames, by the fields that an entry is made of.

Where a field stands is in `codec2_encode_700c` to `codec2_encode_3200` (src/codec2.c of Codec 2 1.2). Spare bits are 0.
"""


class Codec2Options(Options):
    """How much of the sound is kept."""

    bits_per_s: Literal[700, 1200, 1300, 2400, 3200] = Field(
        default=1200, description="Codec 2's mode: 1200 is 12 codebooks of 512, 700 (700C) 8; 3200 is clearest."
    )


class VocoderCodec(ABC):
    """A codec whose codes stand for the bits of a mode of Codec 2, by rules that a subclass has.

    All is done frame by frame, so that a stream gives the codes and the sound of the whole to the last bit. What comes
    back is about 27 ms late (37 ms at 700 bit/s).

    By itself the library gives each silence other codes, by the speech before it, and speech after it others too. Here
    the second of two silent frames ends what the encoder remembers: all silence has the same codes from there on, and
    the same speech after it the same ones, which is less for a front-end to learn.

    Args:
        mode: bits a second.
    """

    def __init__(self, mode: int) -> None:
        self.mode: Final = mode
        self.n_parts: Final = _N_SAMPLES // self.make_vocoder().samples_per_frame()
        self.n_part_bytes: Final = int(self.make_vocoder().bytes_per_frame())

    @property
    @abstractmethod
    def layout(self) -> CodeLayout:
        """Codes of 80 ms, all at once, behind their text."""

    @property
    def n_codebooks(self) -> int:
        """Codes of 80 ms."""
        return self.layout.n_codebooks

    @property
    def card(self) -> int:
        """Entries of the largest codebook."""
        return self.layout.card

    @abstractmethod
    def to_codes(self, parts: Sequence[bytes]) -> NDArray[np.int16]:
        """Frames of Codec 2 as the codes of one of ours, [n_codebooks]."""

    @abstractmethod
    def to_parts(self, codes: NDArray[np.int16]) -> list[bytes]:
        """Codes of any size, [n_codebooks], as frames of Codec 2."""

    @cached_property
    def silence(self) -> NDArray[np.int16]:
        """The codes of a silent frame, [n_codebooks]."""
        vocoder, nothing = self.make_vocoder(), np.zeros(_N_SAMPLES // self.n_parts, np.int16)
        return self.to_codes([vocoder.encode(nothing) for _ in range(_SETTLED)][-self.n_parts :])

    def encode(self, sounds: Sequence[Samples]) -> list[Codes]:
        """The codes of each sound, int16[n_codebooks, n_frames]."""
        return [self._encode(each) for each in sounds]

    def decode(self, codes: Codes) -> Samples:
        """The sound of codes [n_codebooks, n_frames], 1,920 samples a frame."""
        voice = _Voice(self)
        return np.concatenate([np.zeros(0, np.float32), *(voice.decode_frame(frame) for frame in codes.T)])

    @contextmanager
    def stream(self, batch_size: int) -> Iterator[CodecStream]:
        """Streams for the time of the block."""
        yield _Stream(self, batch_size)

    def make_vocoder(self) -> "Vocoder":
        """The library's state of one stream."""
        from pycodec2 import Codec2 as Vocoder

        return Vocoder(self.mode)

    def read_bits(self, parts: Sequence[bytes]) -> NDArray[np.uint8]:
        """The bits of frames of Codec 2, [n_parts, n_bits]."""
        return np.unpackbits(np.frombuffer(b"".join(parts), np.uint8)).reshape(len(parts), 8 * self.n_part_bytes)

    def _encode(self, sound: Samples) -> Codes:
        n_frames = count_covering_frames(len(sound))
        filled = np.pad(sound, (0, n_frames * FRAME_N_SAMPLES - len(sound)))
        codes, voice = np.zeros((self.n_codebooks, n_frames), np.int16), _Voice(self)
        for index, frame in enumerate(filled.reshape(n_frames, FRAME_N_SAMPLES)):
            codes[:, index] = voice.encode_frame(frame)
        return codes


class Codec2(VocoderCodec):
    """Speech as the fields of a mode of Codec 2, by `_LAYOUTS`: codebooks by field, and of a field by time.

    Each codebook has its own size, `card` at most; a code beyond it, which another's front-end may draw, counts modulo
    that.
    """

    name = "codec2"

    def __init__(self, options: Codec2Options) -> None:
        super().__init__(options.bits_per_s)
        self._bits: Final = [
            np.concatenate([np.arange(first, first + n_bits) for first, n_bits in spans])
            for spans in _LAYOUTS[options.bits_per_s]
        ]

    @property
    def digest(self) -> str:
        """The library's version, this file's recipe and the mode."""
        return ids.digest("codec2", RECIPE, get_versions("pycodec2"), self.mode)

    @cached_property
    def layout(self) -> CodeLayout:
        """Each field of each of Codec 2's frames in one of ours."""
        sizes = [2 ** len(bits) for bits in self._bits for _ in range(self.n_parts)]
        return CodeLayout.make_parametric(sizes, TEXT_LEAD, temp=0.8)

    def save(self, folder: str) -> dict[str, OptionValue]:
        """Writes nothing: the mode is all there is."""
        return {"bits_per_s": self.mode}

    def to_codes(self, parts: Sequence[bytes]) -> NDArray[np.int16]:
        """Frames of Codec 2 as the codes of one of ours, [n_codebooks]: by field, then by time."""
        bits = self.read_bits(parts)
        return np.concatenate([read_number(bits[:, each]) for each in self._bits]).astype(np.int16)

    def to_parts(self, codes: NDArray[np.int16]) -> list[bytes]:
        """The reverse of `to_codes`."""
        bits = np.zeros((self.n_parts, 8 * self.n_part_bytes), np.uint8)
        for each, values in zip(self._bits, codes.reshape(-1, self.n_parts), strict=True):
            bits[:, each] = write_number(values, len(each))
        return [part.tobytes() for part in np.packbits(bits, axis=1)]


def read_number(bits: NDArray[np.uint8]) -> NDArray[np.int64]:
    """[..., n_bits], the highest first, to [...]."""
    return np.asarray(bits @ (1 << np.arange(bits.shape[-1])[::-1]), np.int64)


def write_number(values: NDArray[np.integer], n_bits: int) -> NDArray[np.uint8]:
    """[...] to [..., n_bits], the highest first; higher bits than there is room for are left out."""
    return (values[..., None] >> np.arange(n_bits)[::-1] & 1).astype(np.uint8)


class _Voice:
    """One stream: the two states of the library and of the low-pass, and the place in the sound that is made."""

    def __init__(self, codec: VocoderCodec) -> None:
        self._codec = codec
        self._encoder, self._decoder = codec.make_vocoder(), codec.make_vocoder()
        self._was_silent = True
        self._heard = np.zeros(_N_TAPS - 1, np.float32)
        self._made = np.zeros((_N_TAPS - 1) // _RATIO, np.float32)
        self._n_made = 0

    def encode_frame(self, samples: NDArray[np.float32]) -> NDArray[np.int16]:
        """[1920] to [n_codebooks]."""
        from scipy.signal import upfirdn

        heard = np.concatenate([self._heard, samples])
        low = upfirdn(_design_low_pass(), heard, down=_RATIO)[len(self._heard) // _RATIO :][:_N_SAMPLES]
        self._heard = heard[-len(self._heard) :]
        pcm = np.clip(np.round(low * _FULL_SCALE), -_FULL_SCALE, _FULL_SCALE - 1).astype(np.int16)
        was_silent = self._was_silent
        self._was_silent = bool(np.sqrt(np.square(pcm, dtype=np.float32).mean()) < _SILENT_RMS)
        if was_silent and self._was_silent:
            self._encoder = self._codec.make_vocoder()
            return self._codec.silence.copy()
        return self._codec.to_codes([self._encoder.encode(part) for part in np.split(pcm, self._codec.n_parts)])

    def decode_frame(self, codes: NDArray[np.int16]) -> NDArray[np.float32]:
        """[n_codebooks] to [1920]."""
        from scipy.signal import upfirdn

        parts = self._codec.to_parts(codes)
        with _NOISE.draw_from(self._n_made):
            pcm = np.concatenate([self._decoder.decode(part) for part in parts])
        self._n_made += 1
        made = np.concatenate([self._made, pcm.astype(np.float32) / _FULL_SCALE])
        high = upfirdn(_RATIO * _design_low_pass(), made, up=_RATIO)[_RATIO * len(self._made) :][:FRAME_N_SAMPLES]
        self._made = made[-len(self._made) :]
        return np.asarray(np.clip(high, -1, 1), np.float32)


@cache
def _design_low_pass() -> NDArray[np.float32]:
    from scipy.signal import firwin

    return np.asarray(firwin(_N_TAPS, _CUTOFF_HZ, window=("kaiser", 7.0), fs=SAMPLE_RATE_HZ), np.float32)


class _Stream:
    """Voices side by side; those at rest are passed over."""

    def __init__(self, codec: VocoderCodec, batch_size: int) -> None:
        self._codec = codec
        self._voices = [_Voice(codec) for _ in range(batch_size)]
        self._active = np.ones(batch_size, bool)

    def encode_frame(self, samples: NDArray[np.float32]) -> NDArray[np.int16]:
        """[B, 1920] to [B, n_codebooks]; zeros for a stream at rest."""
        codes = np.zeros((len(self._voices), self._codec.n_codebooks), np.int16)
        for row in np.flatnonzero(self._active):
            codes[row] = self._voices[row].encode_frame(samples[row])
        return codes

    def decode_frame(self, codes: NDArray[np.int16]) -> NDArray[np.float32]:
        """[B, n_codebooks] to [B, 1920]; silence for a stream at rest."""
        samples = np.zeros((len(self._voices), FRAME_N_SAMPLES), np.float32)
        for row in np.flatnonzero(self._active):
            samples[row] = self._voices[row].decode_frame(codes[row])
        return samples

    def set_active(self, active: NDArray[np.bool_]) -> None:
        """Which of the streams move from now on."""
        self._active = np.array(active, bool)

    def reset(self, streams: NDArray[np.bool_]) -> None:
        """Begins streams anew, and makes them active."""
        for row in np.flatnonzero(streams):
            self._voices[row] = _Voice(self._codec)
        self._active |= streams


class _Noise:
    """The library's random numbers, which become the phases of sounds without a voice.

    They come from one variable of the whole process that is never set (`next` in src/sine.c), so that the same codes
    would sound otherwise each time. It is found in the library's memory by what a draw does to it, and is set before
    each frame by the frame's place in its sound.
    """

    def __init__(self) -> None:
        self._lock = Lock()

    @contextmanager
    def draw_from(self, place: int) -> Iterator[None]:
        """A block that draws what belongs to this place, and that no other thread draws in."""
        with self._lock:
            if (variable := self._variable) is not None:
                variable.value = place * 0x9E3779B97F4A7C15 + 1  # golden ratio: neighbouring places have unlike numbers
            yield

    @cached_property
    def _variable(self) -> ctypes.c_uint64 | None:
        from pycodec2 import pycodec2

        draw = ctypes.CDLL(pycodec2.__file__).codec2_rand
        found = []
        for start, n_bytes in _find_writable_memory(ctypes.cast(draw, ctypes.c_void_p).value or 0):
            words = (ctypes.c_uint64 * (n_bytes // 8)).from_address(start)
            before = np.array(words)
            draw()
            is_drawn = (np.array(words) == before * np.uint64(1_103_515_245) + np.uint64(12_345)) & (before != words)
            found += [start + 8 * int(at) for at in np.flatnonzero(is_drawn)]
        if len(found) == 1:
            return ctypes.c_uint64.from_address(found[0])
        _log.warning("Codec 2's noise cannot be set on this system: the same codes will hiss otherwise each time.")
        return None


_NOISE = _Noise()


def _find_writable_memory(address: int) -> Iterator[tuple[int, int]]:
    """Start and bytes of what can be written of the library that holds an address; Linux alone tells."""
    maps = Path("/proc/self/maps")
    regions = []
    for line in maps.read_text().splitlines() if maps.exists() else ():
        span, rights, _, _, _, *name = line.split(maxsplit=5)
        start, stop = (int(each, 16) for each in span.split("-"))
        regions.append((start, stop, "w" in rights, name))
    library = next((name for start, stop, _, name in regions if start <= address < stop), [])
    yield from ((start, stop - start) for start, stop, is_writable, name in regions if is_writable and name == library)
