"""A room echoes as long as it says, a telephone lets its band through, noise falls as its slope says."""

import numpy as np
import pytest

from backends.acoustics import Room, filter_telephone_band, make_coloured_noise, simulate_impulse_response
from backends.engine import Samples
from data_schemas.units import SAMPLE_RATE_HZ

ROOM = Room(size_m=(5.0, 4.0, 2.6), caller_m=(2.0, 1.8, 1.4), microphone_m=(2.5, 2.1, 1.2), rt60_s=0.3)


def test_a_room_echoes_as_long_as_it_says() -> None:
    response, delay = simulate_impulse_response(ROOM)
    left = np.cumsum(np.square(response[delay:], dtype=np.float64)[::-1])[::-1]  # Schroeder's backward integration
    decay_db = 10 * np.log10(left / left[0])
    at_5, at_25 = (int(np.argmax(decay_db < -level)) for level in (5, 25))
    assert 3 * (at_25 - at_5) / SAMPLE_RATE_HZ == pytest.approx(0.3, rel=0.25)


def band_dbfs(sound: Samples, low_hz: float, high_hz: float) -> float:
    power = np.square(np.abs(np.fft.rfft(sound)))
    frequency_hz = np.fft.rfftfreq(len(sound), 1 / SAMPLE_RATE_HZ)
    return 10 * float(np.log10(power[(frequency_hz >= low_hz) & (frequency_hz < high_hz)].mean()))


def test_a_telephone_lets_its_band_through() -> None:
    line = filter_telephone_band(make_coloured_noise(48_000, 0.0, 1))
    middle = band_dbfs(line, 500, 3_000)
    assert band_dbfs(line, 60, 150) < middle - 25
    assert band_dbfs(line, 6_000, 12_000) < middle - 25
    assert middle == pytest.approx(band_dbfs(make_coloured_noise(48_000, 0.0, 1), 500, 3_000), abs=1.0)


@pytest.mark.parametrize("slope", [0.0, 1.0, 2.0])
def test_noise_falls_as_its_slope_says(slope: float) -> None:
    noise = make_coloured_noise(96_000, slope, 2)
    octaves_3_db = 3 * 10 * np.log10(2) * slope
    fall_db = band_dbfs(noise, 180, 220) - band_dbfs(noise, 1_440, 1_760)
    assert fall_db == pytest.approx(octaves_3_db, abs=1.5)
    assert not np.array_equal(noise, make_coloured_noise(96_000, slope, 3))
    assert band_dbfs(noise, 0, 40) < band_dbfs(noise, 60, 100) - 30
