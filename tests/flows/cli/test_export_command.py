"""`kame export`: what it prints for people and for programs, and how it refuses."""

import json
from pathlib import Path

from typer.testing import CliRunner

from flows.cli.app import app


def test_an_export_says_what_it_wrote_to_people_and_as_json(made: Path, tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["export", "moshi-finetune", str(made), str(tmp_path / "out")])
    assert told.exit_code == 0, told.output
    assert "train" in told.output
    told = CliRunner().invoke(app, ["export", "moshi-finetune", str(made), str(tmp_path / "json"), "--json"])
    n_lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (tmp_path / "out").glob("*.jsonl"))
    assert sum(json.loads(told.stdout)["dialogues"].values()) == n_lines > 0


def test_a_folder_that_is_there_is_refused_with_exit_code_2(made: Path, tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["export", "moshi-finetune", str(made), str(tmp_path)])
    assert told.exit_code == 2
    assert "already exists" in told.output
