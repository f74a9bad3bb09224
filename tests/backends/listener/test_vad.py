import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.engine import Samples
from backends.listener import vad
from backends.listener.vad import Change, SpeechMeter, TurnDetector
from data_schemas.errors import BackendError
from data_schemas.units import SAMPLE_RATE_HZ
from tests.support.spoken_question import silence, spoken_question

TURN_END_S = 0.7


@pytest.fixture(scope="module")
def speech() -> Samples:
    return spoken_question()


def changes(detector: TurnDetector, sound: Samples, n_chunk: int = 1920) -> list[tuple[Change, float]]:
    """What changes, and when: at the end of the chunk that told it, seconds."""
    return [
        (change, (start + n_chunk) / SAMPLE_RATE_HZ)
        for start in range(0, len(sound), n_chunk)
        for change in detector.feed(sound[start : start + n_chunk])
    ]


def test_a_turn_starts_soon_after_its_first_sound_and_stops_after_the_silence_asked_for(speech: Samples) -> None:
    sound = np.concatenate([silence(1), speech, silence(2), speech, silence(2)])
    told = changes(TurnDetector(0.5, TURN_END_S), sound)
    assert [change for change, _ in told] == ["started", "stopped"] * 2
    speech_s = len(speech) / SAMPLE_RATE_HZ
    for (_, started_s), (_, stopped_s), begin_s in zip(told[::2], told[1::2], (1, 3 + speech_s), strict=True):
        assert begin_s < started_s < begin_s + 0.35
        assert begin_s + speech_s + TURN_END_S - 0.2 < stopped_s < begin_s + speech_s + TURN_END_S + 0.3


def test_a_pause_shorter_than_asked_for_ends_no_turn_and_what_is_adjusted_counts_from_then_on(speech: Samples) -> None:
    detector = TurnDetector(0.5, 1.5)
    sound = np.concatenate([silence(1), speech, silence(1), speech])
    assert [change for change, _ in changes(detector, sound)] == ["started"]
    detector.adjust(0.5, 0.3)
    assert [change for change, _ in changes(detector, silence(1))] == ["stopped"]
    detector.reset()
    sound = np.concatenate([silence(1), speech, silence(1)])
    assert [change for change, _ in changes(detector, sound)] == ["started", "stopped"]


@pytest.mark.parametrize("name", ["silence", "nothing", "noise", "click", "tone"])
def test_what_is_no_speech_starts_no_turn(name: str) -> None:
    rng = np.random.default_rng(1)
    sounds = {
        "silence": silence(3),
        "nothing": np.zeros(0, dtype=np.float32),
        "noise": rng.normal(0, 0.05, 3 * SAMPLE_RATE_HZ).astype(np.float32),
        "click": np.concatenate([silence(1), np.full(240, 0.9, dtype=np.float32), silence(1)]),
        "tone": (0.3 * np.sin(np.arange(3 * SAMPLE_RATE_HZ) * 0.26)).astype(np.float32),
    }
    assert changes(TurnDetector(0.5, TURN_END_S), sounds[name]) == []


@settings(max_examples=10)
@given(st.lists(st.integers(1, 6000), min_size=1, max_size=30))
def test_probabilities_do_not_depend_on_how_the_sound_is_cut(speech: Samples, lengths: list[int]) -> None:
    sound = speech[: sum(lengths)]
    whole = SpeechMeter().feed(sound)
    meter = SpeechMeter()
    cut = [window for piece in np.split(sound, np.cumsum(lengths)[:-1]) for window in meter.feed(piece)]
    n_same = min(len(whole), len(cut))  # the resampler holds back a little, as much as its last call lets it
    assert abs(len(whole) - len(cut)) <= 1
    np.testing.assert_allclose(
        [each.probability for each in cut[:n_same]], [each.probability for each in whole[:n_same]], atol=1e-3
    )


def test_after_a_reset_nothing_of_before_is_left(speech: Samples) -> None:
    detector = TurnDetector(0.5, TURN_END_S)
    fresh = changes(detector, speech)
    assert detector.is_speaking
    detector.reset()
    assert not detector.is_speaking
    assert changes(detector, speech) == fresh


def test_a_missing_model_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vad, "find_spec", lambda name: None)
    vad._load_session.cache_clear()
    try:
        with pytest.raises(BackendError, match=r"no model of silero-vad here\. Install kame-pipeline\[serve\]"):
            TurnDetector(0.5, TURN_END_S)
    finally:
        vad._load_session.cache_clear()
