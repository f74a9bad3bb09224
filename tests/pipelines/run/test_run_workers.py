"""In which order worker processes are given the parts of a stage; that it changes no byte is shown by test_resume."""

import json
from pathlib import Path

import pytest

from data_schemas.config import PartConfig, RefreshConfig, SourceConfig, SplitConfig
from data_schemas.store import Store
from pipelines.run.execute import Runner
from pipelines.run.parts import ITEMS, Part, PartRecord
from pipelines.run.plan import make_plan
from pipelines.run.stages import SCRIPT
from pipelines.run.workers import Workers
from tests.support.runs import config_on_doubles

QUESTIONS = {n: " ".join(["She buys an apple and a pear."] * n) + " How many is that?" for n in (3, 9, 1, 6)}


@pytest.fixture
def config(tmp_path: Path) -> RefreshConfig:
    source = tmp_path / "mine.jsonl"
    rows = [{"question": text, "answer": f"#### {n}"} for n, text in QUESTIONS.items()]
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    plain = config_on_doubles(tmp_path / "out", sources=(source,))
    mine = SourceConfig(name="mine", path=str(source), columns={"question": "question", "answer": "answer"})
    parts = PartConfig(dialogues_per_part=1, parts_per_shard=4)
    return plain.model_copy(update={"sources": [mine], "parts": parts, "split": SplitConfig()})


def test_the_part_with_most_to_do_comes_first(config: RefreshConfig) -> None:
    started: list[Part] = []

    def run_one(config: RefreshConfig, stage: str, part: Part) -> PartRecord:
        started.append(part)
        return Runner(Store(config.out)).read_finished(part, ITEMS)

    parts = make_plan(config).parts
    with Workers(config, run_one) as workers:
        workers.run(SCRIPT, parts, lambda *_: None)
    runner = Runner(Store(config.out))
    lengths = [runner.read_finished(part, ITEMS).n_bytes for part in started]
    assert len(set(lengths)) == len(QUESTIONS)
    assert lengths == sorted(lengths, reverse=True)
    assert [part.part_id for part in started] != [part.part_id for part in parts], "else it shows nothing"
