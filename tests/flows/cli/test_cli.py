"""The command `kame`: what it prints, for people and for programs, and how it ends."""

import importlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import soundfile
import typer
import yaml
from typer.testing import CliRunner, Result

from data_schemas.config import RefreshConfig
from data_schemas.errors import DatasetError
from data_schemas.profiles import PROFILES
from data_schemas.reader import read_manifest
from data_schemas.store import Store
from flows.cli.app import app
from flows.cli.terminal import report_errors

HEAVY = {"torch", "prefect", "datasets", "onnxruntime", "openai", "pyarrow", "numpy", "pydantic", "yaml"}


def kame(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def as_json(*arguments: object) -> Any:
    result = kame(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_help_imports_nothing_of_weight() -> None:
    code = (
        "import sys; from flows.cli.app import main; sys.argv = ['kame', '--help']\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code, *sys.modules, sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Exit codes" in done.stdout
    _, _, loaded = done.stdout.rpartition("\n0\n")
    assert "typer" in loaded.split()
    assert HEAVY & set(loaded.split()) == set()


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
    shown = kame("--version")
    assert (shown.exit_code, shown.stdout) == (0, f"kame-pipeline {project['project']['version']}\n")


def test_a_package_that_is_not_installed_is_told_with_the_line_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, report_errors(as_json=False):
        importlib.import_module("no_such_package.part")
    assert ended.value.exit_code == 2
    told = capsys.readouterr().err
    assert "not installed: no_such_package. Install what all commands need: pip install 'kame-pipeline[all]'" in told
    with pytest.raises(ModuleNotFoundError), report_errors(as_json=False):
        importlib.import_module("flows.no_such_module")


@pytest.mark.parametrize("profile", PROFILES)
def test_config_show_is_yaml_that_goes_back_in(profile: str, tmp_path: Path) -> None:
    shown = kame("config", "show", "--profile", profile)
    assert RefreshConfig.model_validate(yaml.safe_load(shown.stdout)) == PROFILES[profile]()
    (tmp_path / "my.yaml").write_text(shown.stdout, encoding="utf-8")
    assert as_json("config", "diff", profile, tmp_path / "my.yaml") == []
    assert as_json("config", "show", "--profile", profile) == PROFILES[profile]().model_dump(mode="json")


def test_config_diff_names_fields_with_both_values() -> None:
    rows = {row["field"]: (row["left"], row["right"]) for row in as_json("config", "diff", "embedded", "gpu")}
    assert rows["chat.engine"] == ("llamacpp", "vllm")
    table = kame("config", "diff", "embedded", "gpu").stdout
    assert all(word in table for word in ("chat.engine", "vllm", "embedded", "gpu"))


def test_inspect_tells_counts_and_the_dialogue_asked_for_and_writes_its_sound(made: Path, tmp_path: Path) -> None:
    found = as_json("inspect", made)
    counts = read_manifest(Store(str(made))).counts
    assert found["counts"] == counts.model_dump()
    assert found["dialogue"]["turns"][0]["speaker"] == "B"
    assert found["oracle"]["dialogue_id"] == found["dialogue"]["dialogue_id"]
    assert "audio" not in found["dialogue"]
    wanted = "mmlu_pro-900001-v0"
    shown = kame("inspect", made, "--dialogue", wanted, "--wav", tmp_path / "one.wav").stdout
    assert f"{counts.dialogues} dialogues" in shown
    assert wanted in shown
    info = soundfile.info(str(tmp_path / "one.wav"))
    row = as_json("inspect", made, "--dialogue", wanted)["dialogue"]
    assert (info.frames, info.channels, info.samplerate) == (row["n_samples"], 2, 24_000)


def test_check_ends_with_0_without_faults_and_with_1_and_a_table_of_them(made: Path, dataset: Path) -> None:
    assert as_json("check", made) == {"sound": True, "faults": [], "n_not_remade": 0}
    assert "no faults found" in kame("check", made).stdout
    fault = {"where": "data/more.parquet", "rule": "the manifest lists every file", "found": "not listed"}
    (dataset / fault["where"]).write_bytes(b"x")
    shown = kame("check", dataset)
    assert shown.exit_code == 1
    assert fault["where"] in shown.stdout
    assert fault["rule"] in shown.stdout
    told = kame("check", dataset, "--json")
    assert (told.exit_code, json.loads(told.stdout)["faults"]) == (1, [fault])


@pytest.mark.full
def test_refresh_prints_figures_for_people_and_counts_for_programs(made_config: RefreshConfig, tmp_path: Path) -> None:
    sources = [part for each in made_config.sources for part in ("--source", f"{each.name}={each.path}")]
    settings = made_config.model_dump(mode="json") | {"sources": []}
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    typed = ("refresh", *sources, "--config", tmp_path / "my.yaml", "--out", tmp_path / "new", "--workers", 1)
    told = as_json(*typed)
    first = read_manifest(Store(made_config.out))
    assert told == {"out": str(tmp_path / "new"), "fingerprint": first.fingerprint, **first.counts.model_dump()}
    shown = kame(*typed)
    assert first.fingerprint in shown.stdout
    assert "rejects" in shown.stdout
    assert "make voices" in shown.stderr


def test_errors_are_json_for_programs_beside_the_message(tmp_path: Path) -> None:
    told = kame("inspect", tmp_path, "--json")
    assert told.exit_code == DatasetError.exit_code
    assert json.loads(told.stdout) == {
        "error": f"{tmp_path} is not a dataset: it has no dataset.json.",
        "remedy": "Make one with `kame refresh`.",
    }
    assert told.stderr == f"kame: {tmp_path} is not a dataset: it has no dataset.json. Make one with `kame refresh`.\n"
    told = kame("refresh", "--map", "question", "--json")
    assert (told.exit_code, "is not a list of field=COLUMN" in json.loads(told.stdout)["error"]) == (2, True)


@pytest.mark.full
def test_the_shell_completes_commands_and_options_with_the_script_that_is_printed() -> None:
    kame = Path(sys.executable).with_name("kame")
    script = f"""
        eval "$({kame} --show-completion)"
        COMP_WORDS=(kame ref) COMP_CWORD=1; _kame_completion {kame}; echo "${{COMPREPLY[*]}}"
        COMP_WORDS=(kame refresh --lim) COMP_CWORD=2; _kame_completion {kame}; echo "${{COMPREPLY[*]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["refresh", "--limit"], done.stderr
