"""The code of docs/extending.md, section by section, as a newcomer would take it from there.

The form is in tests/pipelines/script/test_new_form.py.
"""

import ast
import json
import re
import shlex
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer
import yaml
from typer.testing import CliRunner

from backends import registry
from backends.codec.conformance import check_codec
from backends.registry import GROUPS
from data_schemas.config import FormShares, SourceConfig, SplitConfig
from data_schemas.config.model import ModelConfig
from data_schemas.errors import ConfigError
from data_schemas.presets import PRESETS, Preset, StagePlan
from data_schemas.records import Item
from flows.cli.app import app
from flows.settings import build_train_config, parse_sources
from pipelines.sources.items import read_items
from pipelines.sources.registry import SOURCES
from tests.support.distributions import install_package
from tests.support.extending_page import PAGE, blocks, install, section


def typed(title: str) -> list[list[str]]:
    return [shlex.split(line)[2:] for line in re.findall(r"^    kame refresh .*$", section(title), re.MULTILINE)]


def read_as_typed(arguments: list[str], rows: Path) -> Item:
    """The item of a command line's only source, whose file is these rows."""
    values: dict[str, list[str]] = {}
    for option, value in zip(arguments[::2], arguments[1::2], strict=True):
        values.setdefault(option, []).append(value)
    sources = [f"{each.partition('=')[0]}={rows}" for each in values["--source"]]
    (settings,) = parse_sources(
        sources, values.get("--map", []), values.get("--licence", []), [], values.get("--source-option", [])
    )
    reading = read_items(SourceConfig.model_validate(settings), None, SplitConfig())
    assert reading.rejects == []
    (item,) = reading.items
    return item


@pytest.mark.full
def test_a_trial_on_doubles(tmp_path: Path) -> None:
    title = "Trying it in seconds"
    (tmp_path / "doubles.yaml").write_text(blocks(title, "yaml")[0], encoding="utf-8")
    rows = [{"q": "Which planet is nearest to the sun?", "a": "Mercury"}, {"q": "Which?", "a": 7}]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for line in re.findall(r"^    kame (.*)$", section(title), re.MULTILINE)[1:]:
        arguments = shlex.split(re.sub(r"\b(mine\.jsonl|doubles\.yaml|trial)\b", rf"{tmp_path}/\1", line))
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
    assert "| mine | wrong_type | 1 |" in (tmp_path / "trial" / "README.md").read_text(encoding="utf-8")
    (file,) = (tmp_path / "trial" / "rejects").iterdir()
    assert [row["reason"] for row in pq.read_table(file).to_pylist()] == ["wrong_type"]


def test_a_source_without_code(tmp_path: Path) -> None:
    rows = tmp_path / "arc.jsonl"
    rows.write_text(blocks("A source", "json")[0], encoding="utf-8")
    item = read_as_typed(typed("A source")[0], rows)
    assert (item.item_id, item.question) == ("arc-Mercury_7", "Which planet is nearest to the sun?")
    assert (item.options, item.answer, item.licence) == (("Venus", "Mercury"), "Mercury", "CC-BY-SA-4.0")


def test_several_sources_each_with_its_map() -> None:
    arguments = typed("A source")[1]
    given = {name: [value for each, value in pairwise(arguments) if each == name] for name in ("--source", "--map")}
    one, two = parse_sources(given["--source"], given["--map"])
    assert (one["columns"], two["columns"]) == ({"question": "q", "answer": "a"}, {"question": "x", "answer": "y"})


def test_a_source_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install("kame-riddles", "A source", tmp_path, monkeypatch)
    docstring = ast.get_docstring(ast.parse(blocks("A source", "python")[0])) or ""
    rows = tmp_path / "rows.jsonl"
    rows.write_text(docstring.partition("A row: ")[2], encoding="utf-8")
    item = read_as_typed(typed("A source")[2], rows)
    assert (item.question, item.answer) == ("You play it. What has keys and opens nothing?", "A piano.")
    assert item.revision == "kame-riddles 1.0.0"
    rows.write_text(json.dumps({"riddle": "What?", "solution": "That."}), encoding="utf-8")
    config = SourceConfig(name="riddles", path=str(rows), options={"with_hint": True})
    assert [each.reason for each in read_items(config, None, SplitConfig()).rejects] == ["no_hint"]


def test_a_text_to_speech_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install("kame-tone", "A text-to-speech engine", tmp_path, monkeypatch)
    exec(compile(blocks("A text-to-speech engine", "python")[1], "docs/extending.md", "exec"), {})
    said = registry.build("tts", "tone", {}).synthesise("Well, yes.", "low", 1.0)
    assert [word.word for word in said.words] == ["Well", "yes"]
    loud, soft = (registry.build("tts", "tone", {"volume": volume}) for volume in (0.5, 0.1))
    assert loud.digest != soft.digest
    with pytest.raises(ConfigError, match=r"does not take these options: volume"):
        registry.build("tts", "tone", {"volume": 2.0})


def test_a_codec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install("kame-hum", "A codec", tmp_path, monkeypatch)
    (tmp_path / "levels").mkdir()
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks("A codec", "python")[1], "docs/extending.md", "exec"), {})
    built = registry.build("codec", "hum", {"path": "levels", "n_codebooks": 4})
    check_codec(built)
    assert (built.n_codebooks, built.card) == (4, 64)
    with pytest.raises(ConfigError, match=r"nowhere/levels\.npy holds no levels"):
        registry.build("codec", "hum", {"path": "nowhere"})


def test_every_kind_of_engine_is_told_with_what_it_must_do_and_its_test() -> None:
    rows = re.findall(r"^\| .* \| `(kame\.\w+)` \| `([\w/.]+)`.* \| `([\w.]+)` \|$", PAGE, re.MULTILINE)
    assert [group for group, _, _ in rows] == list(GROUPS.values())
    for group, protocol, check in rows:
        kind = next(kind for kind, each in GROUPS.items() if each == group)
        assert protocol == f"backends/{kind}/protocol.py"
        module, _, function = check.rpartition(".")
        assert module == f"backends.{kind}.conformance"
        __import__(module)
        assert callable(getattr(sys.modules[module], function))


def test_a_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"Preset": Preset, "ModelConfig": ModelConfig, "StagePlan": StagePlan}
    made: Preset = eval(blocks("A preset", "python")[0], names)
    monkeypatch.setitem(PRESETS, made.model.preset, made)
    config = build_train_config("tiny", "copy", None, {"data.datasets": [{"path": "rows"}]})
    assert (config.model.dim, config.optim.learning_rate) == (64, 1e-3)
    assert (
        build_train_config("tiny", "dialogues", None, {"data.datasets": [{"path": "rows"}]}).data.batch_frames == 1_000
    )


def test_a_form_alone() -> None:
    shares = yaml.safe_load(blocks("A form", "yaml")[0])["forms"]["shares"]
    assert list(shares) == [*FormShares.model_fields, "repeat"]
    assert [name for name, share in shares.items() if share] == ["repeat"]


def test_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, line = blocks("A command", "python")
    module = type(sys)("sources_of_the_page")
    exec(compile(file, "docs/extending.md", "exec"), module.__dict__)
    assert line.strip() in {"app.command()(sources.sources)"}
    extended = typer.Typer()
    extended.add_typer(app, name="kame")
    eval(line.strip(), {"app": extended, "sources": module})
    assert CliRunner().invoke(extended, ["sources"]).stdout.split() == list(SOURCES)
    assert json.loads(CliRunner().invoke(extended, ["sources", "--json"]).stdout) == list(SOURCES)
    imported = {node.module for node in ast.parse(file).body if isinstance(node, ast.ImportFrom)}
    assert imported == {"flows.cli.terminal"}, "imports of weight are inside the function"
    install_package(tmp_path, monkeypatch, "kame-a", "", {"kame.sources": "gsm8k = kame_a:SPEC"})
    refused = CliRunner().invoke(extended, ["sources", "--json"])
    assert refused.exit_code == ConfigError.exit_code
    assert "built in" in json.loads(refused.stdout)["error"]
