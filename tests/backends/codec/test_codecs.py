"""Codecs: whole sounds in batches, streams of frames, and what is refused."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from moshi.models import loaders
from moshi.utils.compile import no_compile
from safetensors.torch import save_file

from backends import registry
from backends.codec import mimi
from backends.codec.conformance import check_codec, encode_and_decode_streamed
from backends.codec.folder import KWARGS, WEIGHTS
from backends.codec.mimi import Mimi, MimiOptions
from backends.codec.moshi_codec import MoshiCodec
from backends.conformance import make_chirps
from data_schemas.errors import BackendError, ConfigError
from data_schemas.units import FRAME_N_SAMPLES, count_covering_frames
from tests.support.codecs import open_mimi, random_model, tiny_kwargs, tiny_mimi, write_mimi

SOUNDS = [make_chirps(seed, n_samples) for seed, n_samples in enumerate((3 * 1920, 1, 40_000, 0, 61_000, 30_721))]
"""Of 3, 1, 21, 0, 32 and 17 frames."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("codec")
    tiny_mimi(path)
    return path


@pytest.fixture(scope="module")
def tiny(folder: Path) -> Mimi:
    return open_mimi(folder)


def batched(codec: MoshiCodec) -> MoshiCodec:
    """The same model as on an accelerator: several sounds a batch."""
    return MoshiCodec(codec.model, codec.kwargs, codec.digest, codec.device, {}, n_rows=4)


@settings(max_examples=15)
@given(order=st.permutations(range(len(SOUNDS))), n=st.integers(1, len(SOUNDS)))
def test_batch_mates_do_not_change_a_sounds_codes(tiny: Mimi, order: Sequence[int], n: int) -> None:
    many = batched(tiny)
    alone = {index: many.encode([SOUNDS[index]])[0] for index in order[:n]}
    for index, codes in zip(order[:n], many.encode([SOUNDS[index] for index in order[:n]]), strict=True):
        assert np.array_equal(codes, alone[index])


def test_a_codec_streams_once_at_a_time(tiny: Mimi) -> None:
    with tiny.stream(1), pytest.raises(RuntimeError, match="a stream of this codec is open"), tiny.stream(1):
        pass
    assert len(encode_and_decode_streamed(tiny, make_chirps(0, FRAME_N_SAMPLES)[None])[0]) == 1


def test_stock_moshi_loads_the_folder_and_encodes_alike(tiny: Mimi, folder: Path) -> None:
    kwargs = json.loads((folder / KWARGS).read_text())
    stock = loaders.get_mimi(str(folder / WEIGHTS), kwargs, num_codebooks=3)
    sound = make_chirps(5, 16 * FRAME_N_SAMPLES)
    with torch.no_grad():
        codes = stock.encode(torch.from_numpy(sound)[None, None])[0]
    assert np.array_equal(codes.numpy(), tiny.encode([sound])[0])


def test_a_decoder_that_overshoots_is_clipped(folder: Path) -> None:
    loud = open_mimi(folder)
    codes = loud.encode([SOUNDS[4]])[0]
    with torch.no_grad():
        last = list(loud.model.decoder.parameters())[-2:]
        for each in last:
            each.mul_(20)
        raw = loud.model.decode(torch.from_numpy(codes.astype(np.int64))[None])
    assert raw.abs().max() > 1
    assert np.array_equal(loud.decode(codes), raw[0, 0].clamp(-1, 1).numpy())
    check_codec(loud)


def test_fewer_codebooks_are_the_first_of_all(tiny: Mimi, folder: Path) -> None:
    two = open_mimi(folder, n_codebooks=2)
    assert two.n_codebooks == 2
    assert np.array_equal(two.encode([SOUNDS[4]])[0], tiny.encode([SOUNDS[4]])[0][:2])
    assert two.decode(two.encode([SOUNDS[4]])[0]).shape == (32 * FRAME_N_SAMPLES,)
    assert two.digest != tiny.digest


def test_the_digest_stands_for_the_weights_not_their_place(tiny: Mimi, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    assert open_mimi(tmp_path / "copy").digest == tiny.digest
    assert tiny_mimi(tmp_path / "other", seed=1).digest != tiny.digest


def test_mimi_is_read_from_a_file(tmp_path: Path) -> None:
    """Of Mimi's own structure, at 25 Hz and with a learnt halving, but small."""
    kwargs = tiny_kwargs()
    kwargs["seanet"]["ratios"] = [8, 6, 5, 4]
    save_file(dict(random_model(kwargs).state_dict()), tmp_path / "weights.safetensors")
    (tmp_path / "kwargs.json").write_text(json.dumps(kwargs))
    options = {"path": str(tmp_path / "weights.safetensors"), "kwargs": str(tmp_path / "kwargs.json")}
    mimi = registry.build("codec", "mimi", options | {"n_codebooks": 2})
    codes = mimi.encode(SOUNDS)
    assert [each.shape for each in codes] == [(2, count_covering_frames(len(sound))) for sound in SOUNDS]
    assert mimi.decode(codes[2]).shape == (21 * FRAME_N_SAMPLES,)
    frames = SOUNDS[4][: 4 * FRAME_N_SAMPLES].reshape(4, 1, FRAME_N_SAMPLES)
    with mimi.stream(1) as stream:
        first = [stream.encode_frame(frame) for frame in frames]
        stream.reset(np.array([True]))
        again = [stream.encode_frame(frame) for frame in frames]
    assert np.array_equal(first, again)


def test_a_mimi_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigError, match="There is no file /nowhere"):
        registry.build("codec", "mimi", {"path": "/nowhere/mimi.safetensors"})
    with pytest.raises(BackendError, match=r"(?s)Cannot download Mimi .*path=FILE"):
        registry.build("codec", "mimi", {})


def test_damaged_folders_are_told(folder: Path, tmp_path: Path) -> None:
    weights, kwargs = (folder / WEIGHTS).read_bytes(), (folder / KWARGS).read_text()

    def opening(weights: bytes | None, kwargs: str, n_codebooks: int = 3) -> Mimi:
        (tmp_path / KWARGS).write_text(kwargs)
        (tmp_path / WEIGHTS).unlink(missing_ok=True)
        if weights is not None:
            (tmp_path / WEIGHTS).write_bytes(weights)
        return open_mimi(tmp_path, n_codebooks)

    with pytest.raises(ConfigError, match=r"There is no file .*mimi\.safetensors"):
        opening(None, kwargs)
    with pytest.raises(BackendError, match=r"mimi.safetensors do not fit the configuration"):
        opening(weights[: len(weights) // 2], kwargs)
    with pytest.raises(BackendError, match=r"mimi.json contains no keyword arguments"):
        opening(weights, kwargs[:50])
    with pytest.raises(BackendError, match=r"mimi.safetensors do not fit the configuration"):
        opening(weights, json.dumps(tiny_kwargs() | {"quantizer": tiny_kwargs()["quantizer"] | {"bins": 64}}))
    with pytest.raises(ConfigError, match="has 3 codebooks, not 4"):
        opening(weights, kwargs, n_codebooks=4)
    assert opening(weights, kwargs).n_codebooks == 3


@pytest.mark.parametrize("n_dialogues", [1, 4])
def test_a_batch_on_an_accelerator_is_hardly_filled_up(
    tiny: Mimi, monkeypatch: pytest.MonkeyPatch, n_dialogues: int
) -> None:
    """The two voices of a dialogue, equally long, fill a batch, however many dialogues there are."""
    given: list[int] = []
    encode = tiny.model.encode

    def counting(batch: torch.Tensor) -> torch.Tensor:
        given.append(batch.shape[0] * batch.shape[2] // FRAME_N_SAMPLES)
        return encode(batch)

    many = MoshiCodec(tiny.model, tiny.kwargs, tiny.digest, "cpu:0", {})  # as any device that is not called cpu
    monkeypatch.setattr(many, "_skip_compilation", no_compile)
    monkeypatch.setattr(tiny.model, "encode", counting)
    lengths = [(62 + 17 * number) * FRAME_N_SAMPLES for number in range(n_dialogues)]
    many.encode([make_chirps(0, length) for length in lengths for _ in "ab"])
    assert sum(given) < 1.1 * 2 * sum(count_covering_frames(length) for length in lengths)
    assert len(given) == n_dialogues


def test_a_codec_takes_the_device_that_there_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def load(weights: Path, kwargs: object, n_codebooks: int | None, device: str) -> None:
        asked.append(device)
        raise BackendError("Not here.", "")

    monkeypatch.setattr(mimi, "load_model", load)
    for there in (True, False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        with pytest.raises(BackendError):
            Mimi(MimiOptions(path=str(folder)))
    assert asked == ["cuda", "cpu"]
    with pytest.raises(ConfigError, match="no CUDA device here"):
        Mimi(MimiOptions(path=str(folder), device="cuda:1"))


def test_mimi_loads_weights_of_its_shape(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kwargs = tiny_kwargs(8)
    kwargs["seanet"]["ratios"] = [8, 6, 5, 4]  # 25 Hz, as Mimi's
    monkeypatch.setattr(loaders, "_mimi_config", kwargs)
    write_mimi(tmp_path, random_model(kwargs), kwargs)
    mimi = registry.build("codec", "mimi", {"path": str(tmp_path / WEIGHTS)})
    codes = mimi.encode([make_chirps(0, 20 * FRAME_N_SAMPLES)])[0]
    assert codes.shape == (8, 20)
    assert len(np.unique(codes)) > 1
