"""The flow `speech` at a Prefect server: the run's tasks, and what the page shows of it."""

from pathlib import Path

import pytest
from prefect.client.orchestration import get_client

from flows import speech as speech_flow
from kame_model.encode.token_dataset import TokenDataset
from tests.support.sentences import speech_config

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.usefixtures("server")
def test_its_tasks_are_those_of_the_run(tmp_path: Path) -> None:
    made = speech_flow.speech(speech_config(tmp_path))
    with get_client(sync_client=True) as client:
        (flow_run,) = client.read_flow_runs()
        tasks = [each.name for each in client.read_task_runs()]
        artifacts = {each.key: each for each in client.read_artifacts()}
    assert flow_run.state_name == "Completed"
    assert sorted(tasks) == ["codec", "encode", "sentences", "speech", "vocabulary"]
    assert set(artifacts) == {"speech", "speech-refused"}
    assert artifacts["speech"].data == 100.0
    assert len(TokenDataset(str(tmp_path / "speech"))) == made.manifest.counts.n_rows
