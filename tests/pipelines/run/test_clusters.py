"""Whole runs on real Dask and Ray clusters of this machine: same bytes, whatever dies."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from data_schemas.config import OracleConfig, RefreshConfig, ResourcesConfig, StageResources
from data_schemas.errors import BackendError
from flows.runs.refresh import run_refresh
from tests.support.clusters import ITSELF, LocalCluster, dying, kill_once
from tests.support.runs import ITEMS, Silent, assert_same, config_on_doubles

pytestmark = pytest.mark.slow


@pytest.fixture(params=["dask", "ray"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalCluster]:
    if importlib.util.find_spec("distributed" if request.param == "dask" else "ray") is None:
        pytest.skip(f"the extra {request.param} is not installed: pip install 'kame-pipeline[{request.param}]'")
    with LocalCluster(request.param, tmp_path / "cluster") as started:
        yield started


def config_on(executor: str, out: Path) -> RefreshConfig:
    small = StageResources(memory_gb=0.1)
    changes = {
        "executor": executor,
        "oracle": OracleConfig(simulator="random", version="random"),
        "resources": ResourcesConfig(script=small, speech=small, alignment=small, mixing=small),
    }
    return config_on_doubles(out, sources=(ITEMS / "gsm8k.jsonl",)).model_copy(update=changes)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same dataset of a run in one process."""
    out = tmp_path_factory.mktemp("whole") / "out"
    run_refresh(config_on("local", out), Silent())
    return out


def test_a_cluster_makes_the_bytes_of_one_process_though_a_worker_dies(
    cluster: LocalCluster, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.runs.refresh.run_on_part", kill_once)
    config = config_on(cluster.address, tmp_path / "out")
    (Path(config.out) / ".store").mkdir(parents=True)
    with dying(config, ITSELF):
        run_refresh(config, Silent())
    assert_same(tmp_path / "out", whole)


def test_a_run_that_loses_the_scheduler_says_so_and_is_gone_on_with(
    cluster: LocalCluster, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.runs.refresh.run_on_part", kill_once)
    config = config_on(cluster.address, tmp_path / "out")
    (Path(config.out) / ".store").mkdir(parents=True)
    with dying(config, cluster.scheduler), pytest.raises(BackendError, match=r"was lost\. Start it"):
        run_refresh(config, Silent())
    with LocalCluster(cluster.kind, tmp_path / "second", port=cluster.port):
        run_refresh(config, Silent())
    assert_same(tmp_path / "out", whole)
