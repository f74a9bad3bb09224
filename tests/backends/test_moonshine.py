import numpy as np
import pytest

from backends.asr.moonshine import Moonshine
from backends.protocols import Samples
from backends.tts.kokoro import Kokoro


@pytest.fixture(scope="module")
def speech() -> Samples:
    kokoro = Kokoro()
    return kokoro.synthesise("The capital of France is Paris.", kokoro.voices()[0].name, 1.0).samples


def test_it_writes_down_what_is_said_at_any_sample_rate(speech: Samples) -> None:
    recogniser = Moonshine()
    heard = recogniser.transcribe(speech, 24_000)
    assert heard.lower().strip(" .") == "the capital of france is paris"
    assert recogniser.transcribe(np.repeat(speech, 2), 48_000).lower().strip(" .") == heard.lower().strip(" .")
    assert recogniser.transcribe(speech, 24_000) == heard


def test_long_recordings_are_written_down_to_the_end(speech: Samples) -> None:
    pause = np.zeros(24_000, dtype=np.float32)
    recording = np.concatenate([speech, pause] * 8)
    assert Moonshine().transcribe(recording, 24_000).lower().count("paris") == 8


def test_nothing_is_heard_in_no_sound() -> None:
    assert Moonshine().transcribe(np.zeros(0, dtype=np.float32), 24_000) == ""
