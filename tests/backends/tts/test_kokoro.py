import itertools
from typing import Any

import numpy as np
import pytest

from backends.aligner.pocketsphinx import PocketsphinxAligner
from backends.asr.moonshine import Moonshine
from backends.engine import Samples
from backends.tts import kokoro as module
from backends.tts.kokoro import Kokoro
from backends.tts.protocol import SpeechRefused
from data_schemas.errors import ConfigError

pytestmark = pytest.mark.full

TEXT = "Seven green apples."
LAG_N_SAMPLES = 960  # the sound starts 40 ms before the durations say


@pytest.fixture(scope="module")
def kokoro() -> Kokoro:
    return Kokoro()


@pytest.fixture(scope="module")
def voice(kokoro: Kokoro) -> str:
    return kokoro.list_voices()[0].name


class FakeSession:
    """Stands for the model: 50 ms of tone a token between two silences; remembers the tokens it was given."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def run(self, names: list[str], inputs: dict[str, Any]) -> list[Samples]:
        tokens = inputs["tokens"][0].tolist()
        assert inputs["style"].shape == (1, 256)
        self.asked.append(tokens)
        n_tone = 1_200 * (len(tokens) - 2)
        tone = 0.3 * np.sin(2 * np.pi * 220 * np.arange(n_tone) / 24_000)
        sound = np.pad(tone, 12_000 - LAG_N_SAMPLES).astype(np.float32)
        return [sound[np.newaxis], np.array([20, *[2] * (len(tokens) - 2), 20], dtype=np.float32)]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    session = FakeSession()
    monkeypatch.setattr(module, "load_session", lambda: session)
    return session


def test_the_words_can_be_heard_between_short_silences(kokoro: Kokoro, voice: str) -> None:
    speech = kokoro.synthesise(TEXT, voice, 1.0).samples
    heard = Moonshine().transcribe(speech, 24_000).lower()
    assert "green apples" in heard
    assert "seven" in heard or "7" in heard
    assert 0.8 < len(speech) / 24_000 < 2.5
    assert 0.1 < abs(speech).max() <= 1
    audible = np.flatnonzero(abs(speech) > 2e-3)
    assert audible[0] / 24_000 < 0.08
    assert (len(speech) - audible[-1]) / 24_000 < 0.08
    assert speech[0] == speech[-1] == 0


def test_a_voice_that_is_not_there_and_a_speed_the_model_does_not_bear_are_refused(kokoro: Kokoro, voice: str) -> None:
    with pytest.raises(ConfigError, match=f"no voice 'nobody'.*{voice}"):
        kokoro.synthesise(TEXT, "nobody", 1.0)
    for speed in (0.0, 0.49, 2.01, float("nan")):
        with pytest.raises(ConfigError, match="speed"):
            kokoro.synthesise(TEXT, voice, speed)


def test_a_model_that_stays_silent_is_refused(
    kokoro: Kokoro, voice: str, model: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "run", lambda *_: [np.zeros((1, 24_000), np.float32), np.ones(20, np.float32)])
    with pytest.raises(SpeechRefused, match="silence"):
        kokoro.synthesise(TEXT, voice, 1.0)


def test_a_long_text_is_said_whole_in_pieces_without_clicks(kokoro: Kokoro, voice: str, model: FakeSession) -> None:
    text = " ".join(["She bought seven eggs, two loaves of bread and a bottle of milk at the market."] * 20)
    sound = kokoro.synthesise(text, voice, 1.0).samples
    assert len(model.asked) >= 2
    assert all(len(tokens) <= 252 and tokens[0] == tokens[-1] == 0 for tokens in model.asked)
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


def test_every_word_has_its_time_where_phonemes_show_every_word(kokoro: Kokoro, voice: str, model: FakeSession) -> None:
    text = "Seven green apples, four pears."
    said = kokoro.synthesise(text, voice, 1.0)
    assert [word.word for word in said.words] == ["Seven", "green", "apples", "four", "pears"]
    assert [one.end_s for one in said.words[:2]] == [other.start_s for other in said.words[1:3]]
    assert said.words[0].start_s == pytest.approx(0.05, abs=0.011), "the tone starts after the margin"
    assert said.words[3].start_s - said.words[2].end_s == pytest.approx(0.1), "comma and space, 50 ms each"
    n_tokens = len(model.asked[0]) - 3  # less both ends and the full stop
    assert said.words[-1].end_s - said.words[0].start_s == pytest.approx(0.05 * n_tokens, abs=0.011)


def test_words_that_the_phonemiser_runs_together_have_no_times(kokoro: Kokoro, voice: str, model: FakeSession) -> None:
    assert kokoro.synthesise("One of the cats sat on the mat.", voice, 1.0).words == ()


def test_times_go_on_over_the_pieces_of_a_long_text(kokoro: Kokoro, voice: str, model: FakeSession) -> None:
    said = kokoro.synthesise(" ".join(["Seven green apples, four pears."] * 20), voice, 1.0)
    assert len(model.asked) >= 2
    assert len(said.words) == 100
    edges = [edge for word in said.words for edge in (word.start_s, word.end_s)]
    assert edges == sorted(edges)
    assert edges[-1] <= len(said.samples) / 24_000
    assert said.words[-1].word == "pears"
    for word in said.words:
        heard = said.samples[round(word.start_s * 24_000) : round(word.end_s * 24_000)]
        assert abs(heard[480:-480]).max() > 0.25, "the tone is where the words are"


def test_word_times_are_those_that_an_aligner_finds(kokoro: Kokoro, voice: str) -> None:
    said = kokoro.synthesise("Seven small boats sailed slowly near four big farms.", voice, 1.0)
    found = PocketsphinxAligner().align(said.samples, 24_000, [word.word for word in said.words])
    differences_s = [told.start_s - heard.start_s for told, heard in zip(said.words, found, strict=True)]
    assert len(differences_s) == 9
    assert np.abs(differences_s).mean() < 0.04
    assert abs(np.mean(differences_s)) < 0.025, "neither early nor late"


@pytest.mark.parametrize(
    ("text", "alike"),
    [
        ("Yes.", "Yes"),
        ("Mm hmm.", "um hum"),
        ("vitamin A is it", "vitamin eigh is it"),
        ("A dog saw a tale", "a dog saw a tale"),
    ],
)
def test_one_word_has_no_full_stop_hums_are_not_spelt_and_a_letter_a_is_named_but_no_article(
    kokoro: Kokoro, voice: str, model: FakeSession, text: str, alike: str
) -> None:
    for each in (text, alike):
        kokoro.synthesise(each, voice, 1.0)
    assert model.asked[0] == model.asked[1]


@pytest.mark.parametrize("text", ["Yes.", "Four.", "Okay."])
def test_a_single_word_is_as_short_as_people_say_it(kokoro: Kokoro, text: str) -> None:
    names = [each.name for each in kokoro.list_voices()]
    for name in (names[0], names[-1]):
        assert 0.3 < len(kokoro.synthesise(text, name, 1.0).samples) / 24_000 < 1.1


def test_the_digest_follows_the_engines_versions(kokoro: Kokoro, monkeypatch: pytest.MonkeyPatch) -> None:
    before = kokoro.digest
    assert before == Kokoro().digest
    monkeypatch.setattr(module, "version", lambda name: "999")
    assert kokoro.digest != before
