"""`kame text train`: which texts it learns from, what it prints, and how it refuses."""

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from data_schemas.reader import DatasetReader
from flows.cli.text import app
from kame_model.text.tokenizer import Tokenizer
from kame_model.text.tokenizer_training import read_training_texts


def train(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["train", *arguments])


def test_a_vocabulary_is_written_and_told_of_to_people_and_as_json(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "models" / "tokenizer.model"
    told = train(str(made), "--out", str(out), "--vocabulary", "150")
    assert told.exit_code == 0, told.output
    tokenizer = Tokenizer(out)
    assert f"150 pieces, digest {tokenizer.digest}" in told.output
    assert len(tokenizer.encode("ninety six")) == 2
    out = tmp_path / "tokenizer.model"
    figures = json.loads(train(str(made), str(made), "--out", str(out), "--vocabulary", "150", "--json").stdout)
    assert figures["digest"] == Tokenizer(out).digest
    assert figures["words"] == 2 * sum(len(text.split()) for text in read_training_texts(DatasetReader(str(made))))


def test_it_learns_from_what_is_said_and_from_oracles_but_only_from_training(made: Path) -> None:
    texts = set(read_training_texts(DatasetReader(str(made))))
    reader = DatasetReader(str(made))
    rows = [row for shard in reader.list_shards() for row in reader.iterate_rows(shard)]
    assert {dialogue.split for dialogue, _ in rows} > {"train"}
    for dialogue, oracle in rows:
        is_learnt = dialogue.split == "train"
        events = [event.text for event in oracle.events if event.text] if oracle else []
        assert ({turn.spoken_text for turn in dialogue.turns} <= texts) == is_learnt
        assert set(events) <= texts or not is_learnt


def test_a_flagged_dialogue_is_left_out(dataset: Path) -> None:
    reader = DatasetReader(str(dataset))
    flagged = next(
        row for shard in reader.list_shards() for row, _ in reader.iterate_rows(shard) if row.split == "train"
    )
    flag = {"dialogue_id": flagged.dialogue_id, "reason": "noise", "time": "2026-01-01T00:00:00Z"}
    (dataset / "flags.jsonl").write_text(json.dumps(flag) + "\n", encoding="utf-8")
    assert flagged.turns[0].spoken_text not in set(read_training_texts(DatasetReader(str(dataset))))


def test_what_cannot_be_made_is_refused_with_its_exit_code(made: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "tokenizer.model")
    for arguments, code, told in (
        ([str(made), "--vocabulary", "20"], 2, "vocabulary"),
        ([str(made), "--vocabulary", "30000"], 6, "are too few for a vocabulary of 30000 pieces"),
        ([str(tmp_path / "nowhere")], 6, "no dataset"),
        ([str(made), "--vocabulary", "150", "--whole-word", "x2"], 2, "cannot be a piece of its own"),
    ):
        refused = train(*arguments, "--out", out)
        assert (refused.exit_code, told in refused.output) == (code, True), refused.output
    assert not Path(out).exists()
