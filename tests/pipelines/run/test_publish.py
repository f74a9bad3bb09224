"""Parts to shards to a dataset: what is written, in which order, what stays and what goes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from data_schemas.config import OracleConfig, RefreshConfig, SourceConfig, SpeechConfig
from data_schemas.errors import StoreError
from data_schemas.flags import FLAGS
from data_schemas.manifest import MANIFEST, Manifest
from data_schemas.named_yaml import read_model
from data_schemas.reader import read_manifest
from data_schemas.records import SCHEMA_VERSION
from data_schemas.store import Store, WriteBatch
from flows.cli.oracle import app as oracle_app
from flows.runs.refresh import run_refresh
from pipelines.oracle.ladder_section import list_report_paths
from pipelines.oracle.prompts import PromptSet, load_prompts
from pipelines.quality.check import CheckResult, check, check_dataset
from pipelines.run.publish import CARD
from tests.support.runs import Silent, config_on_doubles

pytestmark = pytest.mark.full

ROWS = [{"question": f"How much is {n} plus {n} in this sum?", "answer": f"#### {2 * n}"} for n in range(2, 5)]
MIDDLE = 0.5
"""Of these three dialogues one draws a place below it."""


@pytest.fixture
def config(tmp_path: Path) -> RefreshConfig:
    """A run of three questions in one source of our own making."""
    file = tmp_path / "gsm8k.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS), encoding="utf-8")
    made = config_on_doubles(tmp_path / "out", sources=(file,))
    return made.model_copy(update={"oracle": OracleConfig()})


def refresh(config: RefreshConfig, **changes: Any) -> Manifest:
    _, manifest, _ = run_refresh(config.model_copy(update=changes), Silent())
    assert check(config.out) == []
    return manifest


def files(config: RefreshConfig) -> set[str]:
    store = Store(config.out)
    return {path for folder in ("data", "oracles", "rejects") for path in store.list_files(folder, ".parquet")}


def prompt_files(config: RefreshConfig) -> list[str]:
    return sorted(Store(config.out).list_files("prompts", ".yaml"))


def column(config: RefreshConfig, folder: str, name: str) -> list[Any]:
    found = sorted(Path(config.out, folder).rglob("*.parquet"))
    return [value for file in found for value in pq.read_table(file)[name].to_pylist()]


def other_source(config: RefreshConfig) -> RefreshConfig:
    file = Path(config.out).with_name("mine.jsonl")
    file.write_text(json.dumps({"q": "Who has the oldest boat of all?", "a": "My uncle."}), encoding="utf-8")
    mine = SourceConfig(name="mine", path=str(file), columns={"question": "q", "answer": "a"})
    return config.model_copy(update={"sources": [mine]})


def test_the_manifest_is_written_last_and_lists_every_file_with_its_rows_and_checksum(
    config: RefreshConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    write: Callable[..., Any] = WriteBatch.open_for_writing

    def noted(self: WriteBatch, path: str) -> Any:
        written.append(path)
        return write(self, path)

    monkeypatch.setattr(WriteBatch, "open_for_writing", noted)
    manifest = refresh(config)
    of_dataset = [path for path in written if not path.startswith((".store", "runs"))]
    assert of_dataset[-2:] == [CARD, MANIFEST]
    assert set(of_dataset[:-2]) == files(config) | set(prompt_files(config))
    store = Store(config.out)
    assert {entry.path for entry in manifest.shards} == files(config)
    for entry in manifest.shards:
        described = store.describe(entry.path)
        assert (entry.n_bytes, entry.sha256) == (described.n_bytes, described.sha256)
        parquet = pq.ParquetFile(Path(config.out, entry.path))
        assert entry.n_rows == parquet.metadata.num_rows
        if entry.kind == "data":
            told = parquet.schema_arrow.metadata
            audio = json.loads(told[b"huggingface"])["info"]["features"]["audio"]
            assert audio == {"sampling_rate": 24_000, "num_channels": 2, "_type": "Audio"}
            assert told[b"kame_schema_version"] == str(SCHEMA_VERSION).encode()


def test_a_run_that_stops_leaves_the_old_dataset_whole(config: RefreshConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    before = refresh(config)
    write = Store.write_bytes

    def full(self: Store, path: str, data: bytes) -> Any:
        if path == CARD:
            raise StoreError("The disk is full.")
        return write(self, path, data)

    monkeypatch.setattr(Store, "write_bytes", full)
    with pytest.raises(StoreError, match="The disk is full"):
        refresh(config, speech=SpeechConfig(tts="double", voice_a="double_b"))
    monkeypatch.undo()
    store = Store(config.out)
    assert read_manifest(store) == before
    assert all(store.describe(entry.path).sha256 == entry.sha256 for entry in before.shards)


def test_another_source_is_added_and_the_first_stays(config: RefreshConfig) -> None:
    before = refresh(config)
    after = refresh(other_source(config))
    assert {entry.path for entry in before.shards} < {entry.path for entry in after.shards}
    assert {entry.source for entry in after.shards} == {"gsm8k", "mine"}
    assert after.counts.dialogues == before.counts.dialogues + 1
    assert set(column(config, "data", "licence")) == {"MIT", "not stated"}


def test_other_oracles_stay_as_long_as_their_dialogues_do(config: RefreshConfig) -> None:
    refresh(config)
    both = refresh(config, oracle=OracleConfig(version="brief", interval_s=2.0))
    assert {entry.oracle_version for entry in both.select_kind("oracle")} == {"default", "brief"}
    assert both.oracle_version == "brief"
    speech = SpeechConfig(tts="double", speed_min=1.1)
    changed = refresh(config, oracle=OracleConfig(version="brief", interval_s=2.0), speech=speech)
    assert {entry.oracle_version for entry in changed.select_kind("oracle")} == {"brief"}


def test_oracles_bear_the_name_of_their_version_and_the_card_names_who_wrote_each(config: RefreshConfig) -> None:
    refresh(config)
    refresh(config, oracle=OracleConfig(version="again"))
    assert set(column(config, "oracles/default", "oracle_version")) == {"default"}
    assert set(column(config, "oracles/again", "oracle_version")) == {"again"}
    refresh(config, oracle=OracleConfig(simulator="random", version="random"))
    card = Path(config.out, CARD).read_text(encoding="utf-8")
    assert f"| default | llm | double | double | v2 | {len(ROWS)} |" in card
    assert "| random | random | random | random | none | " in card


def test_flags_of_all_dialogues_leave_an_empty_dataset(config: RefreshConfig) -> None:
    refresh(config)
    lines = [json.dumps({"dialogue_id": each, "reason": "bad"}) for each in column(config, "data", "dialogue_id")]
    Path(config.out, FLAGS).write_text("\n".join(lines), encoding="utf-8")
    after = refresh(config)
    assert (after.counts.dialogues, after.counts.rejects) == (0, len(ROWS))
    assert after.select_kind("data") == after.select_kind("oracle") == []


def test_an_evaluation_set_that_is_added_later_takes_its_questions_out(config: RefreshConfig, tmp_path: Path) -> None:
    before = refresh(config)
    file = tmp_path / "bench.jsonl"
    file.write_text(json.dumps({"turns": [str(ROWS[1]["question"]).upper(), "And why?"]}), encoding="utf-8")
    after = refresh(config, evaluation_sets=[str(file)])
    assert ROWS[1]["question"] not in column(config, "data", "question")
    assert after.counts.dialogues == before.counts.dialogues - 1
    assert column(config, "rejects", "reason") == ["contaminated"]
    assert refresh(config, evaluation_sets=[str(file)]) == after
    refresh(config)
    assert ROWS[1]["question"] not in column(config, "data", "question")


def test_the_prompts_text_lies_beside_the_oracles_that_it_made(config: RefreshConfig, tmp_path: Path) -> None:
    refresh(config)
    (path,) = prompt_files(config)
    assert path == f"prompts/default/{load_prompts('v2').digest}.yaml"
    assert read_model(Path(config.out, path).read_text(encoding="utf-8"), PromptSet) == load_prompts("v2")
    mine = own_prompts(tmp_path)
    refresh(config, oracle=OracleConfig(prompt=mine))
    assert prompt_files(config) == [f"prompts/default/{load_prompts(mine).digest}.yaml"]


def own_prompts(folder: Path) -> str:
    text = yaml.safe_dump(load_prompts("v2").model_dump() | {"version": "mine", "system": "Be brief."})
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    return str(folder / "mine.yaml")


def test_level_0_is_asked_again_with_the_datasets_own_prompts(config: RefreshConfig, tmp_path: Path) -> None:
    refresh(config, oracle=OracleConfig(prompt=own_prompts(tmp_path)))
    (tmp_path / "mine.yaml").unlink()
    assert check_dataset(config.out) == CheckResult([], 0)
    (path,) = prompt_files(config)
    text = Path(config.out, path).read_text(encoding="utf-8")
    Path(config.out, path).write_text(text.replace("Be brief.", "Be long."), encoding="utf-8")
    found = check_dataset(config.out)
    assert [(fault.where, fault.rule) for fault in found.faults] == [(path, "prompts are those of their file's name")]
    assert found.n_not_remade == len(ROWS)
    Path(config.out, path).unlink()
    assert check_dataset(config.out) == CheckResult([], len(ROWS))


def test_shares_of_a_corpus_are_versions_with_no_dialogue_in_common(config: RefreshConfig) -> None:
    refresh(config, oracle=OracleConfig(version="one", share_to=MIDDLE))
    refresh(config, oracle=OracleConfig(version="two", share_from=MIDDLE))
    one, two = (set(column(config, f"oracles/{version}", "dialogue_id")) for version in ("one", "two"))
    assert one
    assert two
    assert one | two == set(column(config, "data", "dialogue_id"))
    assert not one & two


def test_the_card_shows_a_ladder_only_while_its_files_stand(config: RefreshConfig) -> None:
    def card() -> str:
        return Path(config.out, CARD).read_text(encoding="utf-8")

    refresh(config)
    assert "ladder" not in card()
    reported = CliRunner().invoke(oracle_app, ["report", config.out])
    assert reported.exit_code == 0, reported.output
    picture, figures, _ = list_report_paths("default")
    told = json.loads(Path(config.out, figures).read_text(encoding="utf-8"))["sources"]["gsm8k"]["levels"]["0"]
    assert "## The ladder measured, version default" in card()
    assert f"]({picture})" in card()
    assert f"| 0 | {told['n_events']} | 0 | {told['word_f1']['value']:.3f} (" in card()
    with_ladder = card()
    refresh(config)
    assert card() == with_ladder
    refresh(config, oracle=OracleConfig(interval_s=1.0))
    assert "ladder" not in card()
