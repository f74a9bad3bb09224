"""The user's channel: levels, noise, rooms and the telephone are as drawn, and no word comes later for them."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import signal

from backends.acoustics import simulate_impulse_response
from data_schemas.config import SurroundingsConfig
from data_schemas.units import SAMPLE_RATE_HZ, seconds_to_samples
from pipelines.audio import PEAK_LIMIT, Sound, decode_flac, measure_peak_dbfs, measure_rms_dbfs
from pipelines.mixing.surroundings import SurroundingsPlan, apply_surroundings, draw_plan
from pipelines.quality.dialogue_rules import check_dialogue
from tests.support import mixed as made

EVERYTHING = SurroundingsConfig(
    noise_share=1, room_share=1, telephone_share=1, rt60_max_s=0.2, snr_min_db=20, snr_max_db=20
)
SAID = [slice(4_800, 19_200), slice(28_800, 43_200)]


def plan(**changes: object) -> SurroundingsPlan:
    config = SurroundingsConfig(room_share=1, rt60_max_s=0.2)
    drawn = replace(draw_plan(config, random.Random(3)), level_dbfs=-26.0, snr_db=None, is_telephone=False)
    return replace(drawn, **{"room": None, **changes})  # type: ignore[arg-type]


ROOM = draw_plan(SurroundingsConfig(room_share=1, rt60_max_s=0.2), random.Random(3)).room


def speech() -> Sound:
    """Two noisy stretches of a second's half each with silence around them, like speech in its band."""
    sound = np.zeros(48_000, np.float32)
    band = signal.butter(2, (150, 4_000), btype="bandpass", fs=SAMPLE_RATE_HZ, output="sos")
    voice = signal.sosfilt(band, np.random.default_rng(5).standard_normal(48_000))
    for each in SAID:
        sound[each] = 0.1 * voice[each] * np.hanning(each.stop - each.start)
    return sound


def shift_s(one: Sound, other: Sound) -> float:
    """By how much `other` comes later: where the two correlate best."""
    correlation = signal.correlate(other, one, method="fft")
    lags = signal.correlation_lags(len(other), len(one))
    return float(lags[np.argmax(np.abs(correlation))]) / SAMPLE_RATE_HZ


ALL = {"room": ROOM, "is_telephone": True, "snr_db": 15.0}


@pytest.mark.parametrize("changes", [{"room": ROOM}, {"is_telephone": True}, {"snr_db": 15.0, "noise_slope": 1.0}, ALL])
def test_words_come_no_later_for_what_is_around_them(changes: dict[str, object]) -> None:
    clean = speech()
    heard, _ = apply_surroundings(clean, SAID, plan(**changes))
    assert len(heard) == len(clean)
    for each in SAID:
        around = slice(each.start - 2_400, each.stop + 2_400)
        assert abs(shift_s(clean[around], heard[around])) < 0.002


@settings(max_examples=8)
@given(seed=st.integers(0, 2**40))
def test_a_rooms_first_sound_is_the_direct_path(seed: int) -> None:
    room = draw_plan(SurroundingsConfig(room_share=1, rt60_max_s=0.2), random.Random(seed)).room
    assert room is not None
    response, delay = simulate_impulse_response(room)
    assert abs(int(np.argmax(np.abs(response))) - delay) <= seconds_to_samples(0.002)
    assert np.abs(response[: delay - seconds_to_samples(0.002)]).max() < 0.1 * np.abs(response).max()


def test_speech_and_noise_have_the_levels_they_are_written_down_with_or_stay_silent() -> None:
    heard, said = apply_surroundings(speech(), SAID, plan(snr_db=20.0, noise_slope=1.0))
    assert (said.level_dbfs, said.noise_dbfs) == (-26.0, -46.0)
    assert measure_rms_dbfs(np.concatenate([heard[each] for each in SAID])) == pytest.approx(-26.0, abs=0.3)
    assert measure_rms_dbfs(heard[:4_800]) == pytest.approx(-46.0, abs=2.0)
    assert abs(float(heard.mean())) < 1e-4, "no DC"
    heard, said = apply_surroundings(np.zeros(24_000, np.float32), [], plan())
    assert not heard.any()
    assert said.noise_dbfs is None


@settings(max_examples=20)
@given(level_dbfs=st.floats(-40, -10), snr_db=st.floats(6, 60))
def test_nothing_clips_and_the_level_written_down_is_the_one_reached(level_dbfs: float, snr_db: float) -> None:
    peaky = speech()
    peaky[SAID[0].start + 100] = 0.9
    heard, said = apply_surroundings(peaky, SAID, plan(level_dbfs=level_dbfs, snr_db=snr_db))
    assert np.abs(heard).max() <= PEAK_LIMIT + 1e-6
    assert said.level_dbfs <= level_dbfs + 1e-3
    assert said.noise_dbfs == pytest.approx(said.level_dbfs - snr_db, abs=0.002)
    quiet, said = apply_surroundings(peaky, SAID, plan(level_dbfs=level_dbfs))
    assert measure_rms_dbfs(np.concatenate([quiet[each] for each in SAID])) == pytest.approx(said.level_dbfs, abs=0.01)


def test_shares_are_those_asked_for_and_one_does_not_move_what_is_drawn_for_another() -> None:
    config = SurroundingsConfig()
    plans = [draw_plan(config, random.Random(seed)) for seed in range(1_000)]
    assert sum(each.snr_db is not None for each in plans) == pytest.approx(500, abs=50)
    assert sum(each.room is not None for each in plans) == pytest.approx(300, abs=45)
    assert sum(each.is_telephone for each in plans) == pytest.approx(100, abs=30)
    assert all(config.level_min_dbfs <= each.level_dbfs <= config.level_max_dbfs for each in plans)
    assert all(config.rt60_min_s <= each.room.rt60_s <= config.rt60_max_s for each in plans if each.room)
    one = draw_plan(SurroundingsConfig(noise_share=0, room_share=1), random.Random(9))
    other = draw_plan(SurroundingsConfig(noise_share=1, room_share=1, telephone_share=1), random.Random(9))
    assert (one.level_dbfs, one.room) == (other.level_dbfs, other.room)
    assert (one.snr_db, one.is_telephone) == (None, False)


@pytest.mark.parametrize(
    ("bound", "least", "most"), [("level_%s_dbfs", -30, -20), ("snr_%s_db", 20, 30), ("rt60_%s_s", 0.3, 0.4)]
)
def test_bounds_that_are_crossed_are_refused(bound: str, least: float, most: float) -> None:
    with pytest.raises(ValidationError, match="is above"):
        SurroundingsConfig.model_validate({bound % "min": most, bound % "max": least})


def test_a_row_is_clean_on_the_assistants_side_and_passes_the_rules_on_the_users() -> None:
    clean, row = made.mixed(made.interrupted()), made.mixed(made.interrupted(), EVERYTHING)
    assert row.turns == clean.turns
    assert np.array_equal(decode_flac(row.flac)[:, 0], decode_flac(clean.flac)[:, 0])
    assert list(check_dialogue(row)) == []
    around = row.surroundings
    assert around.is_telephone
    assert around.room_rt60_s == 0.2
    assert around.noise_dbfs == pytest.approx(around.level_dbfs - 20, abs=0.002)
    user = decode_flac(row.flac)[:, 1]
    assert measure_rms_dbfs(user[:2_400]) == pytest.approx(around.noise_dbfs, abs=3)
    assert measure_peak_dbfs(user) <= -1.0 + 0.01
