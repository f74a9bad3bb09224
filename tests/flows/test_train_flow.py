"""The flow `train` at a Prefect server of its own: the plain run's steps as tasks, and what it shows."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.sorting import FlowRunSort
from prefect.utilities.schema_tools.validation import validate

from data_schemas.config.front_end import FrontEndConfig
from flows import train
from flows.runs.train import Stopped
from kame_model.checkpoint.registry import read_registry
from kame_model.train.logs import METRICS, read_metrics
from tests.support.prefect_servers import read_artifacts

pytestmark = pytest.mark.full


def last_state() -> str:
    with get_client(sync_client=True) as client:
        (run,) = client.read_flow_runs(sort=FlowRunSort.EXPECTED_START_TIME_DESC, limit=1)
    return str(run.state_name)


@pytest.mark.usefixtures("server")
def test_a_run_stopped_by_its_worker_goes_on_and_shows_what_it_did(
    quick_config: FrontEndConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = train.ShownTrainingProgress.step

    def stop_at_1(self: train.ShownTrainingProgress, step: int, figures: Mapping[str, float]) -> None:
        shown(self, step, figures)
        if step == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(train.ShownTrainingProgress, "step", stop_at_1)
    with pytest.raises(Stopped, match="is saved"):
        train.train(quick_config)
    assert last_state() == "Failed"
    assert "losses-dialogues" in read_artifacts(), "losses are shown however training ended"
    assert read_registry(quick_config.checkpoints) == []
    monkeypatch.setattr(train.ShownTrainingProgress, "step", shown)
    checkpoint = train.train(quick_config)
    assert last_state() == "Completed"
    lines = read_metrics(quick_config.of_seed / "run" / METRICS)
    assert [line["step"] for line in lines if line["kind"] == "train"] == [1, 2, 3], "it has gone on"
    (entry,) = read_registry(quick_config.checkpoints)
    assert Path(checkpoint).name == entry.name
    told = read_artifacts()
    assert {"training", "losses-dialogues", "evaluation", "checkpoint-card"} <= told.keys()
    assert told["training"].data == 100.0
    assert str(told["losses-dialogues"].data).startswith("data:image/png;base64,iVBOR")
    assert "recall\n" in str(told["evaluation"].data)
    assert "| said once, right oracle" in str(told["checkpoint-card"].data)


def test_prefects_form_has_titles_bounds_and_choices() -> None:
    from prefect.utilities.callables import parameter_schema

    schema = parameter_schema(train.train).model_dump_for_openapi()
    fields = schema["definitions"]["FrontEndConfig"]["properties"]
    assert fields["preset"]["enum"] == ["nano", "small", "moshi-7b"]
    assert fields["max_steps"]["anyOf"][0]["minimum"] == 1
    assert all(field.get("title") and field.get("description") for field in fields.values())
    wrong = validate({"config": {"datasets": ["d"], "max_steps": 0}}, schema)
    assert any("0 is not valid under any of the given schemas" in each.message for each in wrong)
