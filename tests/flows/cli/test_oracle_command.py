"""Which prompts a refresh gives a model, and where one reads it afterwards."""

import pyarrow.parquet as pq
import pytest

from backends.chat.double import DoubleEngine
from data_schemas.config import ChatConfig
from tests.support.refreshing import Bench

pytestmark = pytest.mark.full


def test_another_model_than_the_embedded_one_is_shown_the_whole_hint_and_the_dataset_says_so(bench: Bench) -> None:
    engine = DoubleEngine(ChatConfig())
    assert bench.refresh_by(engine).exit_code == 0
    assert any("Hidden hint: " in request["messages"][-1]["content"] for request in engine.requests)
    rows = [row for file in (bench.out / "oracles").rglob("*.parquet") for row in pq.read_table(file).to_pylist()]
    assert {(row["model"], row["prompt_version"]) for row in rows} == {("double", "whole-1")}
    assert {path.stem for path in (bench.out / "prompts").rglob("*.yaml")} == {rows[0]["prompt_digest"]}
    assert "whole-1" in (bench.out / "README.md").read_text(encoding="utf-8")
