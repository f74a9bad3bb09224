"""The command that prints a sample: the same seed draws the same items, and a refused one has its reason."""

from pathlib import Path

import pytest

from benchmarks.readings import drawn, lines, main, reading_of
from data_schemas.config import ScriptConfig
from tests.support.builders import make_item


def test_a_line_has_what_is_written_and_what_is_said() -> None:
    said = reading_of(make_item("How many are 3 + 4?", "7"), ScriptConfig())
    refused = reading_of(make_item("How many 🐟 are left?", "7"), ScriptConfig())
    (first, second) = lines([said, refused])
    assert first.split("\t")[1:4] == ["How many are 3 + 4?", "7", "How many are three plus four?"]
    assert second.split("\t")[3] == "REFUSED symbol"


def test_the_seed_draws_the_sample() -> None:
    items = [make_item(f"How many are {n} + 4?", "7") for n in range(30)]
    assert drawn(items, 5, 1) == drawn(items, 5, 1) != drawn(items, 5, 2)
    assert len(drawn(items, 99, 1)) == 30


def test_the_command_reads_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "How many are 2 + 2?", "answer": "2 + 2 = 4\\n#### 4"}\n', encoding="utf-8")
    assert main(["--source", "gsm8k", "--path", str(rows)]) == 0
    printed = capsys.readouterr()
    assert "How many are two plus two?" in printed.out
    assert "1 of 1 sayable" in printed.err
