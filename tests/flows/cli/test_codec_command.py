"""`kame codec`: from a dataset to a codec and its figures."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.codec import app
from tests.support.codecs import with_validation

pytestmark = pytest.mark.full

BRIEF = ["--card", "4", "--asr", "double", "--dialogues", "2"]


@pytest.fixture(scope="module")
def split(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_validation(made, tmp_path_factory.mktemp("split") / "dataset")


@pytest.fixture(scope="module")
def codec(split: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("command") / "codec"
    ran = CliRunner().invoke(app, ["learn", str(split), "--out", str(out), *BRIEF])
    assert ran.exit_code == 0, ran.output
    for told in ("perplexity", "WER after the round trip", "6 codebooks of 4", "codebooks of 4 from", "report.json"):
        assert told in ran.output
    return out


def test_the_figures_stand_beside_the_weights_and_are_measured_again(split: Path, codec: Path) -> None:
    assert sorted(path.name for path in codec.iterdir()) == ["codebooks.safetensors", "codec.json", "report.json"]
    report = json.loads((codec / "report.json").read_text())
    assert report["wer_original"]["all"]["wer"] == 1  # the double hears nothing
    assert len(report["codebooks"]) == 6
    ran = CliRunner().invoke(app, ["report", str(codec), str(split), "--asr", "double", "--dialogues", "1", "--json"])
    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout)
    assert told["report"]["n_dialogues"] == 1
    assert told["report"] == json.loads((codec / "report.json").read_text())


def test_any_codec_is_measured_by_its_name_with_its_options(split: Path) -> None:
    typed = ["report", "double", str(split), "--asr", "double", "--dialogues", "1", "--json"]
    ran = CliRunner().invoke(app, [*typed, "--codec-option", "n_codebooks=2", "--codec-option", "card=64"])
    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout)
    assert (told["report"]["codec"], len(told["report"]["codebooks"]), told["report"]["card"]) == ("double", 2, 64)
    assert told["file"] is None
    wrong = CliRunner().invoke(app, [*typed, "--codec-option", "n_codebooks"])
    assert wrong.exit_code == 2
    assert "Write --codec-option NAME=VALUE." in json.loads(wrong.stdout)["remedy"]


def test_a_dataset_without_validation_dialogues_gives_a_codec_that_is_not_measured(made: Path, tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["learn", str(made), "--out", str(tmp_path), *BRIEF, "--json"])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["report"] is None
    assert "learnt, but not measured" in ran.stderr
    assert (tmp_path / "codebooks.safetensors").is_file()


def test_a_folder_that_holds_just_this_codec_is_measured_and_another_is_refused(split: Path, codec: Path) -> None:
    before = (codec / "codebooks.safetensors").read_bytes()
    typed = ["learn", str(split), "--out", str(codec), *BRIEF, "--json"]
    again = CliRunner().invoke(app, typed)
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["learnt"]["card"] == 4
    assert (codec / "codebooks.safetensors").read_bytes() == before
    other = CliRunner().invoke(app, [*typed, "--stages", "1"])
    assert other.exit_code == 2
    assert "of other speech or settings" in json.loads(other.stdout)["error"]


@pytest.mark.parametrize(("option", "told"), [("--speakers", "speakers"), ("--card", "card"), ("--stages", "n_stages")])
def test_wrong_settings_are_told(made: Path, tmp_path: Path, option: str, told: str) -> None:
    ran = CliRunner().invoke(app, ["learn", str(made), "--out", str(tmp_path / "codec"), option, "0"])
    assert ran.exit_code == 2
    assert told in ran.output
    assert not (tmp_path / "codec").exists()
