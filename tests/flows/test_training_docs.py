"""The recipes of docs/training.md, as typed, on a dataset of seconds; only shorter and with a smaller model."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from data_schemas.config.training import TrainConfig
from data_schemas.presets import PRESETS
from data_schemas.store import Store
from flows.cli import train
from flows.cli.app import app
from kame_model.checkpoint.load import load_checkpoint
from kame_model.encode.manifest import read_manifest
from kame_model.encode.run import encode_dataset
from tests.support.codecs import tiny_mimi
from tests.support.small_datasets import encode_settings, noisy_dialogue, write_dataset
from tests.support.train_runs import TINY
from tests.support.vocabularies import make_vocabulary

PAGE = Path(__file__).parents[2] / "docs" / "training.md"
MOSHI = PRESETS["moshi-7b"].begins_with
SMALLER = {
    "model": TINY.model_dump(),
    "data": {"batch_frames": 300},
    "hardware": {"device": "cpu", "threads": 1},
    "keep": {"tensorboard": False, "evaluate_examples": 2},
    "copying": {"batch_size": 2, "max_frames": 75, "max_delay_frames": 4, "max_silence_frames": 0},
}


def recipes() -> list[list[str]]:
    """Blocks of commands, each a list of its lines."""
    blocks = re.findall(r"(?:^    kame .*\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [[line.strip() for line in block.splitlines()] for block in blocks]


@pytest.fixture
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the page's commands are typed: a folder with `tokens` in it, as `kame encode` leaves it."""
    monkeypatch.chdir(tmp_path)
    tiny_mimi(tmp_path / "codec")
    shards = [[noisy_dialogue(at) for at in range(4)], [noisy_dialogue(at, "validation") for at in (10, 11)]]
    data = write_dataset(tmp_path / "dataset", shards)
    vocabulary = str(make_vocabulary(tmp_path).path)
    named = {"path": "codec", "device": "cpu", "n_codebooks": 3}
    encode_dataset(encode_settings(data, vocabulary, codec="mimi", codec_options=named))
    return tmp_path / "tokens"


@pytest.mark.full
def test_the_recipe_that_the_page_opens_with(tokens: Path, tmp_path: Path) -> None:
    options = read_manifest(Store(str(tokens))).codec_options
    assert options == {
        "path": str(tmp_path / "codec"),
        "n_codebooks": 3,
    }  # found from anywhere; where it ran is nobody's business
    (tmp_path / "smaller.yaml").write_text(json.dumps(SMALLER))  # JSON is YAML
    for line in recipes()[0]:
        typed = shlex.split(re.sub(r"--max-steps \d+", "--max-steps 2", line))[1:]
        done = CliRunner().invoke(app, typed + (["--config", "smaller.yaml"] if typed[0] == "train" else []))
        assert done.exit_code == 0, (line, done.output)
    loaded = load_checkpoint(tmp_path / "checkpoints" / "nano")
    assert loaded.facts is not None
    assert loaded.facts.training.stage == "dialogues"
    assert loaded.facts.training.init_from == "copy"
    assert loaded.load_tokenizer().text_card == loaded.front_end.text_card
    assert loaded.load_codec().digest == loaded.facts.codec_digest


def test_the_recipe_of_moshis_own_size_is_a_whole_run(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[TrainConfig] = []
    monkeypatch.setattr(train, "_train_rows", lambda config, as_json: runs.append(config))
    (line,) = (line for line in recipes()[1] if line.startswith("kame train"))
    done = CliRunner().invoke(app, shlex.split(line)[1:])
    assert done.exit_code == 0, done.output
    assert runs[0].lora is not None
    assert (runs[0].model.dim, runs[0].lora.rank) == (4096, 64)
    assert runs[0].init_from == MOSHI["init_from"]
    encoding = recipes()[1][0]
    assert f"--tokenizer {MOSHI['tokenizer']}" in encoding
    assert f"--codec {MOSHI['codec']} " in encoding


@pytest.mark.full
def test_rows_that_are_gone_are_told_when_the_codec_is_asked_for(tokens: Path, tmp_path: Path) -> None:
    (tmp_path / "smaller.yaml").write_text(json.dumps(SMALLER))
    typed = ["train", "tokens", "--max-steps", "1", "--out", "run", "--config", "smaller.yaml"]
    assert CliRunner().invoke(app, typed).exit_code == 0
    tokens.rename(tmp_path / "elsewhere")
    refused = CliRunner().invoke(app, ["checkpoint", "export", "run", "out"])
    assert refused.exit_code == 2
    assert "Pass --codec and --codec-path" in refused.stderr
