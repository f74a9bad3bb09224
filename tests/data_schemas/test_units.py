"""Seconds, samples and frames turn into one another without loss, and into frames as kame_finetune has it."""

from hypothesis import given
from hypothesis import strategies as st

from data_schemas import units

RATES_HZ = st.sampled_from([8_000, 16_000, 24_000, 44_100, 48_000])


@given(n_samples=st.integers(0, 10**10), rate_hz=RATES_HZ)
def test_samples_survive_being_seconds(n_samples: int, rate_hz: int) -> None:
    assert units.seconds_to_samples(units.samples_to_seconds(n_samples, rate_hz), rate_hz) == n_samples


@given(time_s=st.floats(0, 10_000), rate_hz=RATES_HZ)
def test_a_time_moves_by_half_a_sample_at_most(time_s: float, rate_hz: int) -> None:
    back_s = units.samples_to_seconds(units.seconds_to_samples(time_s, rate_hz), rate_hz)
    assert abs(back_s - time_s) <= 0.5 / rate_hz + 1e-9


@given(n_samples=st.integers(0, 24_000 * 3_600))
def test_stored_times_name_their_sample(n_samples: int) -> None:
    assert units.seconds_to_samples(units.round_s(units.samples_to_seconds(n_samples))) == n_samples


def test_the_two_roundings_to_frames_differ_where_floats_do() -> None:
    assert (units.find_text_frame(0.24), units.find_event_frame(0.24)) == (2, 3)
    assert (units.find_text_frame(0.0), units.find_event_frame(0.0)) == (0, 0)
    assert (units.find_text_frame(1.0), units.find_event_frame(1.0)) == (12, 12)


@given(time_s=st.floats(0, 10_000))
def test_the_two_roundings_to_frames_are_one_apart_at_most(time_s: float) -> None:
    assert abs(units.find_event_frame(time_s) - units.find_text_frame(time_s)) <= 1


@given(n_samples=st.integers(0, 10**9))
def test_frames_cover_all_samples_and_no_frame_is_empty(n_samples: int) -> None:
    n_frames = units.count_covering_frames(n_samples)
    assert (n_frames - 1) * units.FRAME_N_SAMPLES < n_samples or (n_samples, n_frames) == (0, 0)
    assert n_samples <= n_frames * units.FRAME_N_SAMPLES
