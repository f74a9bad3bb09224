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
    assert [(row["kind"], row["name"]) for row in rows] == [(each.kind, each.name) for each in ENTRIES]
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
    ("name", "told"), [("kokoro", "runs in the main environment. Type: make install"), ("espresso", "There are: ")]
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
