"""What tests of several flows share."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from data_schemas.config.front_end import FrontEndConfig
from tests.support.refreshing import Bench

if TYPE_CHECKING:
    from data_schemas.config.serving import ServeConfig
    from kame_model.serve.parts import ServerParts


@pytest.fixture(scope="module")
def server() -> Iterator[None]:
    """A Prefect server for one file's tests alone, on a database that goes with it."""
    from prefect.testing.utilities import prefect_test_harness  # heavy: 3 s

    with prefect_test_harness(server_startup_timeout=120):
        yield


TINY: dict[str, str | int | float | bool] = {
    "model.dim": 32,
    "model.num_layers": 1,
    "model.num_heads": 2,
    "model.depformer_dim": 16,
    "model.depformer_num_heads": 2,
    "copy.max_steps": 0,
    "data.batch_frames": 800,
    "keep.evaluate_examples": 2,
    "keep.log_every": 1,
    "keep.tensorboard": False,
    "hardware.threads": 1,
}


@pytest.fixture(name="config")
def _front_end_config(made: Path, tmp_path: Path) -> FrontEndConfig:
    """A training of a few thousand weights on the dataset that is made once, in seconds."""
    return FrontEndConfig(
        datasets=[str(made)],
        out=str(tmp_path / "run"),
        checkpoints=str(tmp_path / "checkpoints"),
        vocabulary=400,
        max_steps=3,
        evaluate_items=1,
        evaluate_splits=["train"],
        device="cpu",
        workers=1,
        settings=TINY,
    )


@pytest.fixture
def quick_config(config: FrontEndConfig, tmp_path: Path) -> FrontEndConfig:
    """As `config`, with a codec that is there."""
    from tests.support.codecs import write_codebooks  # heavy: moshi

    write_codebooks(tmp_path / "codec", n_stages=1, card=16)
    return config.model_copy(update={"codec_path": str(tmp_path / "codec")})


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """`kame refresh` in a folder of its own, which leaves nothing half written."""
    made = Bench(tmp_path)
    yield made
    assert list(made.out.rglob("*.kame-writing")) == [], "something was left half written"


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a whole checkpoint of a few thousand weights, which nobody changes."""
    from tests.support.serving import tiny_checkpoint  # heavy: torch

    folder = tmp_path_factory.mktemp("tiny")
    tiny_checkpoint(folder)
    return str(folder / "export")


@asynccontextmanager
async def build_doubles(config: "ServeConfig") -> "AsyncIterator[ServerParts]":
    """Parts that hear loudness and repeat what they heard, in place of a server's real ones."""
    from tests.support.serving import doubles  # heavy: torch

    yield doubles()


@pytest.fixture
def serve_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of `kame serve` are of doubles."""
    monkeypatch.setattr("flows.runs.serve.build_parts", build_doubles)


@pytest.fixture
def server_of_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that evaluations call are of doubles, on a device that is not measured."""
    from kame_model.evaluate.calls import call  # heavy: torch
    from kame_model.serve.device import slots

    async def nothing(*_: object) -> dict[int, float]:
        return {}

    monkeypatch.setattr(call, "build_parts", build_doubles)
    monkeypatch.setattr(slots, "measure_idle_device", nothing)
