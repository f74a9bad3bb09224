"""Our sides of the engines in worker environments, with stand-ins in real processes (the engines: tests/workers/)."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from backends import registry
from backends.aligner.protocol import AlignmentRefused, TimesRefused
from backends.aligner.whisperx import WhisperXAligner, WhisperXOptions
from backends.asr.protocol import HearingRefused
from backends.asr.whisper import Whisper, WhisperOptions
from backends.registry import BackendEntry
from backends.tts.coqui import Coqui, CoquiOptions
from backends.tts.double import DoubleTts
from backends.tts.long_texts import cut, say
from backends.tts.piper import Piper, PiperOptions
from backends.tts.protocol import TakeRefused
from backends.workers import process
from backends.workers.process import Worker
from data_schemas.errors import ConfigError

pytestmark = pytest.mark.full

STAND_IN = """
from array import array
from backends.workers.frames import EngineRefusal

class StandIn:
    def __init__(self, options):
        self.options = options
    def describe(self, arguments, sound):
        return {describe}, b""
    def synthesise(self, arguments, sound):
        if arguments["text"] == "hush":
            raise EngineRefusal("nothing but silence")
        if arguments["text"] == "who":
            raise EngineRefusal(f"asked of {{arguments['voice']!r}}")
        assert len(arguments["text"]) < 400, "a maximum of 400 tokens"
        n_samples = 22_050 if arguments["speed"] == 1.0 else 11_025
        loud = array("f", [arguments.get("seed", 0) % 7 / 7 + 0.1] * n_samples).tobytes()
        return {{"sample_rate_hz": 22_050, "times_s": {times_s}}}, loud
    def probe(self):
        pass
    def align(self, arguments, sound):
        if "lost" in arguments["words"]:
            raise EngineRefusal("no time for 'lost'")
        return {{"words": {times_s}}}, b""
    def transcribe(self, arguments, sound):
        assert sound, "no features"
        return {{"text": f"{{len(sound) // 4}} samples, {{self.options['model']}}"}}, b""

ENGINE = StandIn
"""

StandIn = Callable[..., None]


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """Puts an engine with these answers in the place of every worker environment's."""
    running: dict[Any, Worker] = {}
    monkeypatch.setattr(process, "_RUNNING", running)

    def put(describe: object = None, times_s: object = ()) -> None:
        file = tmp_path / "engine.py"
        file.write_text(STAND_IN.format(describe=repr(describe), times_s=repr(times_s)))
        place = SimpleNamespace(
            is_installed=lambda: True, get_python=lambda: Path(sys.executable), find_engine_file=lambda: file
        )
        monkeypatch.setattr(process, "get_environment", lambda name: place)

    yield put
    for worker in running.values():
        worker.close()


COQUI = CoquiOptions(model="tts_models/some/model")
FILES = ["aa", "bb"]
MANNERS = {"has_speed": True, "max_chars": None}


def model(**described: Any) -> dict[str, Any]:
    """What a worker tells of its model."""
    return {"voices": {}, "files": FILES, "licence": "", **MANNERS, **described}


def test_coqui_speaks_at_our_rate_seeded_by_what_is_said_and_by_the_take(stand_in: StandIn) -> None:
    stand_in(model(voices={"p1": "x", "p2": "y"}, licence="MIT"))
    tts = Coqui(COQUI)
    assert [(voice.name, voice.licence) for voice in tts.list_voices()] == [("p1", "MIT"), ("p2", "MIT")]
    first, again, other = (tts.synthesise(text, "p1", 1.0).samples for text in ("yes", "yes", "perhaps"))
    assert len(first) == 24_000
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert len(tts.synthesise("yes", "p2", 2.0).samples) == 12_000
    with pytest.raises(TakeRefused, match="nothing but silence"):
        tts.synthesise("hush", "p1", 1.0)
    takes = [[tts.synthesise("yes", "p1", 1.0, take).samples[0] for take in range(4)] for _ in "ab"]
    assert takes[0] == takes[1]
    assert len(set(takes[0])) > 1


def test_a_text_on_which_coqui_fails_is_refused_and_a_long_one_is_said_in_pieces(stand_in: StandIn) -> None:
    long_text = " ".join(["Seven green apples, and four pears."] * 20)
    stand_in(model(has_speed=False, max_chars=250))
    tts = Coqui(COQUI)
    assert (tts.has_speed, tts.max_chars) == (False, 250)
    with pytest.raises(TakeRefused, match="AssertionError: a maximum of 400 tokens"):
        tts.synthesise(long_text, "model", 1.0)
    n_pieces = len(list(cut(long_text, 250)))
    assert n_pieces > 2
    assert len(say(tts, long_text, "model", 1.0).samples) == n_pieces * 24_000 + (n_pieces - 1) * 4_800


@pytest.mark.parametrize(("voices", "asked_of"), [({"model": "digest of a recording"}, "'model'"), ({}, "''")])
def test_coqui_is_asked_for_a_voice_that_is_named_model(
    stand_in: StandIn, voices: dict[str, str], asked_of: str
) -> None:
    stand_in(model(voices=voices))
    with pytest.raises(TakeRefused, match=f"asked of {asked_of}"):
        Coqui(COQUI).synthesise("who", "model", 1.0)


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("coqui", {"model": "xtts", "speaker_wavs": "a/ann.wav, a/bob.wav, b/ann.flac"}),
        ("piper", {"voices": "a/ann.onnx,a/bob.onnx,b/ann.onnx"}),
    ],
)
def test_files_of_voices_with_the_same_name_are_refused(
    engine: str, options: dict[str, str | int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BackendEntry, "is_installed", lambda self: True)
    with pytest.raises(ConfigError, match="several are named ann: rename them"):
        registry.build("tts", engine, options)


def test_coquis_digest_follows_files_and_language_not_places(stand_in: StandIn) -> None:
    stand_in(model())
    first = Coqui(COQUI)
    assert (first.has_speed, first.max_chars) == (True, None)
    assert [(voice.name, voice.licence) for voice in first.list_voices()] == [("model", "unknown")]
    moved = Coqui(CoquiOptions(model_path="/x", config_path="/y", device="cuda"))
    assert moved.digest == first.digest
    assert Coqui(COQUI.model_copy(update={"language": "de"})).digest != first.digest
    stand_in(model(files=["cc"]))
    assert Coqui(COQUI.model_copy(update={"threads": 2})).digest != first.digest


def test_pipers_words_have_times_where_it_tells_them(stand_in: StandIn) -> None:
    voices = {"voices": {"joe": {"digest": "d", "language": "en-us"}}}
    stand_in(voices, [[0.1, 0.4], [0.4, 0.9]])
    speech = Piper(PiperOptions()).synthesise("Two apples.", "joe", 1.0)
    assert [(word.word, word.start_s, word.end_s, word.method) for word in speech.words] == [
        ("Two", 0.1, 0.4, "piper"),
        ("apples", 0.4, 0.9, "piper"),
    ]
    stand_in(voices, [])
    assert Piper(PiperOptions(threads=2)).synthesise("Two apples.", "joe", 1.0).words == ()


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ([[0.0, 0.5, 0.9], [0.4, 0.9, 0.9]], "'apples' from 0.4 to 0.9 s.*ends at 0.5 s"),
        ([[0.0, 0.5, 0.9], [0.5, 0.5, 0.9]], "'apples' from 0.5 to 0.5 s"),
        ([[0.0, 0.5, 0.9], [2.5, 2.9, 0.9]], "'apples' from 2.5 to 1.0 s.*audio at 1.000 s"),
    ],
)
def test_whisperx_times_that_cannot_be_are_refused(stand_in: StandIn, times: object, told: str) -> None:
    stand_in(times_s=times)
    with pytest.raises(TimesRefused, match=told):
        WhisperXAligner(WhisperXOptions()).align(np.zeros(24_000, dtype=np.float32), 24_000, ["two", "apples"])


def test_whisperx_gives_a_time_a_word_or_refuses(stand_in: StandIn) -> None:
    stand_in({"digest": "d"}, [[0.0, 0.5, 0.9], [0.5, 1.2, 0.8]])
    aligner = WhisperXAligner(WhisperXOptions(language="de"))
    sound = np.zeros(24_000, dtype=np.float32)
    timings = aligner.align(sound, 24_000, ["two", "apples"])
    assert [(each.word, each.start_s, each.end_s, each.score) for each in timings] == [
        ("two", 0.0, 0.5, 0.9),
        ("apples", 0.5, 1.0, 0.8),  # not beyond the sound
    ]
    assert aligner.languages == ("de",)
    with pytest.raises(AlignmentRefused, match="no time for 'lost'"):
        aligner.align(sound, 24_000, ["lost"])
    assert aligner.digest != WhisperXAligner(WhisperXOptions(language="en")).digest


def test_whisper_hears_at_16_khz_and_what_it_fails_on_alone_is_refused(stand_in: StandIn) -> None:
    stand_in()
    assert Whisper(WhisperOptions()).transcribe(np.zeros(24_000, dtype=np.float32), 24_000) == "16000 samples, tiny.en"
    with pytest.raises(HearingRefused, match="no features"):
        Whisper(WhisperOptions()).transcribe(np.zeros(0, dtype=np.float32), 24_000)


def test_whispers_digest_follows_weights_and_manner(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "model.bin").write_bytes(b"weights")
    (tmp_path / "b" / "model.bin").write_bytes(b"weights")
    in_a, in_b = (Whisper(WhisperOptions(model_path=str(tmp_path / name))) for name in "ab")
    assert in_a.digest == in_b.digest != Whisper(WhisperOptions()).digest
    assert Whisper(WhisperOptions(beam_size=5)).digest != Whisper(WhisperOptions()).digest
    with pytest.raises(ConfigError, match="Cannot read the whisper model"):
        _ = Whisper(WhisperOptions(model_path=str(tmp_path))).digest


def test_the_synthesisers_times_stand_beside_a_named_aligner() -> None:
    aligner = registry.build("aligner", "synthesiser", {"aligner": "double"})
    assert (aligner.name, aligner.languages) == ("synthesiser", ("en",))
    assert aligner.digest != registry.build("aligner", "synthesiser", {"aligner": "pocketsphinx"}).digest
    spoken = DoubleTts().synthesise("Two apples.", "double_a", 1.0).samples
    assert {word.method for word in aligner.align(spoken, 24_000, ["Two", "apples"])} == {"double"}


def test_options_beside_the_aligners_name_are_the_aligners_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BackendEntry, "is_installed", lambda self: True)
    options: dict[str, str | int] = {"aligner": "whisperx", "language": "de"}
    assert registry.build("aligner", "synthesiser", options).languages == ("de",)
    with pytest.raises(ConfigError, match="aligner back-end 'whisperx' does not take"):
        registry.build("aligner", "synthesiser", options | {"colour": "blue"})
    with pytest.raises(ConfigError, match="cannot be its own fallback"):
        registry.build("aligner", "synthesiser", {"aligner": "synthesiser"})
