"""faster-whisper with tiny.en, hearing what Piper says."""

import numpy as np
import pytest

from backends import registry
from backends.engine import Samples
from data_schemas.errors import ConfigError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sound() -> Samples:
    tts = registry.build("tts", "piper", {})
    samples: Samples = tts.synthesise(
        "The train leaves at seven and arrives in the evening.", "en_US-joe-medium", 1.0
    ).samples
    return samples


def test_it_hears_what_is_said_and_hears_it_again(sound: Samples) -> None:
    asr = registry.build("asr", "whisper", {})
    heard = asr.transcribe(sound, 24_000)
    assert "train leaves at" in heard.lower()
    assert "evening" in heard.lower()
    assert asr.transcribe(sound, 24_000) == heard


def test_silence_is_heard_as_no_long_text() -> None:
    heard = registry.build("asr", "whisper", {}).transcribe(np.zeros(48_000, dtype=np.float32), 24_000)
    assert len(heard.split()) <= 3  # whisper models are known to write a word or two to silence


def test_a_missing_model_folder_is_told(sound: Samples) -> None:
    with pytest.raises(ConfigError, match="there is no folder /nowhere"):
        registry.build("asr", "whisper", {"model_path": "/nowhere"}).transcribe(sound, 24_000)
