"""Piper with the voice that comes along: what it says, and when it says that it said it."""

import numpy as np
import pytest

from backends import registry
from backends.aligner.pocketsphinx import PocketsphinxAligner
from backends.tts.piper import Piper
from backends.tts.protocol import SpeechRefused
from data_schemas.errors import ConfigError

pytestmark = pytest.mark.slow

JOE = "en_US-joe-medium"
TIMED = (
    "Natalia sold clips to forty eight friends, and then she sold half as many clips.",
    "Betty is saving money because she wants a new wallet.",
    "Each box holds twenty pens, and Maria bought seven boxes.",
    "The answer is sixteen point five. How many clips did Natalia sell altogether?",
)


@pytest.fixture(scope="module")
def tts() -> Piper:
    built = registry.build("tts", "piper", {})
    assert isinstance(built, Piper)
    return built


def words_of(text: str) -> list[str]:
    return text.replace(",", "").replace(".", "").replace("?", "").split()


def test_the_voice_that_comes_along_is_free(tts: Piper) -> None:
    assert [(voice.name, voice.licence, voice.language) for voice in tts.list_voices()] == [(JOE, "CC0-1.0", "en-us")]


@pytest.mark.parametrize("text", TIMED)
def test_words_have_times_in_order_inside_the_sound(tts: Piper, text: str) -> None:
    speech = tts.synthesise(text, JOE, 1.0)
    assert [timing.word for timing in speech.words] == words_of(text)
    edges = [edge for timing in speech.words for edge in (timing.start_s, timing.end_s)]
    assert edges == sorted(edges)
    assert edges[-1] <= len(speech.samples) / 24_000
    assert all(timing.end_s > timing.start_s for timing in speech.words)


def test_its_times_are_those_that_an_aligner_finds(tts: Piper) -> None:
    distances_s = []
    for text in TIMED:
        speech = tts.synthesise(text, JOE, 1.0)
        heard = PocketsphinxAligner().align(speech.samples, 24_000, words_of(text))
        pairs = zip(heard, speech.words, strict=True)
        distances_s += [abs(found.start_s - told.start_s) for found, told in pairs]
    assert np.mean(distances_s) < 0.025
    assert np.percentile(distances_s, 95) < 0.07


def test_times_are_right_at_other_speeds(tts: Piper) -> None:
    slow, fast = (tts.synthesise(TIMED[1], JOE, speed) for speed in (0.8, 1.25))
    assert len(slow.samples) > 1.2 * len(fast.samples)  # every phoneme is rounded up to a frame
    shares = [speech.words[-1].start_s / len(speech.samples) for speech in (slow, fast)]
    assert shares[0] == pytest.approx(shares[1], rel=0.05)


def test_no_times_are_told_where_espeak_joins_words(tts: Piper) -> None:
    speech = tts.synthesise("Half of the apples are in the box.", JOE, 1.0)
    assert speech.words == ()
    assert len(speech.samples) > 24_000


def test_the_same_text_is_said_with_the_same_samples(tts: Piper) -> None:
    first, second = (tts.synthesise(TIMED[0], JOE, 1.0).samples for _ in range(2))
    assert np.array_equal(first, second)
    assert first.dtype == np.float32


def test_what_cannot_be_said_or_is_not_there_is_told(tts: Piper) -> None:
    with pytest.raises(SpeechRefused, match="nothing to say"):
        tts.synthesise("?!", JOE, 1.0)
    with pytest.raises(ConfigError, match=f"no voice 'nobody'.*{JOE}"):
        tts.synthesise("Yes.", "nobody", 1.0)
    with pytest.raises(ConfigError, match=r"there is no /nowhere/x\.onnx\.json"):
        registry.build("tts", "piper", {"voices": "/nowhere/x.onnx"}).list_voices()
