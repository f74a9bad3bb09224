"""Checkpoints of others, KAME's and Moshi's: small files of the same names, as they are published, are served."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2 as httpx
import huggingface_hub
import numpy as np
import pytest
import torch
from huggingface_hub.errors import RemoteEntryNotFoundError
from moshi.models import loaders
from safetensors.torch import save_file

from backends.codec.mimi import Mimi
from data_schemas.code_layout import CodeLayout
from data_schemas.errors import ConfigError
from kame_model.checkpoint.export import make_stock_state
from kame_model.checkpoint.folder import ORACLE_KEY
from kame_model.checkpoint.load import load_checkpoint
from kame_model.model.front_end import build_front_end
from kame_model.serve.server import KameServer
from tests.support.codecs import TINY_LAYOUT, random_model, tiny_kwargs
from tests.support.front_ends import tiny_config
from tests.support.serving import Client, doubles, inline, serve_config
from tests.support.vocabularies import make_moshi_like

pytestmark = pytest.mark.full

N_CODEBOOKS = 3
"""Of the front-end; the codec has more, as Mimi has 32 and Moshi speaks 8 of them."""

MIMI, TEXT, MOSHI = "tokenizer-e351c8d8-checkpoint125.safetensors", "tokenizer_spm_32k_3.model", "model.safetensors"
NAMES = {"moshi_name": MOSHI, "mimi_name": MIMI, "tokenizer_name": TEXT}
KINDS = ("kame", "kame_finetune", "moshi", "moshi without config.json")


@pytest.fixture(autouse=True)
def small_mimi(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Moshi's own Mimi is of 79 M parameters; here its shape is a small one."""
    kwargs = tiny_kwargs(N_CODEBOOKS + 2)
    monkeypatch.setattr(loaders, "_mimi_config", kwargs)
    return kwargs


@pytest.fixture
def release(tmp_path: Path, small_mimi: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes the files of a release, one of `KINDS`."""

    def write(kind: str) -> Path:
        folder = tmp_path / "release"
        folder.mkdir()
        tokenizer = make_moshi_like(tmp_path)
        shutil.copy(tokenizer.path, folder / TEXT)
        codec = {name: value.contiguous() for name, value in random_model(small_mimi).state_dict().items()}
        save_file(codec, folder / MIMI)
        torch.manual_seed(0)
        front_end = build_front_end(
            tiny_config(), tokenizer.text_card, CodeLayout.make_mimi(N_CODEBOOKS, TINY_LAYOUT.card)
        )
        state = make_stock_state(front_end.eval(), torch.bfloat16)
        if "kame" not in kind:
            del state[ORACLE_KEY]
        save_file(state, folder / MOSHI)
        if kind == "kame_finetune":
            (folder / "moshi_lm_kwargs.json").write_text(json.dumps(front_end.lm_kwargs))
        elif kind in ("kame", "moshi"):
            told = {**front_end.lm_kwargs, **NAMES, "model_type": "moshi", "lm_gen_config": {"temp": 0.8}}
            (folder / "config.json").write_text(json.dumps(told))
        else:
            monkeypatch.setattr("kame_model.checkpoint.folder._make_kwargs_7b", lambda: dict(front_end.lm_kwargs))
        return folder

    return write


def as_hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str | None]]:
    """The Hub has what is in a folder, in every repository; what is asked for is kept."""
    asked = []

    def download(repo_id: str, filename: str, *, revision: str | None = None) -> str:
        asked.append((repo_id, filename, revision))
        if not (folder / filename).is_file():
            gone = httpx.Response(404, request=httpx.Request("GET", "https://hub.example"))
            raise RemoteEntryNotFoundError(f"no {filename}", response=gone)
        return str(folder / filename)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    return asked


async def speaks(source: str | Path) -> list[np.ndarray[Any, Any]]:
    """The frames that a server with this checkpoint says to a second of silence."""
    config = serve_config(checkpoint=str(source))
    async with KameServer(load_checkpoint(config.checkpoint), config, doubles(), run=inline) as server:
        client = Client(await server.open_session("here"))
        await client.talk([None] * 12)
        await client.session.close("bye")
        await client.over()
    return client.frames


@pytest.mark.looptime
@pytest.mark.parametrize("is_on_hub", [False, True])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_release_is_served_as_it_is(
    kind: str, is_on_hub: bool, release: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = release(kind)
    asked = as_hub(folder, monkeypatch)
    frames = await speaks("SakanaAI/kame@v1" if is_on_hub else folder)
    assert len(frames) == 12
    assert not frames[0].any()  # nothing has been heard yet
    assert all(frame.any() for frame in frames[3:])
    assert {name for _, name, _ in asked} >= ({MIMI, TEXT, MOSHI} if is_on_hub else set())
    assert {(repository, revision) for repository, _, revision in asked} == (
        {("SakanaAI/kame", "v1")} if is_on_hub else set()
    )


def test_codec_and_vocabulary_may_be_anothers_on_the_hub(
    release: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = release("kame")
    asked = as_hub(folder, monkeypatch)
    elsewhere = {"mimi_name": f"hf://kyutai/moshiko/{MIMI}", "tokenizer_name": f"hf://kyutai/moshiko/{TEXT}"}
    config = json.loads((folder / "config.json").read_text()) | elsewhere
    (folder / "config.json").write_text(json.dumps(config))
    checkpoint = load_checkpoint(folder)
    assert checkpoint.load_codec().n_codebooks == N_CODEBOOKS
    assert checkpoint.load_tokenizer().text_card == checkpoint.front_end.text_card
    assert asked == [("kyutai/moshiko", MIMI, None), ("kyutai/moshiko", TEXT, None)]


def test_a_mimi_of_another_shape_comes_with_its_keyword_arguments(
    release: Callable[[str], Path], small_mimi: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = release("moshi")
    monkeypatch.undo()
    (folder / "shape.json").write_text(json.dumps(small_mimi))
    config = json.loads((folder / "config.json").read_text()) | {"mimi_config_name": "shape.json"}
    (folder / "config.json").write_text(json.dumps(config))
    codec = load_checkpoint(folder).load_codec()
    assert isinstance(codec, Mimi)
    assert (codec.n_codebooks, codec.card) == (N_CODEBOOKS, TINY_LAYOUT.card)


@pytest.mark.parametrize("name", [MIMI, TEXT])
def test_a_release_without_codec_or_vocabulary_names_the_file(name: str, release: Callable[[str], Path]) -> None:
    folder = release("kame_finetune")
    (folder / name).unlink()
    checkpoint = load_checkpoint(folder)
    with pytest.raises(ConfigError, match=f"{name} is missing"):
        checkpoint.load_codec() if name == MIMI else checkpoint.load_tokenizer()
