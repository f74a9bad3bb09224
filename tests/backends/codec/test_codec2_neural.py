"""Codec 2 with trained networks: the promises of a codec, silence, and files that are not there."""

from pathlib import Path

import numpy as np
import pytest

from backends import registry
from backends.codec.codec2 import Codec2, Codec2Options
from backends.codec.codec2_neural import WEIGHTS, NeuralCodec2, NeuralCodec2Options, compute_mels, make_targets
from backends.codec.codec2_parameters import get_octaves, get_pitch_levels, read_parameters
from backends.codec.conformance import check_codec
from backends.conformance import make_chirps
from data_schemas.errors import BackendError, ConfigError
from data_schemas.units import FRAME_N_SAMPLES
from tests.support.codecs import write_networks
from tests.support.exact_streams import assert_streams_are_exact

SOUND = make_chirps(0, 40 * FRAME_N_SAMPLES)


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> NeuralCodec2:
    folder = tmp_path_factory.mktemp("codec")
    write_networks(folder)
    built = registry.build("codec", "codec2-neural", {"path": str(folder)})
    assert isinstance(built, NeuralCodec2)
    return built


def test_it_keeps_the_promises_of_a_codec(codec: NeuralCodec2) -> None:
    assert codec.layout.sizes == (16, 16, 6)
    check_codec(codec)
    assert_streams_are_exact(codec)


def test_silence_has_the_same_codes_wherever_it_is(codec: NeuralCodec2) -> None:
    silent = np.zeros(10 * FRAME_N_SAMPLES, np.float32)
    codes = codec.encode([np.concatenate([silent, SOUND, silent])])[0]
    assert np.array_equal(codes[:, 5], codec.silence)
    assert np.array_equal(codes[:, -5:], np.repeat(codec.silence[:, None], 5, axis=1))
    assert codec.silence[2] == 0
    assert np.abs(codec.decode(np.repeat(codec.silence[:, None], 20, axis=1))[10 * FRAME_N_SAMPLES :]).max() < 1e-3


def test_codes_are_those_of_the_frame_before(codec: NeuralCodec2) -> None:
    silent = np.zeros(8 * FRAME_N_SAMPLES, np.float32)
    prosody = codec.encode([np.concatenate([silent, SOUND])])[0][2]
    loud_from = int(np.flatnonzero(np.abs(SOUND.reshape(-1, FRAME_N_SAMPLES)).max(axis=1) > 0.01)[0])
    assert int(np.flatnonzero(prosody)[0]) in (8 + loud_from + 1, 8 + loud_from + 2)


def test_spectra_of_parts_are_those_of_the_whole() -> None:
    pcm, _ = Codec2(Codec2Options()).analyse(SOUND)
    padded = np.pad(pcm, (120, 0))
    whole = compute_mels(padded)
    assert whole.shape == (8 * 40, 32)
    assert np.array_equal(compute_mels(padded[640 * 3 : 640 * 5 + 120]), whole[24:40])


def test_what_silence_cannot_tell_is_not_a_target() -> None:
    vocoder = Codec2(Codec2Options(bits_per_s=3200))
    _, parts = vocoder.analyse(np.concatenate([np.zeros(10 * FRAME_N_SAMPLES, np.float32), SOUND]))
    told = read_parameters(vocoder.read_bits(parts))
    targets, defined = make_targets(told)
    assert targets.shape == defined.shape == (4 * 50, 14)
    assert not defined[:30, :10].any()
    assert defined[:, 10].all()
    assert defined[60:, :10].any()
    assert not defined[told.voicing.max(axis=1) == 0, 11].any()


def test_a_level_of_pitch_is_read_as_it_was_written() -> None:
    levels = np.arange(128)
    assert np.array_equal(get_pitch_levels(get_octaves(levels)), levels)


def test_files_that_are_not_there_or_damaged_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no file .*neural\.safetensors"):
        NeuralCodec2(NeuralCodec2Options(path=str(tmp_path)))
    (tmp_path / WEIGHTS).write_bytes(b"no networks")
    with pytest.raises(BackendError, match="contains no networks"):
        NeuralCodec2(NeuralCodec2Options(path=str(tmp_path)))
