"""whisperx's own aligner with a wav2vec2 of random weights made here: its times mean nothing, its manners all."""

from pathlib import Path

import numpy as np
import pytest

from backends import registry
from backends.aligner.protocol import AlignmentRefused
from backends.aligner.whisperx import WhisperXAligner
from backends.engine import Samples
from data_schemas.errors import BackendError, ConfigError
from tests.workers.conftest import RunInside

pytestmark = pytest.mark.slow

WORDS = ["Natalia", "sold", "forty", "eight", "clips", "and", "she", "didn't", "sell", "more"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, run_inside: RunInside) -> Path:
    folder = tmp_path_factory.mktemp("wav2vec2")
    run_inside("whisperx", "make_wav2vec2.py", folder)
    return folder


@pytest.fixture(scope="module")
def aligner(model: Path) -> WhisperXAligner:
    built = registry.build("aligner", "whisperx", {"model_path": str(model)})
    assert isinstance(built, WhisperXAligner)
    return built


@pytest.fixture(scope="module")
def sound() -> Samples:
    """Three seconds of noise at 24 kHz."""
    return (0.1 * np.random.default_rng(1).normal(size=72_000)).astype(np.float32)


def test_every_word_gets_one_time_in_order_inside_the_sound(aligner: WhisperXAligner, sound: Samples) -> None:
    timings = aligner.align(sound, 24_000, WORDS)
    assert [timing.word for timing in timings] == WORDS
    edges = [edge for timing in timings for edge in (timing.start_s, timing.end_s)]
    assert edges == sorted(edges)
    assert edges[0] >= 0
    assert edges[-1] <= 3.0
    assert all(0 < timing.score <= 1 for timing in timings)
    assert {timing.method for timing in timings} == {"whisperx"}
    assert aligner.align(sound, 24_000, WORDS) == timings


def test_a_curly_apostrophe_is_an_apostrophe(aligner: WhisperXAligner, sound: Samples) -> None:
    straight, curly = (aligner.align(sound, 24_000, ["she", word, "go"]) for word in ("didn't", "didn’t"))
    assert [timing.start_s for timing in curly] == [timing.start_s for timing in straight]
    assert curly[1].word == "didn’t"


@pytest.mark.parametrize(
    ("words", "told"),
    [(["twelve", "35", "apples"], "no letter of '35'"), (["ждать"], "no letter of")],
)
def test_a_word_without_a_time_of_its_own_is_refused(
    aligner: WhisperXAligner, sound: Samples, words: list[str], told: str
) -> None:
    with pytest.raises(AlignmentRefused, match=told):
        aligner.align(sound, 24_000, words)


def test_more_words_than_sound_are_refused(aligner: WhisperXAligner, sound: Samples) -> None:
    with pytest.raises(AlignmentRefused):
        aligner.align(sound[:4_800], 24_000, WORDS * 5)


def test_no_words_need_no_sound(aligner: WhisperXAligner) -> None:
    assert aligner.align(np.zeros(0, dtype=np.float32), 24_000, []) == []


def test_the_digest_stands_for_the_weights(aligner: WhisperXAligner, model: Path, tmp_path: Path) -> None:
    for file in model.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    elsewhere = registry.build("aligner", "whisperx", {"model_path": str(tmp_path)})
    assert elsewhere.digest == aligner.digest


def test_missing_and_damaged_models_are_told(sound: Samples, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder /nowhere"):
        registry.build("aligner", "whisperx", {"model_path": "/nowhere"}).align(sound, 24_000, WORDS)
    with pytest.raises(BackendError, match="worker whisperx failed"):
        registry.build("aligner", "whisperx", {"model_path": str(tmp_path)}).align(sound, 24_000, WORDS)
