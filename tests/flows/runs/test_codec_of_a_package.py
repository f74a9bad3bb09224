"""A codec that is none of Moshi's, from its name to a caller who hears it: trained with, exported, and served."""

import asyncio
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from backends.engine import Samples
from data_schemas.config.front_end import FrontEndConfig
from data_schemas.errors import ConfigError, StoreError
from flows.runs.train import run_front_end
from kame_model.checkpoint.export import export_run, find_codec
from kame_model.checkpoint.load import Checkpoint, load_checkpoint
from kame_model.serve.server import KameServer
from tests.support.extending_page import install
from tests.support.serving import Client, doubles, inline, serve_config, until

pytestmark = pytest.mark.full


async def talk(checkpoint: Checkpoint) -> list[Samples]:
    """The frames that a caller hears of a front-end alone."""
    async with KameServer(checkpoint, serve_config(mode="direct"), doubles(), run=inline) as server:
        client = Client(await server.open_session("here"))
        await client.talk(["alpha"] * 5)
        await until(lambda: len(client.frames) >= 4)
        await client.session.close("bye")
    return client.frames


def make_levels(folder: Path) -> Path:
    """What the codec of docs/extending.md is made of."""
    folder.mkdir()
    np.save(folder / "levels.npy", np.linspace(-70, 0, 64))
    return folder


def read_codec(checkpoint: str | Path) -> dict[str, object]:
    told: dict[str, object] = json.loads((Path(checkpoint) / "kame.json").read_text())["codec"]
    return told


def test_a_packages_codec_travels_with_its_files_in_the_checkpoint(
    config: FrontEndConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = make_levels(tmp_path / "levels")
    own = {"codec": "hum", "codec_path": str(levels), "codec_options": {"n_codebooks": 4}, "evaluate_items": 0}
    with monkeypatch.context() as installed:
        install("kame-hum", "A codec", tmp_path, installed)
        made = run_front_end(config.model_copy(update=own))
        export_run(config.of_seed / "run", tmp_path / "again", find_codec(config.of_seed / "run"))
        shutil.rmtree(levels)
        for folder in (made.checkpoint, tmp_path / "again"):
            told = read_codec(folder)
            assert (told["files"], told["options"]) == (["codec/levels.npy"], {"n_codebooks": 4})
            assert "mimi_name" not in json.loads((Path(folder) / "config.json").read_text())
        card = (Path(made.checkpoint) / "README.md").read_text()
        for line in ("of the package kame-hum 1.0.0", "`codec/levels.npy` | the codec", "its codec `hum` does not"):
            assert line in card
        checkpoint = load_checkpoint(made.checkpoint)
        assert checkpoint.load_codec("cuda:7").n_codebooks == 4  # it has no choice of a device
        frames = asyncio.run(talk(checkpoint))
        assert {each.shape for each in frames} == {(1920,)}
        assert any(np.abs(each).max() > 0 for each in frames)
    with pytest.raises(ConfigError, match=r"'hum' of .* is not installed; the package kame-hum 1\.0\.0 has it"):
        load_checkpoint(made.checkpoint).load_codec()
    install("kame-hum", "A codec", tmp_path / "newer", monkeypatch, "1.0.1")
    with pytest.raises(StoreError) as refused:
        load_checkpoint(made.checkpoint).load_codec()
    assert "exported with kame-hum 1.0.0" in refused.value.remedy


def test_a_codec_that_needs_no_files_is_made_again_of_its_options(config: FrontEndConfig) -> None:
    own = {"codec": "double", "codec_options": {"n_codebooks": 3, "card": 32}, "evaluate_items": 0}
    made = run_front_end(config.model_copy(update=own))
    told = read_codec(made.checkpoint)
    assert (told["files"], told["options"]) == ([], {"n_codebooks": 3, "card": 32})
    assert not (Path(made.checkpoint) / "codec").exists()
    assert len(asyncio.run(talk(load_checkpoint(made.checkpoint)))) >= 4


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ({"codec": "hum"}, "no codec back-end 'hum'"),
        ({"codec": "double", "codec_options": {"card": 1}}, "'double' does not take these options: card"),
        ({"codec": "double", "codec_path": "somewhere"}, "'double' does not take these options: path"),
    ],
)
def test_a_codec_that_cannot_be_is_told_before_anything_is_made(
    own: dict[str, object], told: str, config: FrontEndConfig
) -> None:
    with pytest.raises(ConfigError, match=told):
        run_front_end(config.model_copy(update=own))
    assert not Path(config.out).exists()
