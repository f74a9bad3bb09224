"""`kame checkpoint`: a training run's weights as a folder, and the folder told."""

import json
import re
import shlex
from pathlib import Path

import pytest
from torch.distributed.checkpoint.state_dict_saver import save
from typer.testing import CliRunner

from data_schemas.config.serving import ServeConfig
from data_schemas.config.training import DataConfig, DatasetMixConfig, SharesConfig, TrainConfig
from data_schemas.errors import ConfigError
from flows.cli import serve
from flows.cli.app import app as kame
from flows.cli.checkpoint import app
from kame_model.checkpoint.export import export_once
from kame_model.checkpoint.load import load_checkpoint
from kame_model.checkpoint.summary import summarise
from kame_model.model.front_end import FrontEnd, build_front_end
from kame_model.train.run_facts import RunFacts, VocabularyAndCodec, read_facts
from tests.support.codecs import TINY_LAYOUT, open_mimi, tiny_mimi
from tests.support.front_ends import tiny_config
from tests.support.vocabularies import make_vocabulary

EVALUATION = {"right": {"loss": 2.5, "text": 1.5}, "none": {"loss": 4.0}}

MIMI = ["--codec", "mimi", "--codec-option", "n_codebooks=3", "--codec-path"]


def make_run(folder: Path) -> tuple[Path, Path, FrontEnd]:
    """A run's folder with one checkpoint, its codec's folder, and the front-end that it came to."""
    tokenizer = make_vocabulary(folder, 300)
    codec = tiny_mimi(folder / "codec")
    front_end = build_front_end(tiny_config(), 300, TINY_LAYOUT)
    data = DataConfig(datasets=[DatasetMixConfig(path="rows")])  # never opened: what a run learnt from may be gone
    config = TrainConfig(
        stage="copy", shares=SharesConfig(copying=1), tokenizer=str(tokenizer.path), model=tiny_config(), data=data
    )
    speaks_with = VocabularyAndCodec(
        tokenizer_digest=tokenizer.digest, text_card=300, codec_digest=codec.digest, layout=codec.layout
    )
    facts = RunFacts(config=config, speaks_with=speaks_with, datasets=["0123456789abcdef"])
    step = folder / "run" / "checkpoints" / "step-00000007"
    save({"model": front_end.state_dict()}, checkpoint_id=step, no_dist=True)
    (folder / "run" / "config.json").write_text(facts.model_dump_json())
    (step / "state.json").write_text(json.dumps({"step": 7, "evaluation": EVALUATION, "evaluation_step": 7}))
    (step / "DONE").touch()
    return folder / "run", folder / "codec", front_end.eval()


@pytest.mark.filterwarnings("ignore::UserWarning:torch")
def test_how_it_is_to_be_run_is_typed(tmp_path: Path) -> None:
    run, _, _ = make_run(tmp_path)
    typed = ["export", str(run), str(tmp_path / "out"), "--codec", "none", "--json", "--set"]
    wrong = CliRunner().invoke(app, [*typed, "data.swap_share=0.3"])
    assert (wrong.exit_code, "data.swap_share is not a setting of sampling" in wrong.output) == (2, True)
    made = CliRunner().invoke(app, [*typed, "sampling.temp_text=0.5", "--voice", "synthesised"])
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    assert (told["sampling"]["temp_text"], told["sampling"]["temp"]) == (0.5, 0.8)
    assert told["voice"] == "synthesised"
    assert told["trained_delays"] is None, "copying has delays of its own"


@pytest.mark.filterwarnings("ignore::UserWarning:torch")
def test_a_run_becomes_a_folder_and_is_told(tmp_path: Path) -> None:
    run, codec, front_end = make_run(tmp_path)
    out, cli = tmp_path / "out", CliRunner()
    typed = ["export", str(run), str(out), *MIMI, str(codec), "--json"]
    made = cli.invoke(app, typed)
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    assert told["training"]["step"] == 7
    assert told["training"]["figures"] == {"right.loss": 2.5, "right.text": 1.5, "none.loss": 4.0}
    assert told["training"]["data"] == ["0123456789abcdef"]
    assert (told["training"]["figures_step"], told["training"]["run"]) == (7, read_facts(run).identity)
    assert "at step 7" in (out / "README.md").read_text()
    assert len({file.stat().st_mode for file in out.iterdir()}) == 1  # all are for whoever may read one
    loaded = load_checkpoint(out)
    for name, tensor in front_end.state_dict().items():
        assert tensor.equal(loaded.front_end.state_dict()[name]), name
    shown = cli.invoke(app, ["show", str(out)])
    assert shown.exit_code == 0
    assert "7 steps, stage copy" in shown.stdout
    assert "Validation at step 7" in shown.stdout
    rows = [[cell.strip() for cell in line.split("│")] for line in shown.stdout.splitlines()]
    assert re.search(r"right oracle +┃ +no oracle", shown.stdout)
    assert ["loss that was minimised", "2.5", "4"] in rows
    assert ["loss of words", "1.5", ""] in rows
    again = cli.invoke(app, typed)
    assert again.exit_code == 2
    assert "already exists" in json.loads(again.stdout)["error"]


@pytest.mark.filterwarnings("ignore::UserWarning:torch")
def test_a_name_that_is_no_export_gets_the_runs_identity(tmp_path: Path) -> None:
    run, codec, _ = make_run(tmp_path)
    checkpoints = tmp_path / "checkpoints"
    options: dict[str, str | int | float | bool] = {"path": str(codec), "n_codebooks": 3}
    (checkpoints / "mine").mkdir(parents=True)  # an empty folder
    for _ in range(2):
        assert export_once(run, checkpoints, "mine", ("mimi", options)) == f"mine-{read_facts(run).identity}"
    for each in checkpoints.iterdir():
        (each / "kame.json").write_text("{")
    with pytest.raises(ConfigError, match="holds something else as mine"):
        export_once(run, checkpoints, "mine", ("mimi", options))


def test_a_codec_that_the_run_does_not_speak_is_refused(tmp_path: Path) -> None:
    run, _, _ = make_run(tmp_path)
    other = tiny_mimi(tmp_path / "other", seed=9)
    typed = ["export", str(run), str(tmp_path / "out"), *MIMI, str(tmp_path / "other")]
    refused = CliRunner().invoke(app, typed)
    assert refused.exit_code == 2
    assert f"but the given one is {other.digest}" in refused.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.filterwarnings("ignore::UserWarning:torch")
def test_licences_of_a_damaged_run_that_weights_came_from_are_unknown(tmp_path: Path) -> None:
    run, _, _ = make_run(tmp_path)
    before = tmp_path / "before"
    (before / "checkpoints").mkdir(parents=True)
    (before / "config.json").write_text("{")
    facts = read_facts(run)
    began = facts.model_copy(update={"config": facts.config.model_copy(update={"init_from": str(before)})})
    (run / "config.json").write_text(began.model_dump_json())
    made = CliRunner().invoke(app, ["export", str(run), str(tmp_path / "out"), "--codec", "none", "--json"])
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["training"]["licences"]["weights of before"] is None


@pytest.mark.filterwarnings("ignore::UserWarning:torch")
def test_weights_are_written_as_trained_or_as_told(tmp_path: Path) -> None:
    run, _, _ = make_run(tmp_path)
    for dtype, found in (("float32", "F32"), ("bfloat16", "BF16")):
        typed = ["export", str(run), str(tmp_path / dtype), "--codec", "none", "--dtype", dtype]
        assert CliRunner().invoke(app, typed).exit_code == 0
        assert list(summarise(tmp_path / dtype).dtypes) == [found]


def test_what_is_no_run_and_no_checkpoint_is_said(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["export", str(tmp_path), str(tmp_path / "out")]).exit_code == 6
    assert CliRunner().invoke(app, ["show", str(tmp_path)]).exit_code == 2


@pytest.mark.filterwarnings("ignore::UserWarning:torch")
def test_the_cards_own_lines_serve_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[ServeConfig] = []
    monkeypatch.setattr(serve, "_serve", lambda config, as_json: served.append(config))
    run, codec, _ = make_run(tmp_path)
    with_codec, mute, cli = tmp_path / "out", tmp_path / "mute", CliRunner()
    cli.invoke(app, ["export", str(run), str(with_codec), *MIMI, str(codec)])
    cli.invoke(app, ["export", str(run), str(mute), "--codec", "none"])
    block = (with_codec / "README.md").read_text().split("## Serving it")[1].split("```sh")[1].split("```")[0]
    for line in block.strip().replace("FOLDER", str(with_codec)).splitlines()[:2]:
        done = cli.invoke(kame, shlex.split(line, comments=True)[1:])
        assert done.exit_code == 0, (line, done.output)
    assert [each.checkpoint for each in served] == [str(with_codec)] * 2
    assert [each.back_ends[0].chat.engine for each in served] == ["llamacpp", "openai"]
    card, facts = (mute / "README.md").read_text(), load_checkpoint(mute).facts
    assert "cannot be served" in card
    assert facts is not None
    assert facts.codec is None
    assert facts.codec_digest == open_mimi(codec).digest, "which codec it speaks is told all the same"
    assert facts.codec_digest in card
