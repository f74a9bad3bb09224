"""Sources by name: ours with a column map and options, and those of other installed packages."""

import json
from pathlib import Path
from typing import Any

import pytest

from backends.options import Options
from data_schemas.config import SourceConfig, SplitConfig
from data_schemas.errors import ConfigError, SourceError
from pipelines.sources.items import read_items
from pipelines.sources.registry import SOURCES, SourceEntry, get_spec, list_sources
from tests.support.distributions import install_package

RIDDLES = """
from dataclasses import replace
from functools import partial
from pydantic import Field
from backends.options import Options
from pipelines.sources.spec import Draft, Row, SourceSpec, read_text

class RiddleOptions(Options):
    prefix: str = Field(default="", description="Said before each question.")

def draft(prefix: str, row: Row) -> Draft:
    return Draft(question=prefix + read_text(row, "riddle"), answer=read_text(row, "solution"))

def riddles(options: RiddleOptions) -> SourceSpec:
    return SourceSpec(name="riddles", hub_id=None, hub_config=None, hub_split="", licence="CC0-1.0",
                      columns=("riddle", "solution"), draft=partial(draft, options.prefix))

PLAIN = replace(riddles(RiddleOptions()), name="plain")
"""
ROW = {"riddle": "What has keys and opens nothing?", "solution": "A piano."}


def written(folder: Path, row: dict[str, Any]) -> str:
    (folder / "rows.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    return str(folder / "rows.jsonl")


def install(folder: Path, patch: pytest.MonkeyPatch, points: str, code: str = RIDDLES) -> None:
    install_package(folder / "site", patch, "kame-riddles", code, {"kame.sources": points}, "2.1.0")


@pytest.mark.parametrize("name", SOURCES)
def test_ours_are_called_as_they_are_registered_and_take_options(name: str) -> None:
    assert issubclass(SourceEntry(name, SOURCES[name]).get_options_class(), Options)
    assert get_spec(SourceConfig(name=name)).name == name


@pytest.mark.parametrize("name", ["gsm8k", "mmlu_pro", "hssbench"])
def test_a_source_without_options_of_its_own_takes_those_of_the_hub(name: str) -> None:
    spec = get_spec(SourceConfig(name=name, options={"hub_split": "validation", "hub_config": "other"}))
    assert (spec.hub_split, spec.hub_config) == ("validation", "other")
    assert get_spec(SourceConfig(name=name)).hub_split in ("train", "test")


def test_a_file_of_ours_may_call_its_columns_otherwise(tmp_path: Path) -> None:
    row = {"data": {"ask": "How many pens?"}, "answer": "#### 12"}
    config = SourceConfig(name="gsm8k", path=written(tmp_path, row), columns={"question": "data.ask"})
    (item,) = read_items(config, None, SplitConfig()).items
    assert (item.question, item.answer, item.source) == ("How many pens?", "12", "gsm8k")
    wrong = config.model_copy(update={"columns": {"question": "nothing"}})
    with pytest.raises(SourceError, match=r"column\(s\) nothing that gsm8k needs; there are: answer, data"):
        read_items(wrong, None, SplitConfig())
    with pytest.raises(ConfigError, match=r"'gsm8k' has no column id to be mapped\. Its columns: question, answer"):
        get_spec(config.model_copy(update={"columns": {"id": "n"}}))


def test_a_packages_source_is_read_and_names_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "riddles = kame_riddles:riddles\nplain = kame_riddles:PLAIN")
    assert [each.name for each in list_sources()] == [*SOURCES, "plain", "riddles"]
    path = written(tmp_path, ROW)
    config = SourceConfig(name="riddles", path=path, options={"prefix": "Guess: "}, revision="r1")
    (item,) = read_items(config, None, SplitConfig()).items
    assert (item.question, item.answer) == ("Guess: " + ROW["riddle"], "A piano.")
    assert item.revision == "r1 read by kame-riddles 2.1.0"
    assert {each.name: each.get_licence() for each in list_sources()}["riddles"] == "CC0-1.0"
    (plain,) = read_items(SourceConfig(name="plain", path=path), None, SplitConfig()).items
    assert (plain.question, plain.revision) == (ROW["riddle"], "kame-riddles 2.1.0")
    with pytest.raises(ConfigError, match=r"riddles' is not on the Hub\. Give --source riddles=FILE"):
        read_items(SourceConfig(name="riddles"), None, SplitConfig())


@pytest.mark.parametrize(
    ("point", "code", "told"),
    [
        ("riddles = kame_riddles:riddles", "import nothing_of_that_name", "does not load: ModuleNotFoundError"),
        ("riddles = kame_riddles:SPEC", "SPEC = 7", "is neither a SourceSpec nor a function of its options"),
        ("riddles = kame_riddles:make", "def make(options): pass", "does not state the type of its options: KeyError"),
        ("riddles = kame_riddles:PLAIN", RIDDLES, "makes a source that is called 'plain'"),
        ("gsm8k = kame_riddles:PLAIN", RIDDLES, "has the name of one that is built in"),
    ],
)
def test_a_broken_package_is_named(
    point: str, code: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, point, code)
    with pytest.raises(ConfigError, match=f"of the package kame-riddles 2.1.0 {told}"):
        get_spec(SourceConfig(name="riddles", path=written(tmp_path, ROW)))
