"""A run of recall: resumed, sampled, recorded and counted as it is documented, and refused where data do not fit."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from moshi.models.lm import LMModel
from typer.testing import CliRunner

from data_schemas.config.model import SamplingConfig
from data_schemas.config.recall import RecallConfig
from data_schemas.errors import BackendError, ConfigError
from flows.cli.app import app
from kame_model.checkpoint.export import export_checkpoint
from kame_model.checkpoint.kame_json import TrainingFacts
from kame_model.checkpoint.load import Checkpoint, load_checkpoint
from kame_model.checkpoint.registry import read_test_evaluations
from kame_model.evaluate.recall.evaluate import evaluate_recall
from kame_model.evaluate.recall.items import choose_strangers, select_rows
from kame_model.evaluate.recall.turns import find_turns
from kame_model.evaluate.report.folder import read_figures
from kame_model.text.tokenizer import Tokenizer
from tests.support.front_ends import tiny_front_end
from tests.support.known import known
from tests.support.recall_rows import recall_row, write_recall_rows

pytestmark = pytest.mark.full

QUIET: dict[str, Any] = {"n_sounds": 0}
ONE_DELAY: dict[str, Any] = {**QUIET, "delays_s": [0.32]}


def test_items_that_are_finished_are_not_run_again(
    checkpoint: Checkpoint, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    rows = [recall_row(number, answer, tokenizer, n_frames=30) for number, answer in enumerate(("five", "six"))]
    dataset = write_recall_rows(tmp_path / "rows", rows, tokenizer)
    config = RecallConfig(**ONE_DELAY, batch_size=1, oracles=["right", "none"])
    whole = evaluate_recall(checkpoint, dataset, config, str(tmp_path / "whole"))
    left = iter(range(2))

    def stop_in_the_third(n_dialogues: int) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate_recall(checkpoint, dataset, config, str(tmp_path / "stopped"), on_batch=stop_in_the_third)
    stopped = (tmp_path / "stopped" / "items.jsonl").read_bytes()
    assert len(stopped.splitlines()) == 1 + 3
    (tmp_path / "stopped" / "items.jsonl").write_bytes(stopped[:-20])  # killed while it wrote
    assert evaluate_recall(checkpoint, dataset, config, str(tmp_path / "stopped")) == whole
    before = (tmp_path / "whole" / "items.jsonl").read_bytes()
    assert evaluate_recall(checkpoint, dataset, config, str(tmp_path / "whole")) == whole
    more = config.model_copy(update={"delays_s": [0.32, 1.0]})
    assert len(evaluate_recall(checkpoint, dataset, more, str(tmp_path / "whole"))) == len(whole) + 1
    assert (tmp_path / "whole" / "items.jsonl").read_bytes().startswith(before), "one more delay runs nothing again"
    other = config.model_copy(update={"seed": 1, "n_items": 2})
    with pytest.raises(ConfigError, match="differ in: n_items, seed"):
        evaluate_recall(checkpoint, dataset, other, str(tmp_path / "whole"))
    assert (tmp_path / "whole" / "items.jsonl").read_bytes().startswith(before)
    evaluate_recall(checkpoint, dataset, other, str(tmp_path / "whole"), anew=True)
    assert not (tmp_path / "whole" / "items.jsonl").read_bytes().startswith(before)


def test_sampling_is_the_checkpoints_but_for_what_is_set(tokenizer: Tokenizer, tmp_path: Path) -> None:
    own = SamplingConfig(temp_text=0.25, top_k_text=7)
    export_checkpoint(tiny_front_end(), tokenizer, None, tmp_path / "tiny", TrainingFacts(step=1), sampling=own)
    dataset = write_recall_rows(tmp_path / "rows", [recall_row(1, "five", tokenizer)], tokenizer)
    typed = ["evaluate", "recall", str(tmp_path / "tiny"), str(dataset.folder), "--out", str(tmp_path / "out")]
    typed += ["--set", "n_sounds=0", "--delay-s", "0.1", "--set", "oracles=[right]", "--set", "sampling.temp=0.5"]
    done = CliRunner().invoke(app, typed)
    assert done.exit_code == 0, done.output
    assert "right, 0.1 s, answer not in the question (1): once " in done.output
    told = read_figures(str(tmp_path / "out"))["run"]["system"]["sampling"]
    assert (told["temp_text"], told["top_k_text"], told["temp"]) == (0.25, 7, 0.5)
    refused = CliRunner().invoke(app, [*typed, "--set", "sampling.warmth=1"])
    assert refused.exit_code == 2
    assert "sampling.warmth" in refused.output


def test_figures_are_recorded_in_the_checkpoint_where_that_is_wished(
    checkpoint: Checkpoint, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    dataset = write_recall_rows(tmp_path / "rows", [recall_row(at, "five", tokenizer) for at in (1, 2)], tokenizer)
    folder = str(checkpoint.place.folder)
    typed = ["evaluate", "recall", folder, dataset.folder, "--out", str(tmp_path / "out"), "--json"]
    typed += ["--set", "n_sounds=0", "--delay-s", "0.1", "--set", "oracles=[right]"]
    done = CliRunner().invoke(app, typed)
    assert done.exit_code == 0, done.output
    assert load_checkpoint(folder).facts == checkpoint.facts
    (row,) = json.loads(done.stdout)
    assert CliRunner().invoke(app, [*typed, "--record"]).exit_code == 0
    facts = known(load_checkpoint(folder).facts)
    assert {(each.measure, each.delay_s, each.of) for each in facts.free_running} == {
        (measure, 0.1, row["n"]) for measure in ("said_once", "right_first", "said")
    }
    assert "right first, right oracle after 0.1 s" in (Path(folder) / "README.md").read_text()
    elsewhere = CliRunner().invoke(app, [*typed[:2], "owner/name", *typed[3:], "--record"])
    assert (elsewhere.exit_code, "not a checkpoint's" in elsewhere.output) == (2, True)


def test_each_look_at_test_items_is_counted_and_a_second_one_needs_again(
    checkpoint: Checkpoint, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    rows = [recall_row(1, "five", tokenizer, split="test", n_frames=30), recall_row(2, "six", tokenizer, n_frames=30)]
    dataset, register = write_recall_rows(tmp_path / "rows", rows, tokenizer), tmp_path / "made"

    def look(out: str, again: bool = False, **changes: Any) -> int | None:
        config = RecallConfig(**ONE_DELAY | {"splits": ["test"], "oracles": ["right"]} | changes)
        evaluate_recall(checkpoint, dataset, config, str(tmp_path / out), again=again)
        found: int | None = read_figures(str(tmp_path / out))["looks_at_test"]
        return found

    assert look("validation", splits=["validation"]) is None
    assert read_test_evaluations(str(register)) == []
    assert look("one") == 1
    assert look("one") == look("the same elsewhere") == 1
    with pytest.raises(ConfigError, match=r"evaluated on test items before: recall, .*\.$"):
        look("two", seed=1)
    assert not (tmp_path / "two").exists()
    with pytest.raises(ConfigError, match="another evaluation"):
        look("one", again=True, seed=3)
    assert len(read_test_evaluations(str(register))) == 1, "who is refused has seen nothing"
    assert look("two", again=True, seed=1) == 2
    assert "evaluated on them 2 times" in (tmp_path / "two" / "report.md").read_text()
    with pytest.raises(ConfigError, match="and 1 times more"):
        look("three", seed=2)
    assert [(each.kind, each.data) for each in read_test_evaluations(str(register))] == [
        ("recall", dataset.fingerprint)
    ] * 2


def test_test_items_are_mixed_with_no_others() -> None:
    with pytest.raises(ValueError, match="test cannot be combined"):
        RecallConfig(splits=["validation", "test"])


def test_rows_of_another_vocabulary_codec_or_shape_are_refused(
    checkpoint: Checkpoint, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    rows, config = [recall_row(1, "five", tokenizer)], RecallConfig(n_sounds=0)
    out = str(tmp_path / "out")
    with pytest.raises(ConfigError, match="another vocabulary"):
        evaluate_recall(
            checkpoint, write_recall_rows(tmp_path / "a", rows, tokenizer, tokenizer_digest="other"), config, out
        )
    with pytest.raises(ConfigError, match=r"another size of vocabulary \(41\) than .* has \(40\)"):
        evaluate_recall(checkpoint, write_recall_rows(tmp_path / "b", rows, tokenizer, text_card=41), config, out)
    training = TrainingFacts(codec_digest="other")  # known even where the codec is not in the folder
    export_checkpoint(tiny_front_end(), tokenizer, None, tmp_path / "other", training)
    loaded, dataset = load_checkpoint(tmp_path / "other"), write_recall_rows(tmp_path / "c", rows, tokenizer)
    with pytest.raises(ConfigError, match=r"another codec \(c\) than .* has \(other\)"):
        evaluate_recall(loaded, dataset, config, out)


def test_the_codec_goes_where_the_model_is(
    checkpoint: Checkpoint, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ask(self: Checkpoint, device: str = "cpu") -> None:
        asked.append(device)
        raise BackendError("Not here.", "")

    monkeypatch.setattr(Checkpoint, "load_codec", ask)
    monkeypatch.setattr(LMModel, "device", property(lambda lm: torch.device("meta")))
    dataset = write_recall_rows(tmp_path / "rows", [recall_row(1, "five", tokenizer)], tokenizer)
    with pytest.raises(BackendError):
        evaluate_recall(checkpoint, dataset, RecallConfig(), str(tmp_path / "out"))
    assert asked == ["meta"]


def test_items_are_drawn_from_all_sources_one_dialogue_of_each(tokenizer: Tokenizer, tmp_path: Path) -> None:
    rows = [
        recall_row(number, "five", tokenizer, source=source) for number in range(3) for source in ("mine", "theirs")
    ]
    dataset = write_recall_rows(tmp_path / "rows", [*rows, recall_row(9, "", tokenizer)], tokenizer)
    drawn = [select_rows(dataset, RecallConfig(n_items=2, items_seed=seed, seed=seed)) for seed in range(8)]
    assert all({row.source for row in found} == {"mine", "theirs"} for found in drawn)
    assert len({tuple(row.dialogue_id for row in found) for found in drawn}) > 1
    same = [select_rows(dataset, RecallConfig(n_items=2, seed=seed)) for seed in range(2)]
    assert [row.dialogue_id for row in same[0]] == [row.dialogue_id for row in same[1]]
    assert len(select_rows(dataset, RecallConfig())) == 6, "the one without an answer cannot be judged"


def test_a_stranger_has_another_answer_and_where_all_have_one_there_is_none(tokenizer: Tokenizer) -> None:
    asked = find_turns(
        [recall_row(at, answer, tokenizer) for at, answer in enumerate(("five", "five", "six"))], tokenizer
    )
    assert choose_strangers(asked) == [asked[2], asked[2], asked[0]]
    assert choose_strangers(asked[:2]) == [None, None]


def test_splits_without_a_row_to_judge_are_an_error(
    checkpoint: Checkpoint, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    dataset = write_recall_rows(tmp_path / "rows", [recall_row(1, "five", tokenizer)], tokenizer)
    with pytest.raises(ConfigError, match="no dialogue in train"):
        evaluate_recall(checkpoint, dataset, RecallConfig(splits=["train"]), str(tmp_path / "out"))
