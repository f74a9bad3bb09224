"""Audio augmentation: background noise, room reverberation and a telephone band; word times do not move.

pyroomacoustics simulates rooms, and scipy filters. audiomentations wraps these two, but adds 15 packages (librosa,
numba, scikit-learn, …), requires soxr < 1, uses global random states and keeps the delay of a room's direct path;
pedalboard is GPL-3.
"""

from dataclasses import dataclass

import numpy as np

from backends.engine import Samples
from data_schemas.units import SAMPLE_RATE_HZ

TELEPHONE_BAND_HZ = (300.0, 3_400.0)
"""The pass band of a telephone line (ITU-T G.712)."""

_LOWEST_HZ = 60.0  # noise has nothing below: no DC, and a level that is constant over a word


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A box-shaped room with the caller and the microphone in it, in metres, and its reverberation time."""

    size_m: tuple[float, float, float]
    caller_m: tuple[float, float, float]
    microphone_m: tuple[float, float, float]
    rt60_s: float


def make_coloured_noise(n_samples: int, slope: float, seed: int) -> Samples:
    """Makes noise at 24 kHz, [n_samples], whose power falls with frequency to the power `slope`, and is 0 below 60 Hz.

    White at 0, pink at 1 (rooms, ventilation), brown at 2 (traffic behind walls). The level is arbitrary.
    """
    from scipy import fft

    length = fft.next_fast_len(max(n_samples, 2), real=True)
    spectrum = fft.rfft(np.random.default_rng(seed).standard_normal(length, dtype=np.float32))
    frequency_hz = np.maximum(fft.rfftfreq(length, 1 / SAMPLE_RATE_HZ), _LOWEST_HZ)
    shape = (frequency_hz / _LOWEST_HZ) ** (-slope / 2)
    shape[fft.rfftfreq(length, 1 / SAMPLE_RATE_HZ) < _LOWEST_HZ] = 0.0
    noise: Samples = fft.irfft(spectrum * shape, n=length)[:n_samples].astype(np.float32)
    return noise


def filter_telephone_band(sound: Samples) -> Samples:
    """Filters audio at 24 kHz to 300 to 3,400 Hz, forwards and backwards so that nothing is delayed.

    Raises:
        ValueError: the audio has fewer than 28 samples.
    """
    from scipy import signal

    sections = signal.butter(4, TELEPHONE_BAND_HZ, btype="bandpass", fs=SAMPLE_RATE_HZ, output="sos")
    filtered: Samples = signal.sosfiltfilt(sections, sound).astype(np.float32)
    return filtered


def put_in_room(speech: Samples, room: Room) -> Samples:
    """Returns speech with the reverberation of a room, in the same length and without the delay of the direct path.

    Input and output are at 24 kHz. Reverberation after the end is cut off, and the last 20 ms are faded out. The level
    is not restored: it depends on the room and on the distance to the microphone.

    Raises:
        ValueError: as `simulate_impulse_response`.
    """
    from scipy import signal

    response, delay = simulate_impulse_response(room)
    heard: Samples = signal.oaconvolve(speech, response)[delay : delay + len(speech)].astype(np.float32)
    n_fade = min(len(heard), SAMPLE_RATE_HZ // 50)
    heard[len(heard) - n_fade :] *= np.linspace(1, 0, n_fade, dtype=np.float32)
    return heard


def simulate_impulse_response(room: Room) -> tuple[Samples, int]:
    """Simulates a room's impulse response at 24 kHz by the image source method.

    From then on pyroomacoustics uses one thread in this process.

    Returns:
        The response, [n_samples], and the index of the sample at which its direct path arrives.

    Raises:
        ValueError: the room is too large for its reverberation time, or caller or microphone are not inside it.
    """
    import pyroomacoustics

    pyroomacoustics.constants.set("num_threads", 1)  # there is one worker per core, and the order of additions is fixed
    absorption, order = pyroomacoustics.inverse_sabine(room.rt60_s, room.size_m)
    box = pyroomacoustics.ShoeBox(
        room.size_m, fs=SAMPLE_RATE_HZ, materials=pyroomacoustics.Material(absorption), max_order=order
    )
    box.add_source(room.caller_m)
    box.add_microphone(room.microphone_m)
    box.compute_rir()
    distance_m = float(np.linalg.norm(np.subtract(room.caller_m, room.microphone_m)))
    # every path is an interpolation filter, centred half its length after the path's own delay
    delay = distance_m / box.c * SAMPLE_RATE_HZ + pyroomacoustics.constants.get("frac_delay_length") // 2
    return np.asarray(box.rir[0][0], np.float32), round(delay)
