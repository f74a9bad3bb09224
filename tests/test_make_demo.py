"""`make demo`: what it tells a stand-in for `kame` to do, what a refusal comes to, and the real one.

Benchmarks that want a dataset and a checkpoint are run on what the real one made, for it takes minutes.
"""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from backends import registry
from data_schemas.config.front_end import FrontEndConfig
from flows.cli.app import app
from flows.runs.train import make_train_config
from kame_model.evaluate.calls.delays import cut_to_audible
from tests.support.benchmark_runs import run_benchmark

ROOT = Path(__file__).parents[1]
TOPICS = ("france", "spider", "sky")
"""A word of each question that the demo asks."""
DIGITS = {"eight": "8"}
STAND_IN = """#!/bin/sh
echo "$*" >> {calls}
[ "$1" != train ] || exit {code}
"""


def make(target: str, folder: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """`make` with folders of the demo in `folder`; its `kame` notes its calls and ends training with this exit code."""
    kame = folder / "kame"
    kame.write_text(STAND_IN.format(calls=folder / "calls", code=code))
    kame.chmod(0o755)
    command = ["make", "--directory", str(ROOT), "-o", "install", "-o", "voices", target]
    return subprocess.run([*command, f"BIN={folder}", f"DEMO={folder}/demo"], text=True, capture_output=True)


def test_most_of_its_training_is_after_the_warm_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert make("demo", tmp_path).returncode == 0
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [line.split()[0] for line in calls] == ["refresh", "inspect", "train", "talk"]
    typed: list[dict[str, Any]] = []
    monkeypatch.setattr("flows.cli.train._train_datasets", lambda told, as_json: typed.append(told))
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "dataset.json").touch()
    done = CliRunner().invoke(app, shlex.split(calls[2]))
    assert done.exit_code == 0, done.output
    config = FrontEndConfig.model_validate({name: value for name, value in typed[0].items() if value is not None})
    training = make_train_config(config, "dialogues", "vocabulary", config.datasets)
    assert training.max_steps >= 5 * training.optim.warmup_steps
    assert config.init_from is not None
    assert f"--checkpoint {config.init_from} " in calls[3], "both are of what ships"
    words = (tmp_path / "demo-talk" / "expected.txt").read_text().split()
    assert calls[3].count("--say") == len(words)
    assert len(words) == len(TOPICS)
    assert all(topic in calls[3].casefold() for topic in TOPICS)
    assert not any(word.casefold() in calls[3].casefold() for word in words), "no question tells its answer"


@pytest.mark.slow
def test_it_makes_a_dataset_a_checkpoint_and_a_talk(demo: Path) -> None:
    assert json.loads((demo / "dataset.json").read_text())["counts"]
    assert soundfile.info(demo / "listen.wav").duration > 5
    metrics = (demo.with_name("demo-front-end") / "seed-0" / "run" / "metrics.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["kind"] == "train" for line in metrics) == 40
    checkpoint = demo.with_name("demo-checkpoints") / "nano-demo-front-end-40"
    assert {each.name for each in checkpoint.iterdir()} >= {
        "model.safetensors",
        "config.json",
        "kame.json",
        "README.md",
    }


@pytest.mark.slow
def test_a_right_answer_is_understood_in_the_sound_of_its_own_exchange(demo: Path) -> None:
    heard = hear_exchanges(demo.with_name("demo-talk"))
    words = (demo.with_name("demo-talk") / "expected.txt").read_text().casefold().split()
    right = [word in said or DIGITS.get(word, word) in said for word, said in zip(words, heard, strict=True)]
    assert any(right), heard  # beside other tests, speech may come too late for the others


def hear_exchanges(talk: Path) -> list[str]:
    """Returns what a recogniser hears of the assistant from each question of the demo to the next one."""
    lines = (talk / "transcript.txt").read_text(encoding="utf-8").casefold()
    begun = [re.search(rf"^ *([\d.]+) s  user: .*\b{topic}\b", lines, re.MULTILINE) for topic in TOPICS]
    assert all(begun), lines
    sound, rate_hz = soundfile.read(talk / "conversation.wav", dtype="float32")
    starts = [round(float(found[1]) * rate_hz) for found in begun if found is not None]
    asr = registry.build("asr", "moonshine", {})
    return [asr.transcribe(cut_to_audible(each), rate_hz).casefold() for each in np.split(sound[:, 0], starts)[1:]]


@pytest.mark.parametrize(("code", "is_told"), [(2, True), (8, False)])
def test_a_demo_that_the_folders_refuse_is_told_how_to_begin_anew(tmp_path: Path, code: int, is_told: bool) -> None:
    refused = make("demo", tmp_path, code)
    assert refused.returncode != 0
    assert ("make clean-demo" in refused.stderr) == is_told
    assert "talk" not in (tmp_path / "calls").read_text()


def test_its_folders_and_no_others_are_removed(tmp_path: Path) -> None:
    for name in ("demo", "demo-front-end", "demo-checkpoints", "demo-talk", "demo-of-mine"):
        (tmp_path / name).mkdir()
    assert make("clean-demo", tmp_path).returncode == 0
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == ["demo-of-mine"]


@pytest.mark.slow
def test_words_of_a_dataset_are_heard(demo: Path) -> None:
    assert json.loads(run_benchmark("wer", demo, "--limit", "2", "--json").splitlines()[-1])


@pytest.mark.slow
def test_prompts_are_counted_beside_the_recipe(demo: Path) -> None:
    recipe, *ours = json.loads(run_benchmark("oracle_prompts", demo, "--n", "1", "--json"))["prompts"]
    assert (recipe["way"], recipe["requests of recipe"]) == ("recipe", 1)
    assert [(each["way"], each["cap"]) for each in ours] == [("v2", 8), ("v2", 1_000), ("whole", 8), ("whole", 1_000)]
    assert ours[0]["requests"] <= recipe["requests"]
    assert 0 < ours[0]["computed"] < ours[0]["tokens"]
