"""What a refresh promises about a folder: nobody else's files, nothing stale, nothing lost, faults mended next time."""

import json
from pathlib import Path
from typing import Any

import pytest

from backends.chat.double import DoubleEngine
from data_schemas.config import ChatConfig, OracleConfig, PartConfig, RefreshConfig, SourceConfig, SplitConfig
from data_schemas.errors import ConfigError
from data_schemas.manifest import Manifest
from data_schemas.reader import DatasetReader
from flows.runs.refresh import run_refresh
from pipelines.figures import Figures
from pipelines.quality.check import check
from pipelines.run import execute
from tests.support.runs import Silent, config_on_doubles, contents

pytestmark = pytest.mark.full

ROWS = [
    {"q": "How many legs has a spider that has lost two of its eight?", "a": "six"},
    {"q": "Which city is the capital of Italy today?", "a": "Rome"},
    {"q": "Which river flows through the middle of Paris?", "a": "The Seine"},
]
NO_TEST = SplitConfig(validation_share=0, test_share=0)


def config(tmp_path: Path, rows: list[dict[str, str]] = ROWS, **more: Any) -> RefreshConfig:
    source = tmp_path / "mine.jsonl"
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    mine = SourceConfig(name="mine", path=str(source), columns={"question": "q", "answer": "a"}, licence="CC0-1.0")
    plain = config_on_doubles(tmp_path / "out")
    settings = {"sources": [mine], "parts": PartConfig(dialogues_per_part=1, parts_per_shard=1), "split": NO_TEST}
    return plain.model_copy(update={**settings, **more})


def run(of: RefreshConfig) -> Manifest:
    return run_refresh(of, Silent())[1]


def paths(manifest: Manifest, version: str) -> set[str]:
    return {each.path for each in manifest.shards if each.oracle_version == version}


def test_a_run_that_cannot_begin_makes_no_folder_and_leaves_that_of_somebody_else_as_it_is(tmp_path: Path) -> None:
    nowhere = SourceConfig(name="gsm8k", path=str(tmp_path / "nowhere.jsonl"))
    with pytest.raises(Exception, match="There is no file"):
        run(config(tmp_path).model_copy(update={"sources": [nowhere]}))
    assert not (tmp_path / "out").exists()
    notes = tmp_path / "out" / "README.md"
    notes.parent.mkdir()
    notes.write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="is not empty and holds no dataset"):
        run(config(tmp_path))
    assert [each.name for each in notes.parent.iterdir()] == ["README.md"]


def test_a_request_that_failed_is_asked_again_by_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = ChatConfig(engine="double", max_attempts=1, max_in_flight=1)
    often: dict[str, Any] = {"oracle": OracleConfig(), "chat": chat}
    once = config(tmp_path, **often)
    with monkeypatch.context() as patched:
        patched.setattr(execute, "build_chat_engine", lambda chat: DoubleEngine(chat, faults=[None, 500, None, 400]))
        before, first, figures = run_refresh(once, Silent())
    assert figures.statuses["failed"] >= 2
    record, second, figures = run_refresh(once, Silent())
    assert figures.statuses["failed"] == 0
    assert before.chat.n_failed == 2
    assert record.chat.n_requests < before.chat.n_requests / 2, "what was answered is not asked again"
    assert paths(first, "default") != paths(second, "default")
    assert check(once.out) == []
    clean = config(tmp_path, out=str(tmp_path / "clean"), **often)
    run(clean)
    assert contents(Path(once.out)) == contents(Path(clean.out))


def test_what_a_repeated_request_brings_reaches_the_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"q": f"Which animal is {where} in the picture below?", "a": "a dog", "p": "a.png"}
        for where in ("left", "right")
    ]
    (tmp_path / "a.png").write_bytes(b"a picture")
    once = config(
        tmp_path, rows, pictures=ChatConfig(engine="double", endpoint="eyes", max_attempts=1, max_in_flight=1)
    )
    columns = {"question": "q", "answer": "a", "picture": "p"}
    source = once.sources[0].model_copy(update={"columns": columns, "pictures": str(tmp_path)})
    once = once.model_copy(update={"sources": [source], "parts": PartConfig(dialogues_per_part=2, parts_per_shard=1)})

    def run_with(*faults: int | None) -> tuple[Manifest, Figures]:
        def build(chat: ChatConfig) -> DoubleEngine:
            return DoubleEngine(chat, faults if chat.endpoint == "eyes" else ())

        with monkeypatch.context() as patched:
            patched.setattr(execute, "build_chat_engine", build)
            return run_refresh(once, Silent())[1:]

    manifest, figures = run_with(500, 500)
    assert (manifest.counts.dialogues, sum(figures.rejects.values())) == (0, 2)
    manifest, figures = run_with(500)
    assert (manifest.counts.dialogues, sum(figures.rejects.values())) == (1, 1)
    before = {path: path.stat().st_ino for path in tmp_path.glob("out/.store/parts/*/[!p]*")}
    assert run_with(500)[0] == manifest
    assert {path: path.stat().st_ino for path in tmp_path.glob("out/.store/parts/*/[!p]*")} == before
    manifest, figures = run_with()
    assert (manifest.counts.dialogues, sum(figures.rejects.values())) == (2, 0)
    held = contents(Path(once.out))
    once = once.model_copy(update={"out": str(tmp_path / "clean")})
    run_with()
    assert contents(Path(once.out)) == held


def test_a_damaged_shard_is_written_again_and_what_people_lay_into_a_dataset_stays(tmp_path: Path) -> None:
    manifest = run(config(tmp_path))
    shard = tmp_path / "out" / manifest.select_kind("data")[0].path
    whole = shard.read_bytes()
    shard.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    assert check(str(tmp_path / "out")) != []
    assert run(config(tmp_path)) == manifest
    assert shard.read_bytes() == whole
    run(config(tmp_path))
    theirs = [tmp_path / "out" / name for name in ("data/faq.parquet", "notes.writing", "data/half.kame-notes")]
    for file in theirs:
        file.write_text("mine", encoding="utf-8")
    run(config(tmp_path))
    assert [file.read_text(encoding="utf-8") for file in theirs] == ["mine"] * 3


def test_other_oracles_stay_with_every_data_file_that_stays(tmp_path: Path) -> None:
    first = run(config(tmp_path, oracle=OracleConfig(version="one")))
    both = config(tmp_path, oracle=OracleConfig(version="two", max_words=20))
    assert paths(run(both), "one") == paths(first, "one")
    flag = {"dialogue_id": DatasetReader(both.out).read_dialogue()[0].dialogue_id, "reason": "odd", "time": "now"}
    Path(both.out, "flags.jsonl").write_text(json.dumps(flag), encoding="utf-8")
    flagged = run(both)
    assert len(paths(flagged, "one")) == len(paths(flagged, "two")) == len(ROWS) - 1
    assert check(both.out) == []


def test_another_split_beside_sources_that_keep_theirs_is_refused(tmp_path: Path) -> None:
    run(config(tmp_path))
    other = [SourceConfig(name="other", path=str(tmp_path / "mine.jsonl"), columns={"question": "q", "answer": "a"})]
    with pytest.raises(ConfigError, match=r"mine in .* is split otherwise"):
        run(config(tmp_path).model_copy(update={"sources": other, "split": SplitConfig(seed=1)}))


def test_a_new_evaluation_set_wants_all_sources_named(tmp_path: Path) -> None:
    run(config(tmp_path))
    bench = tmp_path / "bench.jsonl"
    bench.write_text(json.dumps({"question": ROWS[1]["q"]}), encoding="utf-8")
    other = [SourceConfig(name="other", path=str(tmp_path / "mine.jsonl"), columns={"question": "q", "answer": "a"})]
    with pytest.raises(ConfigError, match="mine may hold their questions"):
        run(config(tmp_path, sources=other, evaluation_sets=[str(bench)]))
