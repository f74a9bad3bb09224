import itertools
from typing import Any

import numpy as np
import pytest

from backends.asr.moonshine import Moonshine
from backends.protocols import Samples, SpeechRefused
from backends.tts import kokoro as module
from backends.tts.kokoro import Kokoro
from data_schemas.errors import ConfigError

TEXT = "Seven green apples."


@pytest.fixture(scope="module")
def kokoro() -> Kokoro:
    return Kokoro()


@pytest.fixture(scope="module")
def voice(kokoro: Kokoro) -> str:
    return kokoro.voices()[0].name


@pytest.fixture(scope="module")
def speech(kokoro: Kokoro, voice: str) -> Samples:
    return kokoro.synthesise(TEXT, voice, 1.0).samples


class FakeSession:
    """Stands for the model: 25 ms of tone a token between two silences; remembers the tokens it was given."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def run(self, names: list[str], inputs: dict[str, Any]) -> list[Samples]:
        assert names == ["audio"]
        assert inputs["style"].shape == (1, 256)
        self.asked.append(inputs["tokens"][0].tolist())
        tone = 0.3 * np.sin(2 * np.pi * 220 * np.arange(600 * inputs["tokens"].size) / 24_000)
        return [np.pad(tone, 12_000).astype(np.float32)[np.newaxis]]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    session = FakeSession()
    monkeypatch.setattr(module, "_session", lambda: session)
    return session


def test_the_words_can_be_heard(speech: Samples) -> None:
    heard = Moonshine().transcribe(speech, 24_000).lower()
    assert "green apples" in heard
    assert "seven" in heard or "7" in heard


def test_it_is_sound_of_a_sensible_length_between_short_silences(speech: Samples) -> None:
    assert speech.dtype == np.float32
    assert speech.ndim == 1
    assert 0.8 < len(speech) / 24_000 < 2.5
    assert 0.1 < abs(speech).max() <= 1
    audible = np.flatnonzero(abs(speech) > 2e-3)
    assert audible[0] / 24_000 < 0.08
    assert (len(speech) - audible[-1]) / 24_000 < 0.08
    assert speech[0] == speech[-1] == 0


def test_the_same_arguments_give_the_same_samples_whatever_was_said_before(
    kokoro: Kokoro, voice: str, speech: Samples
) -> None:
    other = kokoro.synthesise("Seven green apples.", kokoro.voices()[1].name, 1.0).samples
    assert not np.array_equal(other, speech)
    assert np.array_equal(Kokoro().synthesise(TEXT, voice, 1.0).samples, speech)


def test_faster_speech_is_shorter(kokoro: Kokoro, voice: str, speech: Samples) -> None:
    assert len(kokoro.synthesise(TEXT, voice, 1.5).samples) < 0.85 * len(speech)


@pytest.mark.parametrize("text", ["", "  \n", "...", "?!"])
def test_nothing_to_say_is_refused(kokoro: Kokoro, voice: str, text: str) -> None:
    with pytest.raises(SpeechRefused, match="nothing to say"):
        kokoro.synthesise(text, voice, 1.0)


def test_a_voice_that_is_not_there_is_refused_with_the_names_of_those_that_are(kokoro: Kokoro, voice: str) -> None:
    with pytest.raises(ConfigError, match=f"no voice 'nobody'.*{voice}"):
        kokoro.synthesise(TEXT, "nobody", 1.0)


@pytest.mark.parametrize("speed", [0.0, 0.49, 2.01, float("nan")])
def test_a_speed_the_model_does_not_bear_is_refused(kokoro: Kokoro, voice: str, speed: float) -> None:
    with pytest.raises(ConfigError, match="speed"):
        kokoro.synthesise(TEXT, voice, speed)


def test_a_model_that_stays_silent_is_refused(
    kokoro: Kokoro, voice: str, model: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "run", lambda *_: [np.zeros((1, 24_000), dtype=np.float32)])
    with pytest.raises(SpeechRefused, match="silence"):
        kokoro.synthesise(TEXT, voice, 1.0)


def test_a_long_text_is_said_whole_in_pieces_without_clicks(kokoro: Kokoro, voice: str, model: FakeSession) -> None:
    text = " ".join(["She bought seven eggs, two loaves of bread and a bottle of milk at the market."] * 20)
    sound = kokoro.synthesise(text, voice, 1.0).samples
    assert len(model.asked) >= 2
    assert all(len(tokens) <= 512 and tokens[0] == tokens[-1] == 0 for tokens in model.asked)
    said = [token for tokens in model.asked for token in tokens[1:-1]]
    model.asked.clear()
    kokoro.synthesise("She bought seven eggs, two loaves of bread and a bottle of milk at the market.", voice, 1.0)
    sentence = model.asked[0][1:-1]
    assert [said.count(token) for token in set(sentence) - {16}] == [
        20 * sentence.count(token)
        for token in set(sentence) - {16}  # 16: the space, lost where a piece ends
    ]
    assert abs(np.diff(sound)).max() < 0.02  # the tone's own greatest step is 0.0173
    silences = [len(list(run)) for is_quiet, run in itertools.groupby(abs(sound) < 1e-6) if is_quiet]
    assert max(silences) / 24_000 == pytest.approx(0.3, abs=0.02)  # 0.2 s after a sentence, and two margins


def test_a_single_letter_a_is_named_and_an_article_is_not(kokoro: Kokoro, voice: str, model: FakeSession) -> None:
    for text in ("vitamin A is it", "vitamin eigh is it", "A dog saw a tale", "a dog saw a tale"):
        kokoro.synthesise(text, voice, 1.0)
    assert model.asked[0] == model.asked[1]
    assert model.asked[2] == model.asked[3]


def test_voices_say_what_stands_for_them(kokoro: Kokoro) -> None:
    voices = kokoro.voices()
    assert len(voices) >= 5
    assert len({voice.digest for voice in voices}) == len(voices)
    assert {voice.licence for voice in voices} == {"Apache-2.0"}
    assert {voice.language for voice in voices} <= {"en-us", "en-gb"}


def test_the_digest_follows_the_engines_versions(kokoro: Kokoro, monkeypatch: pytest.MonkeyPatch) -> None:
    before = kokoro.digest
    assert before == Kokoro().digest
    monkeypatch.setattr(module, "version", lambda name: "999")
    assert kokoro.digest != before
