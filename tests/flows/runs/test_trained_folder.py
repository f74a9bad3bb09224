"""What `kame train` wrote is exported and evaluated by the name that was given to it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from data_schemas.config.front_end import FrontEndConfig
from flows.cli.app import app
from flows.runs.train import run_front_end
from kame_model.evaluate.report.folder import FIGURES
from kame_model.train.checkpoints import CHECKPOINTS, DONE
from kame_model.train.run_facts import CONFIG
from kame_model.train.run_folder import find_run

pytestmark = pytest.mark.full


def begin(run: Path, has_checkpoint: bool = True) -> Path:
    """A run's folder as far as its name tells it."""
    step = run / CHECKPOINTS / "step-00000001"
    step.mkdir(parents=True)
    (run / CONFIG).write_text("{}")
    if has_checkpoint:
        (step / DONE).touch()
    return run


def test_a_run_is_found_in_its_own_folder_and_of_seeds_the_first_with_a_checkpoint(tmp_path: Path) -> None:
    of_rows, of_datasets = begin(tmp_path / "rows"), tmp_path / "datasets"
    begin(of_datasets / "seed-0" / "run", has_checkpoint=False)
    for seed in (10, 2, 3):
        begin(of_datasets / f"seed-{seed}" / "run")
    begin(of_datasets / "seed-1" / "copy")
    assert find_run(of_rows) == (of_rows, None, ())
    assert find_run(of_datasets) == (of_datasets / "seed-2" / "run", 2, (0, 3, 10))
    assert find_run(of_datasets / "seed-10" / "run") == (of_datasets / "seed-10" / "run", None, ())
    assert str(find_run(of_datasets)).endswith(
        "seed-2/run, the run of seed 2; of seed 0 or 3 or 10 name the run's folder"
    )
    (tmp_path / CONFIG).write_text("{}")  # an exported checkpoint has one too
    assert (find_run(tmp_path), find_run("owner/name")) == (None, None)


def test_a_training_that_has_only_learnt_to_copy_is_told_so(tmp_path: Path) -> None:
    begin(tmp_path / "out" / "seed-0" / "copy")
    told = CliRunner().invoke(app, ["checkpoint", "export", str(tmp_path / "out"), str(tmp_path / "exported")])
    assert told.exit_code != 0
    assert "has not reached its last stage yet" in told.output


@pytest.mark.filterwarnings("ignore::UserWarning:torch")
def test_the_folder_of_a_training_on_datasets_is_exported_and_evaluated(
    quick_config: FrontEndConfig, tmp_path: Path
) -> None:
    config = quick_config.model_copy(update={"evaluate_items": 0, "max_steps": 1})
    for seed in (1, 2):
        run_front_end(config.model_copy(update={"seed": seed}))
    cli, run = CliRunner(), Path(config.out) / "seed-1" / "run"
    made = cli.invoke(app, ["checkpoint", "export", config.out, str(tmp_path / "exported"), "--json"])
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    assert (told["run"], told["seed"], told["codec"]["name"]) == (str(run), 1, "codec2-learnt")
    assert "the run of seed 1; of seed 2 name the run's folder" in made.stderr
    (rows,) = (Path(config.out) / "tokens").iterdir()
    typed = [str(rows), "--split", "train", "--n", "1", "--device", "cpu", "--json", "--out"]
    done = cli.invoke(app, ["evaluate", "recall", config.out, *typed, str(tmp_path / "evaluation")])
    assert done.exit_code == 0, done.output
    assert "the run of seed 1" in done.stderr
    assert json.loads((tmp_path / "evaluation" / FIGURES).read_text())["checkpoint"] == str(run)
    of_export = cli.invoke(app, ["evaluate", "recall", str(tmp_path / "exported"), *typed, str(tmp_path / "of-export")])
    assert json.loads(of_export.stdout) == json.loads(done.stdout)
