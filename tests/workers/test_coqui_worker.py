"""coqui-tts through its own `TTS.api.TTS`, with VITS models of random weights made here."""

from pathlib import Path

import numpy as np
import pytest

from backends import registry
from backends.tts.coqui import ONLY_VOICE, Coqui
from backends.tts.long_texts import say
from backends.tts.protocol import SpeechRefused, TakeRefused
from data_schemas.errors import BackendError, ConfigError
from tests.workers.conftest import RunInside

pytestmark = pytest.mark.slow

TEXT = "Natalia sold forty-eight clips, didn't she? Yes, she did."


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, run_inside: RunInside) -> Path:
    """A folder `1` with a model of one speaker and a folder `3` with one of three."""
    folder = tmp_path_factory.mktemp("vits")
    for n_speakers in (1, 3):
        (folder / str(n_speakers)).mkdir()
        run_inside("coqui", "make_vits.py", folder / str(n_speakers), n_speakers)
    return folder


def coqui(folder: Path, **options: str | float) -> Coqui:
    paths = {"model_path": f"{folder}/model.pth", "config_path": f"{folder}/config.json"}
    if (folder / "speakers.pth").exists():
        paths["speakers_path"] = f"{folder}/speakers.pth"
    built = registry.build("tts", "coqui", paths | options)
    assert isinstance(built, Coqui)
    return built


def test_it_says_the_same_text_with_the_same_samples_and_another_otherwise(models: Path) -> None:
    tts = coqui(models / "1", licence="CC0-1.0")
    (voice,) = tts.list_voices()
    assert (voice.name, voice.licence, voice.language) == (ONLY_VOICE, "CC0-1.0", "en")
    sound = tts.synthesise(TEXT, voice.name, 1.0).samples
    assert sound.dtype == np.float32
    assert sound.ndim == 1
    assert len(sound) > 24_000
    assert 0 < np.abs(sound).max() <= 1
    assert sound[-1] != 0  # without the silence that coqui's API appends
    other = tts.synthesise("Something else.", voice.name, 1.0).samples
    assert len(other) < len(sound)
    assert np.array_equal(tts.synthesise(TEXT, voice.name, 1.0).samples, sound)


def test_slow_speech_lasts_longer(models: Path) -> None:
    tts = coqui(models / "1")
    lengths = [len(tts.synthesise(TEXT, ONLY_VOICE, speed).samples) for speed in (0.5, 1.0, 2.0)]
    assert lengths == sorted(lengths, reverse=True)
    assert len(set(lengths)) == 3


def test_speakers_are_voices_that_differ(models: Path) -> None:
    tts = coqui(models / "3")
    names = [voice.name for voice in tts.list_voices()]
    assert names == ["speaker_0", "speaker_1", "speaker_2"]
    sounds = [tts.synthesise("Yes, I do.", name, 1.0).samples for name in names]
    assert not any(np.array_equal(sounds[0], other) for other in sounds[1:])
    assert [voice.name for voice in coqui(models / "3", speakers="speaker_2, speaker_0").list_voices()] == [
        "speaker_2",
        "speaker_0",
    ]


def test_the_digest_stands_for_weights_not_for_places(models: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    for name in ("model.pth", "config.json"):
        (copy / name).write_bytes((models / "1" / name).read_bytes())
    first = coqui(models / "1").digest
    assert coqui(copy).digest == first
    assert coqui(models / "3").digest != first


def test_what_cannot_be_said_or_is_not_there_is_told(models: Path) -> None:
    tts = coqui(models / "3")
    with pytest.raises(SpeechRefused, match="nothing to say"):
        tts.synthesise("...", "speaker_0", 1.0)
    with pytest.raises(ConfigError, match=r"no voice 'nobody'.*speaker_1"):
        tts.synthesise("Yes.", "nobody", 1.0)
    with pytest.raises(ConfigError, match=r"no speaker nobody.*speaker_1"):
        coqui(models / "3", speakers="nobody").list_voices()
    with pytest.raises(ConfigError, match=r"there is no .*nowhere/model\.pth"):
        coqui(models / "nowhere").list_voices()


def test_damaged_weights_are_told(models: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((models / "1" / "config.json").read_bytes())
    (tmp_path / "model.pth").write_bytes(b"not weights")
    with pytest.raises(BackendError, match="worker coqui failed"):
        coqui(tmp_path).list_voices()


def test_a_model_by_name_without_a_network_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TTS_HOME", str(tmp_path))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody is there
    with pytest.raises(BackendError, match="worker coqui failed"):
        registry.build("tts", "coqui", {"model": "tts_models/en/ljspeech/vits"}).list_voices()


@pytest.fixture(scope="module")
def xtts(tmp_path_factory: pytest.TempPathFactory, run_inside: RunInside) -> Coqui:
    folder = tmp_path_factory.mktemp("xtts")
    run_inside("coqui", "make_xtts.py", folder)
    built = registry.build("tts", "coqui", {"model_path": str(folder), "config_path": f"{folder}/config.json"})
    assert isinstance(built, Coqui)
    return built


def test_xtts_says_which_voices_speeds_and_texts_it_takes(xtts: Coqui) -> None:
    assert [voice.name for voice in xtts.list_voices()] == ["Ana", "Bo"]
    assert (xtts.has_speed, xtts.max_chars) == (True, 250)


def test_takes_of_xtts_differ_and_are_the_same_again(xtts: Coqui) -> None:
    first, second = (xtts.synthesise("Yes, I do.", "Ana", 1.0, take).samples for take in (0, 1))
    assert not np.array_equal(first, second)
    assert np.array_equal(xtts.synthesise("Yes, I do.", "Ana", 1.0, 1).samples, second)


def test_a_sentence_too_long_for_xtts_is_refused_by_itself_and_said_in_pieces(xtts: Coqui) -> None:
    sentence = " ".join(["seven green apples, and four pears"] * 14)
    with pytest.raises(TakeRefused, match="maximum of 400 tokens"):
        xtts.synthesise(sentence, "Ana", 1.0)
    one = xtts.synthesise("Yes, I do.", "Ana", 1.0).samples
    assert len(say(xtts, sentence, "Ana", 1.0).samples) > len(one)


def test_a_model_without_a_speed_says_so_and_its_takes_differ(tmp_path: Path, run_inside: RunInside) -> None:
    run_inside("coqui", "make_tacotron.py", tmp_path)
    tts = coqui(tmp_path)
    assert tts.has_speed is False
    first, second = (tts.synthesise("Yes, I do.", ONLY_VOICE, 1.0, take).samples for take in (0, 1))
    assert not np.array_equal(first, second)
