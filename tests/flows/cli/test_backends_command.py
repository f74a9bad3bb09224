"""`kame backends`: the list, and what `install` says."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from backends.registry import ENTRIES
from backends.workers import environments, install
from backends.workers.environments import WorkerEnvironment
from data_schemas.errors import BackendError, ConfigError
from flows.cli.app import app
from pipelines.sources.registry import SOURCES
from tests.support.distributions import install_package

pytestmark = pytest.mark.full


def kame(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["backends", *(str(each) for each in arguments)])


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One worker environment, `json`, that needs no package, and an empty cache."""
    (tmp_path / "nothing.txt").write_text("# no package\n")
    for module in (environments, install):
        monkeypatch.setattr(module, "REQUIREMENTS", tmp_path)
    monkeypatch.setattr(environments, "ENVIRONMENTS", (WorkerEnvironment("json", ("nothing.txt",), 1, "json"),))
    monkeypatch.setenv("KAME_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_every_back_end_is_listed_with_licence_and_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAME_CACHE", str(tmp_path))
    rows: list[dict[str, Any]] = json.loads(kame("--json").stdout)
    ours = [(each.kind, each.name) for each in ENTRIES] + [("source", name) for name in SOURCES]
    assert [(row["kind"], row["name"]) for row in rows] == ours
    assert ("tts", "double", "yes") in {(row["kind"], row["name"], row["installed"]) for row in rows}
    coqui = next(row for row in rows if row["name"] == "coqui")
    assert (coqui["installed"], coqui["install"]) == ("no", "kame backends install coqui")
    assert all(row["licence"] for row in rows)
    table = kame().stdout
    assert all(each.name in table and each.licence in table for each in ENTRIES)
    assert "kame backends install coqui" in table


def test_an_environment_is_made_once(tiny: Path) -> None:
    made = kame("install", "json")
    assert made.exit_code == 0, made.stderr
    assert f"json is installed in {tiny}" in made.stdout
    again = json.loads(kame("install", "json", "--json").stdout)
    assert again["name"] == "json"
    assert Path(again["folder"]).is_dir()


@pytest.mark.parametrize(
    ("name", "told"),
    [("kokoro", "runs in the main environment. Install kame-pipeline[all]"), ("espresso", "Choose one of: ")],
)
def test_names_that_have_no_environment_are_told(name: str, told: str) -> None:
    asked = kame("install", name)
    assert asked.exit_code == ConfigError.exit_code
    assert told in asked.stderr


def test_a_failed_installation_ends_with_its_reason_and_code(tiny: Path) -> None:
    (tiny.parent / "nothing.txt").write_text("--no-index\nno-such-package==1.0\n")
    asked = kame("install", "json", "--json")
    assert asked.exit_code == BackendError.exit_code
    assert "no-such-package==1.0" in json.loads(asked.stdout)["error"]


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (("tts", "piper"), {"voices", "licence", "threads", "timeout_s"}),
        (("tts", "double"), set()),
        (("source", "gsm8k"), {"hub_config", "hub_split"}),
        (("source", "mine"), {"hub_config", "hub_split", "hub_id", "answer_is", "first_place"}),
    ],
)
def test_the_options_of_back_ends_and_sources_are_told(asked: tuple[str, str], names: set[str]) -> None:
    rows = json.loads(kame("options", *asked, "--json").stdout)
    assert {row["name"] for row in rows} == names
    assert all(row["description"] for row in rows)
    assert all(name in kame("options", *asked).stdout for name in names or {"has no options"})


def test_a_source_that_is_not_there_is_told_before_the_options_of_a_described_one() -> None:
    assert "There is no question set 'nosuch'" in kame("options", "source", "nosuch").stderr
    assert kame("options", "source", "own").stderr == ""


def test_a_package_that_does_not_load_is_told_in_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = {"kame.tts": "tone = kame_tone:Tone", "kame.sources": "tones = kame_tone:SPEC"}
    install_package(tmp_path, monkeypatch, "kame-tone", "import nothing_of_that_name", points)
    rows = {row["name"]: row for row in json.loads(kame("--json").stdout)}
    for name in ("tone", "tones"):
        assert rows[name]["installed"] == "no"
        assert "the package kame-tone 1.0.0 does not load" in rows[name]["install"]
    assert kame().exit_code == 0
