import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.aligner.double import DoubleAligner
from backends.aligner.protocol import AlignmentRefused
from backends.asr.double import DoubleRecogniser
from backends.tts.double import BURST_S, GAP_S, DoubleTts
from backends.tts.protocol import SpeechRefused
from data_schemas.errors import ConfigError

WORDS = st.lists(st.sampled_from(["two", "apples", "and", "don't", "DNA", "cost", "A", "lot"]), min_size=1, max_size=30)


@given(words=WORDS, speed=st.floats(0.5, 2))
@pytest.mark.full
def test_every_word_lies_exactly_where_the_aligner_says(words: list[str], speed: float) -> None:
    sound = DoubleTts().synthesise(", ".join(words) + ".", "double_b", speed).samples
    timings = DoubleAligner().align(sound, 24_000, words)
    assert [timing.word for timing in timings] == words
    silent = np.ones(len(sound), dtype=bool)
    for timing in timings:
        start, end = round(timing.start_s * 24_000), round(timing.end_s * 24_000)
        assert abs(sound[start + 200 : end - 200]).max() > 0.25
        silent[start:end] = False
    assert not sound[silent].any()


def test_at_speed_one_times_follow_from_the_constants() -> None:
    sound = DoubleTts().synthesise("one two three", "double_a", 1.0).samples
    timings = DoubleAligner().align(sound, 24_000, ["one", "two", "three"])
    assert [timing.start_s for timing in timings] == pytest.approx([0, BURST_S + GAP_S, 2 * (BURST_S + GAP_S)])
    assert timings[-1].end_s * 24_000 == len(sound)


def test_the_same_words_sound_the_same_and_other_words_and_voices_do_not() -> None:
    tts = DoubleTts()
    sounds = [tts.synthesise(text, voice, 1.0).samples for text in ("yes", "no") for voice in ("double_a", "double_b")]
    assert np.array_equal(sounds[0], tts.synthesise("yes", "double_a", 1.0).samples)
    assert all(not np.array_equal(sounds[0], other) for other in sounds[1:])
    assert len({voice.digest for voice in tts.voices()}) == len(tts.voices()) == 3


@pytest.mark.parametrize("text", ["", " ", "?!"])
def test_nothing_to_say_is_refused(text: str) -> None:
    with pytest.raises(SpeechRefused):
        DoubleTts().synthesise(text, "double_a", 1.0)


def test_an_unknown_voice_is_refused_with_the_names_of_those_there_are() -> None:
    with pytest.raises(ConfigError, match="double_c"):
        DoubleTts().synthesise("yes", "nobody", 1.0)


@given(words=WORDS, surplus=st.integers(1, 5))
def test_other_numbers_of_words_are_refused(words: list[str], surplus: int) -> None:
    sound = DoubleTts().synthesise(" ".join(words), "double_a", 1.0).samples
    with pytest.raises(AlignmentRefused):
        DoubleAligner().align(sound, 24_000, words + ["more"] * surplus)


def test_silence_and_no_words() -> None:
    with pytest.raises(AlignmentRefused):
        DoubleAligner().align(np.zeros(24_000, dtype=np.float32), 24_000, ["yes"])
    assert DoubleAligner().align(np.zeros(24_000, dtype=np.float32), 24_000, []) == []


def test_the_recogniser_hears_what_it_is_told() -> None:
    sound = np.zeros(10, dtype=np.float32)
    assert DoubleRecogniser("two apples").transcribe(sound, 24_000) == "two apples"
    assert DoubleRecogniser().transcribe(sound, 24_000) == ""
