import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.asr.moonshine import Moonshine, split_sound
from backends.engine import Samples
from backends.tts.kokoro import Kokoro

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def speech() -> Samples:
    kokoro = Kokoro()
    return kokoro.synthesise("The capital of France is Paris.", kokoro.list_voices()[0].name, 1.0).samples


def test_long_recordings_are_written_down_to_the_end(speech: Samples) -> None:
    pause = np.zeros(24_000, dtype=np.float32)
    recording = np.concatenate([speech, pause] * 8)
    assert Moonshine().transcribe(recording, 24_000).lower().count("paris") == 8


@given(st.lists(st.sampled_from([0.0, 0.01, 0.5]), min_size=1, max_size=40))
def test_pieces_are_all_of_the_recording_and_short_enough(levels: list[float]) -> None:
    sound = np.repeat(np.asarray(levels, dtype=np.float32), 2 * 16_000)
    cut = list(split_sound(sound))
    np.testing.assert_array_equal(np.concatenate(cut), sound)
    assert all(len(piece) <= 28 * 16_000 for piece in cut)


def test_a_long_recording_is_cut_where_it_is_quiet() -> None:
    sound = np.ones(40 * 16_000, dtype=np.float32)
    sound[20 * 16_000 : 21 * 16_000] = 0
    first, _ = split_sound(sound)
    assert 20 * 16_000 < len(first) < 21 * 16_000
