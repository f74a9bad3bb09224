"""The deployment of prefect.yaml at a real server: deployed, run by a worker, its page opened in a browser."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from data_schemas.config import RefreshConfig
from data_schemas.config.front_end import FrontEndConfig
from flows.cli.progress import RefreshBars
from flows.runs.refresh import run_refresh
from flows.settings import validate_settings
from kame_model.checkpoint.export import export_checkpoint
from kame_model.checkpoint.kame_json import TrainingFacts
from kame_model.train.logs import METRICS, read_metrics
from kame_model.train.run_folder import choose_checkpoint
from pipelines.figures import Figures, list_tables
from pipelines.quality.check import check
from tests.support.codecs import with_validation
from tests.support.front_ends import tiny_front_end
from tests.support.prefect_servers import Prefect, prefect_server
from tests.support.recall_rows import make_vocabulary, recall_row, write_recall_rows

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
N_TASKS = 8 * 5 + 2
"""As docs/prefect.md has it, of the sample items' five shards: two sources have one dialogue for the test split."""


def deployment_in_file(name: str = "refresh") -> dict[str, Any]:
    """A deployment as prefect.yaml has it."""
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    return next(dict(each) for each in deployments if each["name"] == name)


def with_doubles(out: Path) -> dict[str, Any]:
    """The deployment's own parameters, its engines replaced by such as need no model."""
    config = deployment_in_file()["parameters"]["config"]
    speech = {"speech": {"tts": "double"}, "gate": {"asr": "none"}, "alignment": {"aligner": "double"}}
    doubles = {**speech, "chat": {"engine": "double"}}
    return {**config, **doubles, "out": str(out), "workers": 2, "parts": {"dialogues_per_part": 2}}


@dataclass
class Run:
    """A run of the deployment, watched to its end."""

    prefect: Prefect
    out: Path
    flow_run: dict[str, Any]


@pytest.fixture(scope="module")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    """What docs/prefect.md says to type, typed: server, pools, deploy."""
    with prefect_server(tmp_path_factory.mktemp("prefect")) as prefect:
        for pool in ("local", "gpu"):
            prefect.type("work-pool", "create", pool, "--type", "process")
        prefect.type("--no-prompt", "deploy", "--all")
        yield prefect


@pytest.fixture(scope="module")
def run(prefect: Prefect) -> Run:
    """A worker and a run, as the page says."""
    out = prefect.folder / "dataset"
    parameters = json.dumps({"config": with_doubles(out)})
    with prefect.started("worker", "start", "--pool", "local"):
        prefect.type("deployment", "run", "refresh/refresh", "--params", parameters, "--watch")
    return Run(prefect, out, prefect.run_of("refresh"))


def test_the_run_is_completed_and_its_bytes_are_those_of_the_plain_run(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run.flow_run["state_name"] == "Completed"
    monkeypatch.chdir(ROOT)  # the deployment's paths are relative to the folder that was deployed
    with RefreshBars(quiet=True) as bars:
        run_refresh(validate_settings(RefreshConfig, with_doubles(tmp_path / "plain")), bars)
    for name in ("dataset.json", "README.md"):  # the manifest holds the checksums of all files
        assert (run.out / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()
    assert check(str(run.out)) == []


def test_the_server_has_its_tasks_and_artifacts(run: Run) -> None:
    of_run = {"flow_runs": {"id": {"any_": [run.flow_run["id"]]}}}
    tasks = run.prefect.ask("/task_runs/filter", **of_run)
    assert len(tasks) == N_TASKS
    assert {task["state_name"] for task in tasks} == {"Completed"}
    artifacts = run.prefect.ask("/artifacts/filter", **of_run)
    kinds = {artifact["key"]: artifact["type"] for artifact in artifacts}
    told = {"dataset-card": "markdown", "refresh": "progress"}
    assert kinds == dict.fromkeys((each.key for each in list_tables(Figures())), "table") | told


def test_its_schedule_is_there_and_paused(run: Run) -> None:
    deployments = {each["name"]: each for each in run.prefect.ask("/deployments/filter")}
    (schedule,) = deployments["refresh"]["schedules"]
    assert (schedule["active"], schedule["schedule"]["cron"]) == (False, "0 3 * * 1")
    for name, deployment in deployments.items():
        assert deployment["parameters"] == deployment_in_file(name)["parameters"]
    assert deployments["train"]["work_pool_name"] == "gpu"


def test_a_cancelled_training_is_saved_and_shown_as_cancelled(
    prefect: Prefect, quick_config: FrontEndConfig, made: Path, tmp_path: Path
) -> None:
    data = with_validation(made, tmp_path / "data")
    keep = {"keep.evaluate_every": 20, "keep.save_every": 1_000_000, "keep.keep_best": False}
    endless = {"datasets": [str(data)], "max_steps": 1_000_000, "settings": quick_config.settings | keep}
    parameters = quick_config.model_copy(update=endless).model_dump(mode="json")
    prefect.type("deployment", "run", "train/train", "--params", json.dumps({"config": parameters}))
    with prefect.started("worker", "start", "--pool", "gpu", "--run-once", into=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        trains = next((line for line in worker.stdout if b"validation loss" in line), None)
        assert trains is not None, "the worker ended before it trained"
        prefect.type("flow-run", "cancel", prefect.run_of("train")["id"])
        said = worker.stdout.read().decode()  # to the worker's end
    assert prefect.run_of("train")["state_name"] == "Cancelled", said
    run = quick_config.of_seed / "run"
    told = [line["step"] for line in read_metrics(run / METRICS) if line["kind"] == "train"]
    assert choose_checkpoint(run, "last").step == told[-1] > 0
    assert not (run / "DONE").exists()


def test_an_evaluation_is_run_by_its_worker_and_shown(prefect: Prefect, tmp_path: Path) -> None:
    tokenizer = make_vocabulary(tmp_path)
    export_checkpoint(tiny_front_end(), tokenizer, None, tmp_path / "tiny", TrainingFacts(step=1))
    write_recall_rows(tmp_path / "tokens", [recall_row(1, "five", tokenizer)], tokenizer)
    config = {"kind": "recall", "checkpoint": "tiny", "path": "tokens", "out": "out"}
    config |= {name: str(tmp_path / config[name]) for name in ("checkpoint", "path", "out")}
    settings = ["n_sounds=0", "oracles=[right]", "delays_s=[0.1]"]
    parameters = json.dumps({"config": {**config, "settings": settings}})
    prefect.type("deployment", "run", "evaluate/evaluate", "--params", parameters)
    with prefect.started("worker", "start", "--pool", "gpu", "--run-once", into=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        said = worker.stdout.read().decode()  # to the worker's end
    flow_run = prefect.run_of("evaluate")
    assert flow_run["state_name"] == "Completed", said
    artifacts = prefect.ask("/artifacts/filter", flow_runs={"id": {"any_": [flow_run["id"]]}})
    assert {"report", "progress-running"} <= {each["key"] for each in artifacts}
