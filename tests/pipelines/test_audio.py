"""Sound through FLAC and wav, and levels in dB."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_schemas.errors import StoreError
from data_schemas.units import SAMPLE_RATE_HZ
from pipelines.audio import (
    EDGE_S,
    SILENCE_DBFS,
    Sound,
    decode_flac,
    fade_edges,
    measure_peak_dbfs,
    measure_rms_dbfs,
    save_wav,
    scale_to_level,
    to_flac,
)


def tone(amplitude: float, n_samples: int = 4_800) -> Sound:
    sound: Sound = (amplitude * np.sin(np.arange(n_samples) * 0.1)).astype(np.float32)
    return sound


def test_flac_keeps_both_channels_to_16_bits() -> None:
    sound = np.stack([tone(0.5), tone(0.1)], axis=1)
    back = decode_flac(to_flac(sound))
    assert back.shape == sound.shape
    assert np.abs(back - sound).max() <= 2**-15


def test_levels_of_a_full_sine_are_those_of_the_book() -> None:
    assert measure_rms_dbfs(tone(1.0)) == pytest.approx(-3.01, abs=0.05)
    assert measure_peak_dbfs(tone(1.0)) == pytest.approx(0.0, abs=0.01)
    assert measure_rms_dbfs(tone(0.1)) == pytest.approx(-23.01, abs=0.05)


@pytest.mark.parametrize("sound", [np.zeros(0, np.float32), np.zeros(100, np.float32)])
def test_silence_has_a_level_too_and_stays_silent(sound: Sound) -> None:
    assert measure_rms_dbfs(sound) == measure_peak_dbfs(sound) == SILENCE_DBFS
    assert np.array_equal(scale_to_level(sound, -20.0), sound)


@given(amplitude=st.floats(1e-3, 1), level_dbfs=st.floats(-40, -10))
def test_a_sound_is_brought_to_its_level(amplitude: float, level_dbfs: float) -> None:
    assert measure_rms_dbfs(scale_to_level(tone(amplitude), level_dbfs)) == pytest.approx(level_dbfs, abs=0.01)


@given(level_dbfs=st.floats(-40, 0), length=st.integers(1, 400))
def test_no_level_makes_it_clip(level_dbfs: float, length: int) -> None:
    peaky = np.zeros(4_800, np.float32)
    peaky[:length] = tone(0.2, length)
    peaky[0] = 0.9
    assert measure_peak_dbfs(scale_to_level(peaky, level_dbfs)) <= -1.0


@given(n_samples=st.integers(240, 4_800), end_s=st.sampled_from([EDGE_S, 0.05]))
def test_a_faded_sound_comes_out_of_silence_and_goes_into_it_without_a_click(n_samples: int, end_s: float) -> None:
    sound = np.full(n_samples, 0.5, np.float32)
    edges = np.concatenate([[0], fade_edges(sound, end_s), [0]])
    slope = 0.5 * np.pi / 2 / (EDGE_S * SAMPLE_RATE_HZ)  # a raised cosine's
    assert np.abs(np.diff(edges)).max() <= 2 * slope
    assert sound.min() == 0.5, "the sound itself is not changed"


def test_a_fade_leaves_the_middle_as_it_is() -> None:
    sound = tone(0.5)
    quieter = fade_edges(sound, 0.05)
    assert np.array_equal(quieter[120:-1_200], sound[120:-1_200])
    assert quieter[0] == quieter[-1] == 0


def test_a_wav_that_cannot_be_written_is_our_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no_such_folder"):
        save_wav(to_flac(tone(0.5)), tmp_path / "no_such_folder" / "out.wav")
