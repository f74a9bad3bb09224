"""Codec 2 with learnt codebooks: from a sound to codebooks, and the promises of a codec."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from backends import registry
from backends.codec.codec2 import Codec2, Codec2Options
from backends.codec.codec2_learnt import BOOKS, LearntCodec2, LearntCodec2Options, learn_codebooks
from backends.codec.codec2_parameters import read_parameters, write_parameters
from backends.codec.conformance import check_codec
from backends.conformance import make_chirps
from data_schemas.errors import BackendError, ConfigError, DatasetError
from data_schemas.units import FRAME_N_SAMPLES, SAMPLE_RATE_HZ
from tests.support.exact_streams import assert_streams_are_exact

SOUNDS = [make_chirps(seed, 15 * SAMPLE_RATE_HZ) for seed in range(3)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("codec")
    save_file(learn_codebooks(SOUNDS, n_stages=2, card=24, seed=0)._asdict(), path / BOOKS)
    return path


@pytest.mark.parametrize("n_stages", [1, 2])
def test_it_keeps_the_promises_of_a_codec(folder: Path, n_stages: int) -> None:
    built = registry.build("codec", "codec2-learnt", {"path": str(folder), "n_stages": n_stages})
    assert (built.n_codebooks, built.card) == (2 * (n_stages + 1), 24)
    check_codec(built)
    assert_streams_are_exact(built)


def test_what_frames_tell_is_written_as_it_was_read() -> None:
    codec = Codec2(Codec2Options(bits_per_s=3200))
    parts = [part for frame in codec.encode(SOUNDS)[0].T for part in codec.to_parts(frame)]
    told = read_parameters(codec.read_bits(parts))
    loud = told.power_db > 20
    assert loud.mean() > 0.2
    assert np.array_equal(write_parameters(told)[loud], codec.read_bits(parts)[loud])


def test_more_stages_are_nearer_to_the_spectrum(folder: Path) -> None:
    whole = Codec2(Codec2Options(bits_per_s=3200))
    sound = make_chirps(1, 30 * FRAME_N_SAMPLES)
    parts = [part for frame in whole.encode([sound])[0].T for part in whole.to_parts(frame)]
    wanted = read_parameters(whole.read_bits(parts)).group_in_pairs()
    loud = (wanted.power_db > 25).all(axis=1)
    distances_hz = []
    for n_stages in (1, 2):
        codec = LearntCodec2(LearntCodec2Options(path=str(folder), n_stages=n_stages))
        made = [part for frame in codec.encode([sound])[0].T for part in codec.to_parts(frame)]
        got = read_parameters(codec.read_bits(made)).group_in_pairs()
        distances_hz.append(np.abs(got.lines_hz - wanted.lines_hz)[loud, 1].mean())
        assert np.abs(got.power_db - wanted.power_db)[loud].mean() < 6
    assert distances_hz[1] < distances_hz[0] < 200


def test_the_same_seed_learns_the_same() -> None:
    one, again, other = (learn_codebooks(SOUNDS[:2], 1, 8, seed) for seed in (0, 0, 1))
    assert np.array_equal(one.lines, again.lines)
    assert np.array_equal(one.power_db, again.power_db)
    assert not np.array_equal(one.lines, other.lines)


def test_too_little_speech_is_told() -> None:
    with pytest.raises(DatasetError, match=r"too little for 512 entries.*\n?.*"):
        learn_codebooks([SOUNDS[0]], 1, 512, 0)


def test_codebooks_that_are_not_there_or_damaged_are_told(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no file /nowhere/codebooks\.safetensors"):
        registry.build("codec", "codec2-learnt", {"path": "/nowhere"})
    with pytest.raises(ConfigError, match="has 2 stages, not 3"):
        registry.build("codec", "codec2-learnt", {"path": str(folder), "n_stages": 3})
    (tmp_path / BOOKS).write_bytes(b"no codebooks")
    with pytest.raises(BackendError, match="contains no codebooks"):
        LearntCodec2(LearntCodec2Options(path=str(tmp_path)))
