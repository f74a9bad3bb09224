"""The parameters of speech that Codec 2 sends at 3,200 bit/s: reading them from its bits, and writing them."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from backends.codec.codec2 import read_number, write_number

MODE: Final = 3_200
"""Bits per second of the mode, which has one set of parameters per 20 ms."""

QUIET_DB: Final = 12.0
"""Power of 20 ms below which spectrum and pitch are undefined."""

N_LINES: Final = 10
_LINE_STEP_HZ: Final = 25.0  # `lsp_cbd` of Codec 2: each line's distance from the one below
_LEAST_DB, _ENERGY_STEP_DB = -10.0, 50 / 32  # E_MIN_DB, and E_MAX_DB of 32 levels (src/quantise.h)
_LEAST_PITCH_HZ, _PITCH_STEP_HZ = 50.0, 350 / 128  # periods of 160 to 20 samples in 128 levels
_N_PITCHES: Final = 128
_FREQUENCIES: Final = np.linspace(60, 3_800, 64) * np.pi / 4_000


class Parameters(NamedTuple):
    """Frames of Codec 2 at 3,200 bit/s: `lines_hz` [n, 10], `voicing` [n, 2], `pitch` (a level) [n], `power_db` [n]."""

    lines_hz: NDArray[np.float64]
    voicing: NDArray[np.int64]
    pitch: NDArray[np.int64]
    power_db: NDArray[np.float64]

    def group_in_pairs(self) -> "Parameters":
        """Returns the frames grouped in pairs, of 40 ms each: [n, …] becomes [n / 2, 2, …]."""
        lines, voicing = self.lines_hz.reshape(-1, 2, N_LINES), self.voicing.reshape(-1, 2, 2)
        return Parameters(lines, voicing, self.pitch.reshape(-1, 2), self.power_db.reshape(-1, 2))


def read_parameters(bits: NDArray[np.uint8]) -> Parameters:
    """Parses frames of Codec 2 at 3,200 bit/s, [n, 64], to parameters (`codec2_decode_3200`, src/codec2.c)."""
    lines_hz = _LINE_STEP_HZ * (1 + _decode_gray(read_number(bits[:, 14:].reshape(len(bits), N_LINES, 5)))).cumsum(
        axis=1
    )
    energy_db = _LEAST_DB + _ENERGY_STEP_DB * _decode_gray(read_number(bits[:, 9:14]))
    pitch = _decode_gray(read_number(bits[:, 2:9]))
    return Parameters(lines_hz, bits[:, :2].astype(np.int64), pitch, energy_db + compute_gain_db(lines_hz))


def write_parameters(parameters: Parameters) -> NDArray[np.uint8]:
    """Converts parameters to frames of Codec 2 at 3,200 bit/s, [n, 64] bits; the reverse of `read_parameters`.

    Each line frequency is rounded to the nearest step from the one below it. Frames without sound get the least energy.
    """
    steps, below_hz = np.zeros(parameters.lines_hz.shape, np.int64), np.zeros(len(parameters.lines_hz))
    for line in range(N_LINES):
        steps[:, line] = np.clip(np.round((parameters.lines_hz[:, line] - below_hz) / _LINE_STEP_HZ) - 1, 0, 31)
        below_hz = below_hz + _LINE_STEP_HZ * (1 + steps[:, line])
    written_hz = _LINE_STEP_HZ * (1 + steps).cumsum(axis=1)
    energy_db = np.where(parameters.power_db > QUIET_DB, parameters.power_db - compute_gain_db(written_hz), _LEAST_DB)
    energy = np.clip(np.round((energy_db - _LEAST_DB) / _ENERGY_STEP_DB), 0, 31).astype(np.int64)
    fields = (parameters.voicing, write_number(_to_gray(parameters.pitch), 7), write_number(_to_gray(energy), 5))
    return np.concatenate([*fields, write_number(_to_gray(steps), 5).reshape(len(steps), -1)], axis=1).astype(np.uint8)


def compute_gain_db(lines_hz: NDArray[np.floating]) -> NDArray[np.float64]:
    """Computes the mean power, dB, of a spectrum's filter for a residual of power 1: lines in Hz, [n, 10], to [n].

    |A|² = 2^10 (cos²(w/2) Π (cos w - cos l)² over odd lines l + sin²(w/2) Π over even ones), the spectrum is 1 / |A|².
    """
    w, lines = np.cos(_FREQUENCIES)[:, None], np.cos(np.clip(lines_hz, 30, 3_990) * np.pi / 4_000)[:, None]
    odd = np.prod(np.square(w - lines[..., 0::2]), axis=-1) * np.square(np.cos(_FREQUENCIES / 2))
    even = np.prod(np.square(w - lines[..., 1::2]), axis=-1) * np.square(np.sin(_FREQUENCIES / 2))
    return np.asarray(10 * np.log10((1 / (2**N_LINES * (odd + even) + 1e-9)).mean(axis=-1)))


def get_octaves(pitch: NDArray[np.integer]) -> NDArray[np.float64]:
    """Returns levels of pitch as octaves above 50 Hz."""
    return np.asarray(np.log2((_LEAST_PITCH_HZ + _PITCH_STEP_HZ * pitch) / _LEAST_PITCH_HZ))


def get_pitch_levels(octaves: NDArray[np.floating]) -> NDArray[np.int64]:
    """Returns the nearest of the 128 levels of pitch to octaves above 50 Hz; the reverse of `get_octaves`."""
    levels = (_LEAST_PITCH_HZ * 2.0**octaves - _LEAST_PITCH_HZ) / _PITCH_STEP_HZ
    return np.clip(np.round(levels), 0, _N_PITCHES - 1).astype(np.int64)


def to_mel(hz: NDArray[np.floating]) -> NDArray[np.float64]:
    """Converts Hz to mel, in units of 100 mel."""
    return np.asarray(25.95 * np.log10(1 + hz / 700))


def mel_to_hz(mel: NDArray[np.floating]) -> NDArray[np.float64]:
    """Converts mel, in units of 100 mel, to Hz; the reverse of `to_mel`."""
    return np.asarray(700 * (10 ** (mel / 25.95) - 1))


def _decode_gray(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Decodes Gray code of at most 7 bits, in which the library writes numbers of several bits."""
    for shift in (4, 2, 1):
        numbers = numbers ^ (numbers >> shift)
    return numbers


def _to_gray(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Encodes numbers in Gray code; the reverse of `_decode_gray`."""
    return numbers ^ (numbers >> 1)
