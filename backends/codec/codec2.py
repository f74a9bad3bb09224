"""Codec 2, David Rowe's vocoder for speech at 700 to 3,200 bit/s, by pycodec2: no weights and no training.

Its sample rate is 8 kHz: audio is resampled from and to 24 kHz with a low-pass filter whose state is kept per caller. A
frame of Codec 2 lasts 20 or 40 ms, so one of KAME's, 80 ms, contains four or two of them. Its bits become codes by
`_LAYOUTS`: neighbouring fields share a codebook as long as that stays small, and codebooks are ordered by field and
then by time, the spectrum first.
"""

import ctypes
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal

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
"""Version of this file's processing of audio and codes; raise it when either changes."""

_RATE_HZ: Final = 8_000
_RATIO: Final = SAMPLE_RATE_HZ // _RATE_HZ
_N_SAMPLES: Final = FRAME_N_SAMPLES // _RATIO
_FULL_SCALE: Final = 32_768
_N_TAPS: Final = 145
"""Length of the low-pass filter, 6 dB down at its cutoff and 57 dB at 4.2 kHz: 3 ms of delay each way."""
_CUTOFF_HZ: Final = 3_850
_SILENT_RMS: Final = 10 ** (-60 / 20) * _FULL_SCALE

TEXT_LEAD: Final = 2
"""Frames by which a front-end's text is ahead of its audio, as in the experiment in which a small one learnt to speak.

The first pieces of a word are then written when it begins. Unlike in Mimi, whose first codebook carries the meaning, no
codebook determines the others, so all come at once and have the same weight."""

_SETTLED: Final = 50
"""Frames of silence after which the library's codes of silence no longer change."""

_Span = tuple[int, int]
"""A field's first bit in a frame of Codec 2, and its number of bits."""

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
"""For each mode, the codebooks of one of its frames, by the fields that make up an entry.

The fields' positions are in `codec2_encode_700c` to `codec2_encode_3200` (src/codec2.c of Codec 2 1.2). Spare bits are
0."""


class Codec2Options(Options):
    """Options for the bit rate."""

    bits_per_s: Literal[700, 1200, 1300, 2400, 3200] = Field(
        default=1200, description="Codec 2's mode: 1200 is 12 codebooks of 512, 700 (700C) 8; 3200 is clearest."
    )


class VocoderCodec(ABC):
    """Base class of codecs whose codes stand for the bits of a mode of Codec 2, by rules of the subclass.

    Everything is done frame by frame, so that streaming gives exactly the same codes and audio as whole recordings.
    Decoded audio is delayed by about 27 ms (37 ms at 700 bit/s).

    The library itself gives each silence different codes, depending on the speech before it, and also the speech after
    it. Here the second of two silent frames resets the encoder: from there on all silence has the same codes, and the
    same speech after it too, which is easier for a front-end to learn.

    Args:
        mode: bits per second.
    """

    def __init__(self, mode: int) -> None:
        self.mode: Final = mode
        self.n_parts: Final = _N_SAMPLES // self.make_vocoder().samples_per_frame()
        self.n_part_bytes: Final = int(self.make_vocoder().bytes_per_frame())

    @property
    @abstractmethod
    def layout(self) -> CodeLayout:
        """The codes of 80 ms: a front-end outputs all codebooks of a frame at once, some frames after their text."""

    @property
    def n_codebooks(self) -> int:
        """Number of codes per frame of 80 ms."""
        return self.layout.n_codebooks

    @property
    def card(self) -> int:
        """Size of the largest codebook."""
        return self.layout.card

    @abstractmethod
    def encode_parts(self, parts: Sequence[bytes], pcm: NDArray[np.int16], state: Any) -> NDArray[np.int16]:
        """Encodes one of our frames: its frames of Codec 2 and its audio, [640] at 8 kHz, to codes [n_codebooks].

        It changes `state`, which `make_state` has made.
        """

    @abstractmethod
    def decode_parts(self, codes: NDArray[np.int16], state: Any) -> list[bytes]:
        """Decodes codes, [n_codebooks], which may be larger than their codebooks, to frames of Codec 2.

        It changes `state`, which `make_state` has made.
        """

    def make_state(self) -> Any:
        """Makes the state that a stream keeps between frames besides the library's own; None here: there is none."""
        return None

    @property
    @abstractmethod
    def silence(self) -> NDArray[np.int16]:
        """The codes of a silent frame, [n_codebooks]."""

    def encode(self, sounds: Sequence[Samples]) -> list[Codes]:
        """Encodes each recording, padded with silence to whole frames, to int16 [n_codebooks, n_frames]."""
        return [self._encode(each) for each in sounds]

    def decode(self, codes: Codes) -> Samples:
        """Decodes codes [n_codebooks, n_frames] to audio, 1,920 samples per frame."""
        voice = _Voice(self)
        return np.concatenate([np.zeros(0, np.float32), *(voice.decode_frame(frame) for frame in codes.T)])

    def analyse(self, sound: Samples) -> tuple[NDArray[np.int16], list[bytes]]:
        """Returns a recording, padded to whole frames, as audio at 8 kHz and as the library's frames, silent or not."""
        voice = _Voice(self)
        pcm = [voice.resample_frame(frame) for frame in _split_into_frames(sound)]
        parts = [part for frame in pcm for part in voice.analyse_frame(frame)]
        return np.concatenate([np.zeros(0, np.int16), *pcm]), parts

    @contextmanager
    def stream(self, batch_size: int) -> Iterator[CodecStream]:
        """Yields a stream of `batch_size` voices, all active, for the duration of the block."""
        yield _Stream(self, batch_size)

    def make_vocoder(self) -> "Vocoder":
        """Makes the library's codec for one stream, in its initial state."""
        from pycodec2 import Codec2 as Vocoder

        return Vocoder(self.mode)

    def read_bits(self, parts: Sequence[bytes]) -> NDArray[np.uint8]:
        """Unpacks frames of Codec 2 to bits, [n_parts, n_bits]."""
        return np.unpackbits(np.frombuffer(b"".join(parts), np.uint8)).reshape(len(parts), 8 * self.n_part_bytes)

    def _encode(self, sound: Samples) -> Codes:
        """Encodes one recording, padded with silence to whole frames, to [n_codebooks, n_frames]."""
        frames, voice = _split_into_frames(sound), _Voice(self)
        codes = np.zeros((self.n_codebooks, len(frames)), np.int16)
        for index, frame in enumerate(frames):
            codes[:, index] = voice.encode_frame(frame)
        return codes


class FramewiseCodec(VocoderCodec):
    """Base class of codecs in which a frame's codes stand for its own frames of Codec 2, whatever came before."""

    @abstractmethod
    def to_codes(self, parts: Sequence[bytes]) -> NDArray[np.int16]:
        """Converts frames of Codec 2 to the codes of one of our frames, [n_codebooks]."""

    @abstractmethod
    def to_parts(self, codes: NDArray[np.int16]) -> list[bytes]:
        """Converts codes, [n_codebooks], which may be larger than their codebooks, to frames of Codec 2."""

    @cached_property
    def silence(self) -> NDArray[np.int16]:
        """The codes of a silent frame, [n_codebooks], once the library has settled."""
        vocoder, nothing = self.make_vocoder(), np.zeros(_N_SAMPLES // self.n_parts, np.int16)
        return self.to_codes([vocoder.encode(nothing) for _ in range(_SETTLED)][-self.n_parts :])

    def encode_parts(self, parts: Sequence[bytes], pcm: NDArray[np.int16], state: None) -> NDArray[np.int16]:
        """Encodes by `to_codes`."""
        return self.to_codes(parts)

    def decode_parts(self, codes: NDArray[np.int16], state: None) -> list[bytes]:
        """Decodes by `to_parts`."""
        return self.to_parts(codes)


class Codec2(FramewiseCodec):
    """Speech as the fields of a mode of Codec 2, by `_LAYOUTS`: codebooks by field, and those of a field by time.

    Each codebook has its own size, at most `card`; a larger code, which a front-end may sample, is taken modulo that
    size.
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
        """Digest of the library's version, `RECIPE` and the mode."""
        return ids.digest("codec2", RECIPE, get_versions("pycodec2"), self.mode)

    @cached_property
    def layout(self) -> CodeLayout:
        """A codebook of equal weight for each entry of `_LAYOUTS` and each frame of Codec 2 in one of KAME's."""
        sizes = [2 ** len(bits) for bits in self._bits for _ in range(self.n_parts)]
        return CodeLayout.make_parametric(sizes, TEXT_LEAD, temp=0.8)

    def save(self, folder: str) -> dict[str, OptionValue]:
        """Writes no file, as the mode defines the codec, and returns the mode as an option."""
        return {"bits_per_s": self.mode}

    def to_codes(self, parts: Sequence[bytes]) -> NDArray[np.int16]:
        """Converts frames of Codec 2 to the codes of one of our frames, [n_codebooks]: by field, then by time."""
        bits = self.read_bits(parts)
        return np.concatenate([read_number(bits[:, each]) for each in self._bits]).astype(np.int16)

    def to_parts(self, codes: NDArray[np.int16]) -> list[bytes]:
        """Converts the codes of one 80 ms frame, [n_codebooks], to its `n_parts` frames of Codec 2."""
        bits = np.zeros((self.n_parts, 8 * self.n_part_bytes), np.uint8)
        for each, values in zip(self._bits, codes.reshape(-1, self.n_parts), strict=True):
            bits[:, each] = write_number(values, len(each))
        return [part.tobytes() for part in np.packbits(bits, axis=1)]


def read_number(bits: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Converts bits [..., n_bits], the highest first, to numbers [...]."""
    return np.asarray(bits @ (1 << np.arange(bits.shape[-1])[::-1]), np.int64)


def write_number(values: NDArray[np.integer], n_bits: int) -> NDArray[np.uint8]:
    """Converts numbers [...] to bits [..., n_bits], the highest first; excess bits are dropped."""
    return (values[..., None] >> np.arange(n_bits)[::-1] & 1).astype(np.uint8)


class _Voice:
    """The state of one stream: of the library, of the low-pass filter, and the position in the decoded audio."""

    def __init__(self, codec: VocoderCodec) -> None:
        self._codec = codec
        self._encoder, self._decoder = codec.make_vocoder(), codec.make_vocoder()
        self._encoded, self._decoded = codec.make_state(), codec.make_state()
        self._was_silent = True
        self._heard = np.zeros(_N_TAPS - 1, np.float32)
        self._made = np.zeros((_N_TAPS - 1) // _RATIO, np.float32)
        self._n_made = 0

    def encode_frame(self, samples: NDArray[np.float32]) -> NDArray[np.int16]:
        """Encodes the next frame, [1920] at 24 kHz, to [n_codebooks].

        A silent frame at the start or after another silent one gets the codes of silence and resets the encoder.
        """
        pcm = self.resample_frame(samples)
        was_silent = self._was_silent
        self._was_silent = bool(np.sqrt(np.square(pcm, dtype=np.float32).mean()) < _SILENT_RMS)
        if was_silent and self._was_silent:
            self._encoder, self._encoded = self._codec.make_vocoder(), self._codec.make_state()
            return self._codec.silence.copy()
        return self._codec.encode_parts(self.analyse_frame(pcm), pcm, self._encoded)

    def resample_frame(self, samples: NDArray[np.float32]) -> NDArray[np.int16]:
        """Converts the next frame, [1920] at 24 kHz, to [640] at 8 kHz."""
        from scipy.signal import upfirdn

        heard = np.concatenate([self._heard, samples])
        low = upfirdn(_design_low_pass(), heard, down=_RATIO)[len(self._heard) // _RATIO :][:_N_SAMPLES]
        self._heard = heard[-len(self._heard) :]
        return np.asarray(np.clip(np.round(low * _FULL_SCALE), -_FULL_SCALE, _FULL_SCALE - 1), np.int16)

    def analyse_frame(self, pcm: NDArray[np.int16]) -> list[bytes]:
        """Returns the library's frames of the next audio, [640] at 8 kHz."""
        return [self._encoder.encode(part) for part in np.split(pcm, self._codec.n_parts)]

    def decode_frame(self, codes: NDArray[np.int16]) -> NDArray[np.float32]:
        """Decodes the next frame's codes, [n_codebooks], to audio in [-1, 1], [1920] at 24 kHz."""
        from scipy.signal import upfirdn

        parts = self._codec.decode_parts(codes, self._decoded)
        with _NOISE.seed_at(self._n_made):
            pcm = np.concatenate([self._decoder.decode(part) for part in parts])
        self._n_made += 1
        made = np.concatenate([self._made, pcm.astype(np.float32) / _FULL_SCALE])
        high = upfirdn(_RATIO * _design_low_pass(), made, up=_RATIO)[_RATIO * len(self._made) :][:FRAME_N_SAMPLES]
        self._made = made[-len(self._made) :]
        return np.asarray(np.clip(high, -1, 1), np.float32)


def _split_into_frames(sound: Samples) -> NDArray[np.float32]:
    """Returns a recording as frames, [n_frames, 1920], the last padded with silence."""
    n_frames = count_covering_frames(len(sound))
    padded = np.pad(sound, (0, n_frames * FRAME_N_SAMPLES - len(sound)))
    return np.asarray(padded.reshape(n_frames, FRAME_N_SAMPLES), np.float32)


@cache
def _design_low_pass() -> NDArray[np.float32]:
    """Returns the coefficients of the low-pass filter at 24 kHz, [_N_TAPS]."""
    from scipy.signal import firwin

    return np.asarray(firwin(_N_TAPS, _CUTOFF_HZ, window=("kaiser", 7.0), fs=SAMPLE_RATE_HZ), np.float32)


class _Stream:
    """Several voices; inactive ones are skipped."""

    def __init__(self, codec: VocoderCodec, batch_size: int) -> None:
        self._codec = codec
        self._voices = [_Voice(codec) for _ in range(batch_size)]
        self._active = np.ones(batch_size, bool)

    def encode_frame(self, samples: NDArray[np.float32]) -> NDArray[np.int16]:
        """Encodes [B, 1920] to [B, n_codebooks]; zeros for inactive streams."""
        codes = np.zeros((len(self._voices), self._codec.n_codebooks), np.int16)
        for row in np.flatnonzero(self._active):
            codes[row] = self._voices[row].encode_frame(samples[row])
        return codes

    def decode_frame(self, codes: NDArray[np.int16]) -> NDArray[np.float32]:
        """Decodes [B, n_codebooks] to [B, 1920]; silence for inactive streams."""
        samples = np.zeros((len(self._voices), FRAME_N_SAMPLES), np.float32)
        for row in np.flatnonzero(self._active):
            samples[row] = self._voices[row].decode_frame(codes[row])
        return samples

    def set_active(self, active: NDArray[np.bool_]) -> None:
        """Sets which streams are active from now on."""
        self._active = np.array(active, bool)

    def reset(self, streams: NDArray[np.bool_]) -> None:
        """Resets streams and makes them active."""
        for row in np.flatnonzero(streams):
            self._voices[row] = _Voice(self._codec)
        self._active |= streams


class _Noise:
    """Seeds the library's random numbers, which become the phases of unvoiced sounds.

    They come from a global variable that is never set (`next` in src/sine.c), so that the same codes would sound
    different each time. It is found in the library's memory by the effect of a draw, and is set before each frame by
    the frame's position in its audio.
    """

    def __init__(self) -> None:
        self._lock = Lock()

    @contextmanager
    def seed_at(self, place: int) -> Iterator[None]:
        """Seeds the numbers for the frame at this position in its audio, and locks out other threads during the block.

        Nothing is seeded on a system where the library's variable was not found.
        """
        with self._lock:
            if (variable := self._variable) is not None:
                variable.value = place * 0x9E3779B97F4A7C15 + 1  # golden ratio: neighbouring places have unlike numbers
            yield

    @cached_property
    def _variable(self) -> ctypes.c_uint64 | None:
        """The library's variable; None, with a warning, unless exactly one word of its memory changes as by a draw."""
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
        _log.warning(
            "Codec 2's noise cannot be seeded on this system: the same codes will sound slightly different each time."
        )
        return None


_NOISE = _Noise()


def _find_writable_memory(address: int) -> Iterator[tuple[int, int]]:
    """Yields start address and size in bytes of each writable region of the library that contains an address.

    Yields nothing except on Linux.
    """
    maps = Path("/proc/self/maps")
    regions = []
    for line in maps.read_text().splitlines() if maps.exists() else ():
        span, rights, _, _, _, *name = line.split(maxsplit=5)
        start, stop = (int(each, 16) for each in span.split("-"))
        regions.append((start, stop, "w" in rights, name))
    library = next((name for start, stop, _, name in regions if start <= address < stop), [])
    yield from ((start, stop - start) for start, stop, is_writable, name in regions if is_writable and name == library)
