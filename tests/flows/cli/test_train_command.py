import json
from pathlib import Path

import pytest
import typer
from pydantic import ValidationError
from typer.testing import CliRunner

from data_schemas.config.front_end import FrontEndConfig
from data_schemas.config.training import OptimConfig
from data_schemas.errors import ConfigError
from data_schemas.presets import PRESETS, Preset
from flows.cli.train import group_settings, train
from flows.settings import build_train_config
from tests.support.train_runs import TINY, tiny_dataset

app = typer.Typer()
app.command()(train)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_dataset(tmp_path_factory.mktemp("rows"), n_train=6, n_validation=2)


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    return result.exit_code, result.output


def settings(folder: Path) -> Path:
    """A file of settings that makes the nano recipe a tiny one, for rows without a vocabulary beside them."""
    file = folder / "tiny.yaml"
    data = {"batch_frames": 300, "substitute_share": 0.0}
    tiny = {
        "shares": {"copying": 0},
        "model": TINY.model_dump(),
        "data": data,
        "hardware": {"device": "cpu", "threads": 1},
    }
    file.write_text(json.dumps(tiny))  # JSON is YAML
    return file


@pytest.mark.full
def test_a_run_is_made_and_told_of_as_json(rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    typed = ("--out", out, "--max-steps", 2, "--max-hours", 0.5, "--config", settings(tmp_path), "--json")
    code, said = run(f"{rows}=3", *typed)
    assert code == 0, said
    told = json.loads(said)
    assert told["step"] == 2
    assert set(told["evaluation"]) == {"right", "wrong", "none"}
    assert (out / "DONE").exists()
    begun_with = json.loads((out / "config.json").read_text())["config"]
    assert begun_with["data"]["datasets"] == [{"path": str(rows), "weight": 3.0}]
    assert begun_with["max_hours"] == 0.5


def test_a_person_is_told_of_the_three_columns(rows: Path, tmp_path: Path) -> None:
    code, said = run(rows, "--out", tmp_path / "run", "--max-steps", 1, "--config", settings(tmp_path))
    assert code == 0, said
    assert "right oracle" in said
    assert "none oracle" in said
    assert "1 steps of" in said


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("stage", ["speak", "copy", "dialogues"])
def test_each_preset_has_a_whole_recipe_for_each_stage(preset: str, stage: str) -> None:
    typed = {"data.datasets": [{"path": "rows"}], "init_from": "base", "lora.rank": 4, "optim.learning_rate": 0.5}
    config = build_train_config(preset, stage, None, typed)
    assert config.stage == stage
    assert config.model.preset == preset
    assert config.lora is not None
    assert config.lora.rank == 4
    assert config.optim.learning_rate == 0.5


@pytest.mark.full
def test_a_preset_of_ones_own_is_one_entry(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/model.md says; it trains on rows, and datasets take it."""
    data = {"batch_frames": 300}
    monkeypatch.setitem(PRESETS, "tiny", Preset(model=TINY, settings={"data": data}))
    out = tmp_path / "run"
    code, said = run(rows, "--preset", "tiny", "--out", out, "--max-steps", 1, "--set", "hardware.device=cpu")
    assert code == 0, said
    assert json.loads((out / "config.json").read_text())["config"]["model"]["preset"] == "tiny"
    config = build_train_config("tiny", None, None, {"data.datasets": [{"path": "rows"}]})
    assert config.optim == OptimConfig(), "what an entry does not say is as in KAME's release"
    assert FrontEndConfig(datasets=["d"], preset="tiny").preset == "tiny"
    assert "tiny" in FrontEndConfig.model_json_schema()["properties"]["preset"]["enum"]
    with pytest.raises(ValidationError, match=f"no preset 'huge'; choose one of: {', '.join(PRESETS)}"):
        FrontEndConfig(datasets=["d"], preset="huge")


def test_what_is_typed_goes_over_the_file_and_the_file_over_the_recipe(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("optim: {learning_rate: 0.25, warmup_steps: 3}\nseed: 4\n")
    typed = {"data.datasets": [{"path": "rows"}], "seed": 5, "data.feed.jitter_frames": 2}
    config = build_train_config("nano", "dialogues", file, typed)
    assert (config.optim.learning_rate, config.optim.warmup_steps, config.seed) == (0.25, 3, 5)
    assert config.optim.weight_decay == 0.05  # the recipe's
    assert (config.data.feed.jitter_frames, config.data.feed.drop_share) == (2, 0.15)


@pytest.mark.parametrize(
    ("preset", "stage", "typed", "reason"),
    [
        ("huge", "dialogues", {}, "no preset 'huge'"),
        ("nano", "sing", {}, "no stage 'sing'.*speak, copy, dialogues"),
        ("nano", "dialogues", {"data.datasets": []}, "no datasets are given"),
        ("nano", "dialogues", {"lora.rank": 4}, "init_from: adapters"),
        ("nano", "dialogues", {"optim.learning_rat": 1.0}, r"optim\.learning_rat: Extra inputs"),
        ("nano", "dialogues", {"data.swap_share": {"a": 1}}, "swap_share is a single value, so it has no swap_share.a"),
        ("nano", "dialogues", {"data.swap_share": 1.5}, r"data\.swap_share: Input should be less than or equal to 1"),
    ],
)
def test_settings_that_do_not_hold_are_named(preset: str, stage: str, typed: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        build_train_config(preset, stage, None, {"data.datasets": [{"path": "rows"}], **typed})


def test_options_of_datasets_are_not_passed_over_where_there_are_rows(rows: Path, tmp_path: Path) -> None:
    typed = ("--listen", "--speech", tmp_path, "--evaluate", 0, "--held-out", tmp_path)
    code, said = run(rows, "--out", tmp_path / "run", *typed)
    assert code == 2
    assert "These options need datasets, but token rows were given: --speech, --held-out, --evaluate, --listen." in said
    assert not (tmp_path / "run").exists()


def test_settings_of_datasets_go_to_the_step_they_name() -> None:
    typed = {"copy.optim.learning_rate": 0.1, "evaluation.delay_s": 1.0, "data.swap_share": 0.3, "copying.max_words": 4}
    assert group_settings(typed) == {
        "evaluation_settings": {"delay_s": 1.0},
        "settings": {"copy.optim.learning_rate": 0.1, "data.swap_share": 0.3, "copying.max_words": 4},
    }


def test_several_processes_do_not_train_on_a_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dataset.json").write_text("{}")
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, said = run(tmp_path, "--out", tmp_path / "run")
    assert code == 2
    assert "Encode the datasets with `kame encode`" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (("--stage", "copy", "--set", "shares.copying=80"), "need a tokenizer"),  # no vocabulary
        (("--stage", "speak"), "The stage 'speak' is of speech"),
    ],
)
def test_a_stage_of_what_the_rows_do_not_hold_is_refused(
    rows: Path, tmp_path: Path, typed: tuple[str, ...], told: str
) -> None:
    code, said = run(rows, *typed, "--out", tmp_path / "run", "--config", settings(tmp_path))
    assert (code, told in said) == (2, True), said


def test_a_folder_without_token_rows_is_told_plainly(tmp_path: Path) -> None:
    code, said = run(tmp_path, "--out", tmp_path / "run")
    assert code == 6
    assert "holds no token rows" in said
    assert "Traceback" not in said
