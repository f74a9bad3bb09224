"""From a dataset to a registered checkpoint: every step, again without work, and stopped half-way."""

import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from backends import registry
from data_schemas.config.front_end import OF_MOSHI, FrontEndConfig
from data_schemas.errors import BackendError, ConfigError
from flows import front_end
from flows.front_end import Stopped, Told, run_front_end
from kame_model.checkpoint import load
from kame_model.checkpoint.index import entries
from kame_model.checkpoint.load import load_checkpoint
from kame_model.encode import token_dataset
from kame_model.evaluate import proof
from kame_model.text.tokenizer import MOSHI_TOKENIZER
from kame_model.train.logs import read_metrics
from kame_model.train.plot import PICTURE, plot_losses
from tests.vocabularies import make_vocabulary


class Watching:
    """Training's progress, remembered; `at` is called at each step."""

    def __init__(self, at: Callable[[int], None] = lambda step: None) -> None:
        self.steps: list[int] = []
        self._at = at

    def begin(self, step: int, max_steps: int) -> None:
        """Nothing to remember."""

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        self.steps.append(step)
        self._at(step)

    def evaluated(self, step: int, evaluation: Mapping[str, Mapping[str, float]]) -> None:
        """Nothing to remember."""


def files(folder: Path) -> dict[str, Any]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_a_dataset_becomes_a_registered_checkpoint_and_again_does_nothing(config: FrontEndConfig) -> None:
    made = run_front_end(config)
    assert made.training.step == 3
    (entry,) = entries(config.checkpoints)
    assert Path(made.checkpoint) == Path(config.checkpoints) / entry.name
    assert entry.data == made.facts.training.data
    assert any(name.startswith("said, right oracle") for name in entry.figures)
    loaded = load_checkpoint(made.checkpoint)
    assert loaded.tokenizer().text_card == loaded.front_end.text_card
    assert loaded.codec().card == loaded.front_end.card
    assert (Path(config.out) / "evaluation" / "report.md").is_file()
    before = files(Path(made.checkpoint))
    watching = Watching()
    run_front_end(config, Told(training=watching))
    assert watching.steps == []
    assert files(Path(made.checkpoint)) == before
    assert len(entries(config.checkpoints)) == 1
    picture = plot_losses(str(Path(config.out) / "run"))
    assert picture.startswith(b"\x89PNG")
    assert (Path(config.out) / "run" / PICTURE).read_bytes() == picture


def test_a_run_that_is_asked_to_stop_saves_and_goes_on(config: FrontEndConfig) -> None:
    config = config.model_copy(update={"evaluate_items": 0})
    asking = Watching(lambda step: os.kill(os.getpid(), signal.SIGTERM) if step == 1 else None)
    with pytest.raises(Stopped, match="is saved"):
        run_front_end(config, Told(training=asking))
    assert entries(config.checkpoints) == []
    going_on = Watching()
    assert run_front_end(config, Told(training=going_on)).training.is_done
    assert going_on.steps == [each for each in (1, 2, 3) if each > max(asking.steps)]
    told = [
        line["step"] for line in read_metrics(Path(config.out) / "run" / "metrics.jsonl") if line["kind"] == "train"
    ]
    assert told == [1, 2, 3]


def test_the_copying_stage_comes_first(config: FrontEndConfig) -> None:
    settings: dict[str, object] = {"copy_steps": 2, "evaluate_items": 0, "copy_settings": {"copying.batch_size": 4}}
    made = run_front_end(config.model_copy(update=settings))
    assert made.facts.training.init_from == str(Path(config.out) / "copy")
    facts = json.loads((Path(config.out) / "copy" / "config.json").read_text())
    assert (facts["config"]["stage"], facts["config"]["copying"]["batch_size"]) == ("copy", 4)


def test_the_name_of_another_runs_checkpoint_is_not_its_weights(config: FrontEndConfig, tmp_path: Path) -> None:
    config = config.model_copy(update={"evaluate_items": 0, "copy_settings": {}})
    first = run_front_end(config)
    other = run_front_end(config.model_copy(update={"out": str(tmp_path / "b" / "run"), "seed": 1}))
    assert Path(other.checkpoint).name.startswith(Path(first.checkpoint).name + "-")
    assert other.facts.training.run != first.facts.training.run
    assert len(entries(config.checkpoints)) == 2
    record = json.loads((tmp_path / "b" / "run" / "codec" / "codec.json").read_text())
    assert (record["config"]["seed"], record["config"]["device"]) == (1, "cpu")


def test_the_device_reaches_the_codec_and_the_model_that_is_evaluated(
    config: FrontEndConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ask(*arguments: Any) -> None:
        asked.append(str(arguments[-1]["device"] if isinstance(arguments[-1], dict) else arguments[-1]))
        raise BackendError("Not here.", "")

    config = config.model_copy(update={"device": "meta", "codec_path": "codec"})  # a device that every machine has
    codec = front_end.make_codec(config)
    monkeypatch.setattr(registry, "build", ask)
    with pytest.raises(BackendError):
        front_end.encode(config, 0, str(make_vocabulary(tmp_path).path), codec, print)
    monkeypatch.setattr(token_dataset, "TokenDataset", Path)
    monkeypatch.setattr(proof, "held_out", lambda dataset, settings: [dataset])
    monkeypatch.setattr(load, "load_checkpoint", ask)
    with pytest.raises(BackendError):
        front_end.evaluate(config, "nano", ["rows"], None, print)
    assert asked == ["meta", "meta"]


def test_settings_that_do_not_hold_are_told_before_a_codec_is_trained(config: FrontEndConfig) -> None:
    with pytest.raises(ConfigError, match="init_from: adapters"):
        run_front_end(config.model_copy(update={"settings": {"lora.rank": 4}}))
    assert not Path(config.out).exists()


def test_moshis_size_comes_with_moshis_weights_vocabulary_and_codec() -> None:
    config = FrontEndConfig.model_validate({"datasets": ["d"], "preset": "moshi-7b", "init_from": None})
    assert (config.init_from, config.tokenizer, config.codec) == tuple(OF_MOSHI.values())
    assert config.tokenizer == MOSHI_TOKENIZER
    named = FrontEndConfig(datasets=["d"], preset="moshi-7b", init_from="mine", codec="mimi")
    assert named.init_from == "mine"
    with pytest.raises(ValidationError, match="moshi-7b speaks mimi"):
        FrontEndConfig(datasets=["d"], preset="moshi-7b", codec="nano-mimi")
    assert FrontEndConfig(datasets=["d"]).init_from is None


def test_a_dataset_without_held_out_dialogues_is_registered_without_their_figures(config: FrontEndConfig) -> None:
    made = run_front_end(config.model_copy(update={"evaluate_splits": ["validation"]}))
    (entry,) = entries(config.checkpoints)
    assert made.figures == []
    assert not any(name.startswith("said") for name in entry.figures)


def test_parameters_are_checked_before_anything_runs() -> None:
    with pytest.raises(ValidationError, match="name at least one folder"):
        FrontEndConfig()
    with pytest.raises(ValidationError, match="max_steps"):
        FrontEndConfig(datasets=["d"], max_steps=0)
