"""The weights that a run begins with: copying's, another run's, and those beside which adapters are trained."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from data_schemas.errors import ConfigError
from kame_model.train.checkpoints import CHECKPOINTS, list_checkpoints
from kame_model.train.run import train
from kame_model.train.run_facts import read_facts
from kame_model.train.run_folder import load_run
from tests.support.train_runs import Asking, assert_same, tiny_dataset, tiny_run, told
from tests.support.vocabularies import make_vocabulary

pytestmark = pytest.mark.full

QUICK = {"batch_size": 2, "max_frames": 100, "max_delay_frames": 4, "max_silence_frames": 10}
"""Settings of copying."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_dataset(tmp_path_factory.mktemp("rows"))


@pytest.fixture(scope="module")
def whole(rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps, all of whose weights were trained."""
    out = tmp_path_factory.mktemp("whole") / "run"
    train(tiny_run(out, rows, max_steps=2))
    return out


def test_copying_learns_without_sound_and_dialogues_begin_from_it(tmp_path: Path) -> None:
    tokenizer = make_vocabulary(tmp_path)
    rows = tiny_dataset(tmp_path / "rows", text_card=tokenizer.text_card, tokenizer_digest=tokenizer.digest)
    settings: dict[str, Any] = {"shares": {"copying": 1}, "accuracy": 0.99, "copying": QUICK, "max_steps": 4}
    copy = tiny_run(tmp_path / "copy", rows, tokenizer=str(tokenizer.path), **settings)
    train(copy)
    lines = told(tmp_path / "copy")
    assert all("semantic" not in line and line["lesson"] == 0.0 for line in lines if line["kind"] == "train")
    copied = [line for line in lines if line["kind"] == "copied"]
    assert [line["step"] for line in copied] == [3, 4]
    assert all(0 <= line["once_sampled"] <= line["first_sampled"] <= 1 for line in copied)
    model, facts, _ = load_run(tmp_path / "copy", "last")
    assert facts.speaks_with.tokenizer_digest == tokenizer.digest
    begun = train(
        tiny_run(tmp_path / "run", rows, init_from=str(tmp_path / "copy"), max_steps=1, optim={"learning_rate": 1e-9})
    )
    assert begun.is_done
    after = load_run(tmp_path / "run", "last")[0].state_dict()
    for name, each in model.state_dict().items():
        of_codes = name.startswith("lm.emb.")  # copying saw none, so they begin as nothing
        torch.testing.assert_close(after[name], torch.zeros_like(each) if of_codes else each, atol=1e-6, rtol=0)


def test_copying_stopped_in_the_middle_goes_on_at_its_lesson_and_from_its_own_past(tmp_path: Path) -> None:
    tokenizer = make_vocabulary(tmp_path)
    rows = tiny_dataset(tmp_path / "rows", text_card=tokenizer.text_card, tokenizer_digest=tokenizer.digest)
    settings: dict[str, Any] = {"shares": {"copying": 1}, "tokenizer": str(tokenizer.path)}
    settings["copying"] = {**QUICK, "smoothing": 0.0, "lessons": 9, "own_share": 1.0}
    settings |= {"accuracy": 1e-6, "model": {"cue": True}}
    train(tiny_run(tmp_path / "whole", rows, **settings))
    stopped = tiny_run(tmp_path / "stopped", rows, **settings)
    train(stopped, Asking(3))
    train(stopped)
    assert_same(tmp_path / "stopped", tmp_path / "whole")


def test_copying_goes_on_whatever_rows_are_named(tmp_path: Path) -> None:
    """It takes what they speak with and nothing else, so that other rows lead to the same weights."""
    tokenizer = make_vocabulary(tmp_path)
    speaking: dict[str, Any] = {"text_card": tokenizer.text_card, "tokenizer_digest": tokenizer.digest}
    rows = tiny_dataset(tmp_path / "rows", **speaking)
    settings: dict[str, Any] = {"shares": {"copying": 1}, "tokenizer": str(tokenizer.path), "copying": QUICK}
    train(tiny_run(tmp_path / "whole", rows, **settings))
    train(tiny_run(tmp_path / "grown", rows, **settings), Asking(3))
    train(tiny_run(tmp_path / "grown", tiny_dataset(tmp_path / "more", n_train=9, **speaking), **settings))
    assert_same(tmp_path / "grown", tmp_path / "whole")


def test_copying_with_another_vocabulary_is_refused(rows: Path, tmp_path: Path) -> None:
    tokenizer = make_vocabulary(tmp_path)
    with pytest.raises(ConfigError, match="is not the vocabulary that"):
        train(tiny_run(tmp_path / "run", rows, shares={"copying": 1}, tokenizer=str(tokenizer.path)))


def test_weights_of_another_vocabulary_are_refused(whole: Path, tmp_path: Path) -> None:
    other = tiny_dataset(tmp_path / "rows", tokenizer_digest="another")
    with pytest.raises(ConfigError, match="use another vocabulary or codec"):
        train(tiny_run(tmp_path / "run", other, init_from=str(whole)))


def test_a_model_of_another_shape_cannot_begin_from_a_run(rows: Path, whole: Path, tmp_path: Path) -> None:
    changed = {"dim": 64, "oracle": "table", "context": 99}
    with pytest.raises(ConfigError, match="of another shape: dim is 32 there and 64 here; oracle is tied there and ta"):
        train(tiny_run(tmp_path / "run", rows, model=changed, init_from=str(whole)))


def test_adapters_alone_are_trained_and_gone_on_with(rows: Path, whole: Path, tmp_path: Path) -> None:
    config = tiny_run(tmp_path / "run", rows, init_from=str(whole), lora={"rank": 2}, optim={"ema_decay": None})
    straight = config.model_copy(update={"out": str(tmp_path / "straight")})
    result = train(straight)
    assert 0 < result.n_trained < result.n_weights / 2
    train(config, Asking(2))
    train(config)
    assert_same(tmp_path / "run", tmp_path / "straight")
    size = sum(file.stat().st_size for file in list_checkpoints(tmp_path / "run" / CHECKPOINTS)[-1].folder.iterdir())
    full = sum(file.stat().st_size for file in list_checkpoints(whole / CHECKPOINTS)[-1].folder.iterdir())
    assert size < full / 2


def test_adapters_need_the_weights_that_they_were_trained_beside(rows: Path, whole: Path, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="init_from: adapters"):
        tiny_run(tmp_path / "run", rows, lora={"rank": 2})
    base = shutil.copytree(whole, tmp_path / "base")
    adapters: dict[str, Any] = {"lora": {"rank": 2}, "optim": {"ema_decay": None}}
    train(tiny_run(tmp_path / "run", rows, init_from=str(base), max_steps=2, **adapters))
    moved = base.rename(tmp_path / "moved")
    train(tiny_run(tmp_path / "run", rows, init_from=str(moved), max_steps=3, **adapters))  # the same, elsewhere
    train(tiny_run(tmp_path / "other", rows, max_steps=1, seed=7))
    with pytest.raises(ConfigError, match="trained with other weights"):
        train(tiny_run(tmp_path / "run", rows, init_from=str(tmp_path / "other"), max_steps=4, **adapters))
    train(tiny_run(moved, rows, max_steps=3))  # the base goes on, and is another then
    with pytest.raises(ConfigError, match="trained with other weights"):
        load_run(tmp_path / "run")


def test_paths_are_kept_in_full_and_what_a_run_began_with_stays(
    rows: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(whole.parent)
    train(tiny_run(tmp_path / "run", Path(os.path.relpath(rows)), init_from=whole.name, max_steps=1))
    train(tiny_run(tmp_path / "run", rows, max_steps=2))
    config = read_facts(tmp_path / "run").config
    assert config.init_from == str(whole)
    assert config.data.datasets[0].path == str(rows)


def test_runs_begun_with_other_weights_or_mixed_otherwise_are_told_apart(
    rows: Path, whole: Path, tmp_path: Path
) -> None:
    moved = shutil.copytree(whole, tmp_path / "moved")
    changes: dict[str, dict[str, Any]] = {
        "random": {},
        "begun": {"init_from": str(whole)},
        "moved": {"init_from": str(moved)},
        "weighed": {"data": {"datasets": [{"path": str(rows), "weight": 2.0}]}},
    }
    found = {}
    for name, each in changes.items():
        run = tiny_run(tmp_path / f"run-{name}", rows, max_steps=1, **each)
        train(run)
        found[name] = read_facts(run.out).identity
    assert found["begun"] == found["moved"]
    assert len(set(found.values())) == 3
    shutil.rmtree(moved)
    train(tiny_run(tmp_path / "run-moved", rows, max_steps=2, **changes["moved"]))  # needs its beginning no more
    assert read_facts(tmp_path / "run-moved").identity == found["moved"]
