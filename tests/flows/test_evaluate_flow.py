"""The flow `evaluate` at a Prefect server: by its form, shown as report, pictures and progress."""

import json
from pathlib import Path
from typing import Any

import pytest
import soundfile
import soxr
from prefect.client.orchestration import get_client
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools.validation import validate
from pydantic import ValidationError
from typer.testing import CliRunner

from data_schemas.config.evaluate import EvaluateConfig
from data_schemas.config.mt_bench import MtBenchConfig
from data_schemas.config.serving import ServeConfig
from data_schemas.errors import ConfigError
from data_schemas.units import SAMPLE_RATE_HZ
from flows import evaluate as evaluate_flow
from flows.cli.app import app
from flows.runs.evaluate import evaluate, make_server_config
from kame_model.checkpoint.export import export_checkpoint
from kame_model.checkpoint.kame_json import TrainingFacts
from kame_model.checkpoint.registry import read_test_evaluations
from kame_model.evaluate.calls import call
from kame_model.evaluate.calls.run import show_no_progress
from kame_model.evaluate.report.folder import read_figures, read_items
from tests.support.chat_server import MODEL, Behaviour, served
from tests.support.front_ends import tiny_front_end
from tests.support.prefect_servers import read_artifacts
from tests.support.recall_rows import make_vocabulary, recall_row, write_recall_rows
from tests.support.serving import saying

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("server_of_doubles")]

ROOT = Path(__file__).resolve().parents[2]


def write_word(path: Path, n_silent: int = 0) -> None:
    """A word of four frames and silence, as a wav file of 16 kHz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sound = [*saying("alpha", 4), *saying(None, n_silent)] if n_silent else saying("alpha", 4)
    soundfile.write(path, soxr.resample(sound, SAMPLE_RATE_HZ, 16_000), 16_000)


def duplex_config(checkpoint: str, folder: Path) -> EvaluateConfig:
    item = folder / "candor_turn_taking" / "1"
    write_word(item / "input.wav", n_silent=20)
    (item / "turn_taking.json").write_text(json.dumps([{"text": "[TURN-TAKING]", "timestamp": [0.32, 1.0]}]))
    return EvaluateConfig(
        kind="duplex",
        checkpoint=checkpoint,
        path=str(folder),
        out=str(folder / "out"),
        modes=["cascade"],
        delays_s=[0.5],
        settings=["recogniser=double"],
    )


@pytest.mark.usefixtures("server")
def test_its_run_shows_report_pictures_and_progress_and_again_asks_nothing_anew(
    checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = duplex_config(checkpoint, tmp_path)
    (row,) = evaluate_flow.evaluate(config)
    assert (row["subset"], row["take_over_text"]) == ("candor_turn_taking", 0.0), "one word is no turn"
    told = read_artifacts()
    assert "# Taking turns" in str(told["report"].data)
    assert str(told["turns"].data).startswith("data:image/png;base64,iVBOR")
    assert told["progress-calling"].data == 100.0
    with get_client(sync_client=True) as client:
        tasks = client.read_task_runs()
    assert [each.name for each in tasks] == [f"duplex {config.out}"]

    def refuse(*_: object) -> None:
        raise AssertionError("a call was made anew")

    monkeypatch.setattr(call.CalledServer, "call", refuse)
    assert evaluate_flow.evaluate(config) == [row]


def test_questions_are_asked_and_judged_by_the_form(checkpoint: str, tmp_path: Path) -> None:
    folder = tmp_path / "LLAMA1-Test-Set"
    write_word(folder / "1.wav")
    (folder / "llama_questions_300.tsv").write_text("Questions\tAnswer\tWav Filename\nWhich?\tAlpha\t1.wav\n")
    with served(Behaviour(ending="\n[[incorrect]]")) as (root, _):
        config = EvaluateConfig(
            kind="questions",
            checkpoint=checkpoint,
            path=str(folder),
            questions="llama_questions",
            out=str(tmp_path / "out"),
            modes=["cascade"],
            delays_s=[0.2, 1.2],
            n_items=5,
            judge_url=f"{root}/v1",
            judge_model=MODEL,
            settings=["recogniser=double", "tail_s=5"],
        )
        rows = evaluate(config, show_no_progress)
    assert [(row["mode"], row["delay_s"], row["answer_accuracy_text"], row["answer_judged_text"]) for row in rows] == [
        ("cascade", 0.2, 1.0, 0.0),
        ("cascade", 1.2, 1.0, 0.0),
    ]


def test_recall_is_run_by_the_form(tmp_path: Path) -> None:
    tokenizer = make_vocabulary(tmp_path)
    export_checkpoint(tiny_front_end(), tokenizer, None, tmp_path / "tiny", TrainingFacts(step=1))
    rows = [recall_row(number, answer, tokenizer) for number, answer in enumerate(("five", "six"))]
    write_recall_rows(tmp_path / "tokens", rows, tokenizer)
    out = str(tmp_path / "out")
    config = EvaluateConfig(
        kind="recall",
        checkpoint=str(tmp_path / "tiny"),
        path=str(tmp_path / "tokens"),
        out=out,
        delays_s=[0.1, 2],
        n_items=1,
        settings=["n_sounds=0", "oracles=[right]"],
    )
    figures = evaluate(config, show_no_progress)
    assert figures == read_figures(out)["rows"]
    assert {row["delay_s"] for row in figures} == {0.1, 2.0}
    assert len({item["unit"] for item in read_items(out)}) == 1


def test_recall_by_the_form_is_that_of_the_command(tmp_path: Path) -> None:
    tokenizer = make_vocabulary(tmp_path)
    export_checkpoint(tiny_front_end(), tokenizer, None, tmp_path / "made" / "tiny", TrainingFacts(step=1))
    rows = [recall_row(number, answer, tokenizer, split="test") for number, answer in enumerate(("five", "six"))]
    for name in ("tokens", "voices"):
        write_recall_rows(tmp_path / name, rows, tokenizer)

    def run(again: bool = False, anew: bool = False, seed: int = 0) -> set[tuple[Any, ...]]:
        config = EvaluateConfig(
            kind="recall",
            checkpoint=str(tmp_path / "made" / "tiny"),
            path=str(tmp_path / "tokens"),
            voices=str(tmp_path / "voices"),
            out=str(tmp_path / "out"),
            delays_s=[1],
            seed=seed,
            again=again,
            anew=anew,
            register_folder=str(tmp_path / "register"),
            settings=["n_sounds=0", "oracles=[right,wrong]", "splits=[test]"],
        )
        return {(row["oracle"], row["delay_s"], row["channel"]) for row in evaluate(config, show_no_progress)}

    assert run() == {("right", 1.0, None), ("wrong", 1.0, None), ("right", 1.0, "other voices")}
    with pytest.raises(ConfigError, match="another evaluation"):
        run(seed=1, again=True)
    with pytest.raises(ConfigError, match="test items before"):
        run(seed=1, anew=True)
    assert run(seed=1, anew=True, again=True)
    assert len(read_test_evaluations(str(tmp_path / "register"))) == 2
    with pytest.raises(ValidationError, match="listen: kind duplex has no such parameter; it is for recall"):
        EvaluateConfig(kind="duplex", checkpoint="c", path="p", listen=True)


@pytest.mark.parametrize(
    ("place", "typed", "settings", "expected"),
    [
        ("questions/judge_prompts.jsonl", [], [], "questions/judge_prompts.jsonl"),
        ("judge_prompts.jsonl", [], [], "judge_prompts.jsonl"),
        ("elsewhere/judge_prompts.jsonl", [], [], ""),
        ("questions/judge_prompts.jsonl", ["--judge-prompts", ""], ["judge.prompts=''"], ""),
    ],
)
def test_mt_bench_by_the_form_has_the_judge_prompts_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, typed: list[str], settings: list[str], expected: str
) -> None:
    found: list[str] = []

    def keep(config: MtBenchConfig, *_: object, **__: object) -> list[dict[str, Any]]:
        found.append(config.judge.prompts)
        return []

    monkeypatch.setattr("kame_model.evaluate.mt_bench.evaluate.evaluate_mt_bench", keep)
    questions = tmp_path / "questions"
    questions.mkdir()
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).touch()
    form = EvaluateConfig(kind="mt-bench", checkpoint="c", path=str(questions), settings=settings)
    evaluate(form, show_no_progress)
    command = ["evaluate", "mt-bench", "c", "--path", str(questions), "--out", str(tmp_path / "out"), *typed]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert found == [expected and str(tmp_path / expected)] * 2


def test_chat_models_and_settings_of_the_server_are_those_of_the_form() -> None:
    config = EvaluateConfig(
        checkpoint="c", path="p", llm_provider="anthropic", llm_model="claude", server_settings=["cascade.tts=piper"]
    )
    serving = make_server_config(config)
    chat = serving.back_ends[0].chat
    assert (chat.engine, chat.provider, chat.model, chat.base_url) == ("openai", "anthropic", "claude", None)
    assert serving.cascade.tts == "piper"
    embedded = make_server_config(EvaluateConfig(checkpoint="c", path="p"))
    assert embedded.back_ends == ServeConfig(checkpoint="c").back_ends
    with pytest.raises(ConfigError, match="tempo"):
        evaluate(config.model_copy(update={"settings": ["tempo=1"]}), show_no_progress)
    with pytest.raises(ValidationError, match="kind duplex needs a file or folder"):
        EvaluateConfig(checkpoint="c")
    with pytest.raises(ValidationError, match=r"judge_url\n.*must not contain a user, password or query"):
        EvaluateConfig(checkpoint="c", path="p", judge_url="https://me:secret@judge.example/v1")


def test_its_form_has_titles_choices_and_no_unions() -> None:
    schema = parameter_schema(evaluate_flow.evaluate).model_dump_for_openapi()
    fields: dict[str, Any] = schema["definitions"]["EvaluateConfig"]["properties"]
    assert fields["kind"]["enum"] == ["recall", "questions", "mt-bench", "duplex"]
    assert all(field.get("title") and field.get("description") for field in fields.values())
    assert "anyOf" not in json.dumps(schema)
    wrong = validate({"config": {"checkpoint": "c", "kind": "taste"}}, schema)
    assert any("'taste' is not one of" in each.message for each in wrong)
