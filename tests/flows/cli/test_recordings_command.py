"""`kame recordings`: what it prints and how it fails."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from flows.cli import recordings
from tests.support.recorded import EGGS, record

pytestmark = pytest.mark.full

app = typer.Typer()
app.command("recordings")(recordings.refresh_recordings)


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    options = {"--out": tmp_path / "dataset", "--set": "chat.engine=double", "--workers": 2, "--name": "calls"}
    return [str(tmp_path / "kept"), *(str(each) for pair in options.items() for each in pair)]


def test_it_makes_a_dataset_in_worker_processes_too_and_tells_what_is_in_it(
    arguments: list[str], tmp_path: Path
) -> None:
    record(tmp_path / "kept", {"one": EGGS, "two": EGGS[:2]})
    told = CliRunner().invoke(app, [*arguments, "--json", "--set", "parts.dialogues_per_part=1"])
    assert told.exit_code == 0, told.output
    assert {"dialogues": 2, "rejects": 0}.items() <= json.loads(told.stdout).items()
    card = (tmp_path / "dataset" / "README.md").read_text()
    assert "recorded with consent" in card
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 0, told.output
    assert "calls" in told.stdout


def test_a_folder_that_is_not_there_is_said_in_a_line(arguments: list[str]) -> None:
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 3
    assert "no folder of recordings" in told.stderr
    assert "Traceback" not in told.output
