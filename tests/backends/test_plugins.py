"""Engines of other installed packages: in the registry by name, with their package's version in their digest."""

import pickle
from pathlib import Path

import pytest

from backends import registry
from backends.plugins import find_plugins
from data_schemas.config import ChatConfig
from data_schemas.errors import ConfigError
from tests.support.distributions import install_package

TONE = """
from backends.options import Options
from backends.tts.double import DoubleTts
from pydantic import Field

class ToneOptions(Options):
    pitch_hz: float = Field(default=200.0, gt=0, description="Pitch.")

class Tone(DoubleTts):
    name = "tone"
    def __init__(self, options: ToneOptions) -> None:
        self.digest = f"tone at {options.pitch_hz}"
"""
ENGINES = """
from backends.aligner.double import DoubleAligner
from backends.asr.double import DoubleRecogniser
from backends.chat.double import DoubleEngine
from backends.codec.double import DoubleCodec, DoubleCodecOptions
from backends.listener.double import DoubleListener, DoubleListenerOptions

class Aligner(DoubleAligner):
    name = "other"
class Recogniser(DoubleRecogniser):
    name = "other"
class Listener(DoubleListener):
    name = "other"
class Codec(DoubleCodec):
    name = "other"
Chat = DoubleEngine
"""
POINTS = {
    "kame.aligners": "other = kame_other:Aligner",
    "kame.asr": "other = kame_other:Recogniser",
    "kame.listeners": "other = kame_other:Listener",
    "kame.codecs": "other = kame_other:Codec",
    "kame.chat": "other = kame_other:Chat",
}


def install_tone(folder: Path, patch: pytest.MonkeyPatch, version: str = "1.0.0") -> None:
    install_package(folder, patch, "kame-tone", TONE, {"kame.tts": "tone = kame_tone:Tone"}, version, "MIT")


def test_a_packages_engine_is_listed_and_built_with_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_tone(tmp_path, monkeypatch)
    (listed,) = (each for each in registry.list_backends() if each.name == "tone")
    assert (listed.kind, listed.licence, listed.note) == ("tts", "MIT", "A kame-tone. (kame-tone 1.0.0)")
    assert listed.find_missing() == ""
    built = registry.build("tts", "tone", {"pitch_hz": 300.0})
    assert built.name == "tone"
    assert len(built.synthesise("one two", "double_a", 1.0).samples) > 0
    assert pickle.loads(pickle.dumps(built)).digest == built.digest
    with pytest.raises(ConfigError, match=r"tts back-end 'tone' does not take these options: .*It takes: pitch_hz"):
        registry.build("tts", "tone", {"pitch": 300.0})


def test_the_digest_knows_options_and_the_packages_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = []
    for version in ("1.0.0", "1.0.1"):
        with monkeypatch.context() as patch:
            install_tone(tmp_path / version, patch, version)
            digests += [registry.build("tts", "tone", options).digest for options in ({}, {"pitch_hz": 300.0})]
    assert len(set(digests)) == 4


@pytest.mark.parametrize("kind", ["aligner", "asr", "listener", "codec"])
def test_every_kind_takes_engines_of_packages(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_package(tmp_path, monkeypatch, "kame-other", ENGINES, POINTS)
    built = registry.build(kind, "other", {})
    assert built.name == "other"
    if kind != "listener":  # what it hears is in no dataset
        assert built.digest != registry.build(kind, "double", {}).digest


def test_a_packages_chat_engine_tells_its_version_in_the_models_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_package(tmp_path, monkeypatch, "kame-other", ENGINES, POINTS)
    engine, ours = (registry.load("chat", name)(ChatConfig()) for name in ("other", "double"))
    assert engine.describe().model_digest != ours.describe().model_digest
    with engine.serve() as endpoint:
        assert endpoint.base_url.startswith("http://127.0.0.1")
        assert endpoint.model_digest == engine.describe().model_digest


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import nothing_of_that_name", "does not load: ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("", "does not load: AttributeError"),
        ("raise OSError('no driver')", "does not load: OSError: no driver"),
        ("from backends.tts.double import DoubleTts as Tone", "makes an engine that calls itself 'double'"),
        ("Tone = 5", "is neither a class nor a function, but 5"),
        ("def Tone(options): pass", "does not state the type of its options: KeyError"),
        ("def Tone(options: 'Nowhere'): pass", "does not state the type of its options: NameError"),
        ("def Tone(options: dict): pass", "takes options of <class 'dict'>, which is not a subclass"),
        ("class Tone: pass", "makes an engine without name and digest"),
        ("class Tone: name = 'tone'", "makes an engine without digest"),
        ("def Tone(): raise OSError('no driver')", "makes no engine: OSError: no driver"),
    ],
)
def test_a_broken_entry_point_is_an_error_that_names_the_package(
    code: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_package(tmp_path, monkeypatch, "kame-tone", code, {"kame.tts": "tone = kame_tone:Tone"})
    with pytest.raises(ConfigError, match=rf"'tone' \(kame.tts\) of the package kame-tone 1.0.0 {told}"):
        registry.build("tts", "tone", {})
    assert registry.build("tts", "double", {}).name == "double"
    (listed,) = (each for each in registry.list_backends() if each.name == "tone")
    assert ("kame-tone 1.0.0 does not load" in listed.find_missing()) == ("does not load" in told)


def test_names_that_clash_are_refused_with_both_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_package(tmp_path, monkeypatch, "kame-a", "", {"kame.tts": "tone = kame_a:Tone"})
    assert list(find_plugins("kame.tts", [])) == ["tone"]
    with pytest.raises(ConfigError, match=r"package kame-a 1.0.0 has the name of one that is built in"):
        find_plugins("kame.tts", ["tone"])
    install_package(tmp_path, monkeypatch, "kame-b", "", {"kame.tts": "tone = kame_b:Tone"})
    with pytest.raises(ConfigError, match=r"kame-b 1.0.0 has the name of one of the package kame-a 1.0.0"):
        registry.list_backends()
    assert registry.build("aligner", "double", {}).name == "double"


def test_a_name_that_no_option_can_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_package(tmp_path, monkeypatch, "kame-a", "", {"kame.tts": "Tone 2 = kame_a:Tone"})
    with pytest.raises(ConfigError, match="lower-case letters"):
        registry.list_backends("tts")
