"""The bench, the plan made by its rates, and the run of which both tell: on doubles, from end to end."""

import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from backends.chat.double import DoubleEngine
from data_schemas.config import RefreshConfig
from data_schemas.config.front_end import FrontEndConfig
from data_schemas.errors import ConfigError
from data_schemas.rates import RateBook, Rates, StepCost
from flows.cli.app import app
from flows.runs import bench
from flows.runs.bench import run_bench
from flows.runs.plan import check_device, count_items, open_rates, plan_dataset, plan_settings, save_rates
from flows.runs.refresh import run_refresh
from flows.runs.usage import read_usage
from flows.settings import find_shipped_checkpoint
from pipelines.asking import read_prompt_texts
from pipelines.run.estimate import count_dialogues
from pipelines.wording.stage import MAX_ATTEMPTS
from tests.support.runs import Silent, config_on_doubles

pytestmark = pytest.mark.full
COUNTED = ("dialogues", "items", "calls", "tokens_in", "tokens_out", "disk_bytes")


def own_questions(folder: Path, n: int = 40) -> Path:
    """Questions of one kind, so that a few tell of all."""
    rows = [
        {
            "question": f"Anna has {k} apples and buys {k + 3} more. How many apples has she?",
            "answer": f"#### {2 * k + 3}",
        }
        for k in range(3, n + 3)
    ]
    file = folder / "gsm8k.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return file


def read_own_bytes() -> int:
    """Memory of a process that has imported this module, and so the command and the bench."""
    return read_usage().own_bytes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plan")


@pytest.fixture(scope="module")
def config(folder: Path) -> RefreshConfig:
    made = config_on_doubles(folder / "out", sources=(own_questions(folder),))
    return made.model_copy(update={"parts": made.parts.model_copy(update={"dialogues_per_part": 16})})


@pytest.fixture(scope="module")
def rates(config: RefreshConfig) -> Rates:
    return run_bench(config, 12, None, lambda _: None)


@pytest.fixture(scope="module")
def record(config: RefreshConfig, rates: Rates, folder: Path) -> dict[str, Any]:
    """Of a run that was planned by the bench's rates."""
    patch = pytest.MonkeyPatch()
    patch.setenv("KAME_CACHE", str(folder / "cache"))
    save_rates(folder / "cache" / "rates.yaml", rates)
    run_refresh(config, Silent())
    patch.undo()
    (file,) = (folder / "out" / "runs").glob("*[0-9a-f].json")
    told: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return told


def test_the_bench_measures_every_step_and_says_where(rates: Rates) -> None:
    assert {each.step for each in rates.costs} == {"script", "tts", "alignment", "mixing", "start", "publish"}
    assert rates.shapes[0].source == "gsm8k"
    assert rates.shapes[0].n_items == 40
    assert rates.chat[0].model == "double"
    assert "cores" in rates.origin.machine


@pytest.mark.parametrize("n_dialogues", [1, 3])
def test_the_time_of_a_request_does_not_depend_on_the_number_of_dialogues(
    config: RefreshConfig, n_dialogues: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = DoubleEngine(config.chat)
    monkeypatch.setattr(bench, "build_chat_engine", lambda _: engine)
    monkeypatch.setattr(bench, "_read_clocks", lambda: (2.0 * len(engine.requests), 2.0 * len(engine.requests)))
    (rate,) = run_bench(config, n_dialogues, None, lambda _: None).chat
    assert rate.wall_s == 2.0, "each request takes two seconds"


def test_the_main_process_is_measured_with_its_imports_and_a_plan(rates: Rates) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        before = alone.submit(read_own_bytes).result()
    assert 1.2 * before < rates.sizes[0].main_bytes < 3 * before


def test_the_bench_counts_what_words_dialogues_anew(config: RefreshConfig) -> None:
    rates = run_bench(config.model_copy(update={"wording": config.chat}), 12, None, lambda _: None)
    by_stage = {each.stage: each for each in rates.chat}
    assert by_stage.keys() == {"oracle", "wording"}
    assert by_stage["wording"].prompt == read_prompt_texts("pipelines.wording")["version"]
    assert 0 < by_stage["wording"].calls_per_request <= 2 * MAX_ATTEMPTS
    assert by_stage["wording"].wall_s > 0


@pytest.mark.parametrize("key", COUNTED)
def test_what_was_planned_is_within_a_quarter_of_what_came(record: dict[str, Any], key: str) -> None:
    told = record["plan"][key]
    assert told["planned"] == pytest.approx(told["actual"], rel=0.25), told


def test_the_record_has_time_and_memory_beside_the_plan(record: dict[str, Any]) -> None:
    for key in ("wall_s", "memory_bytes", "processor.script", "processor.mixing"):
        assert record["plan"][key]["actual"] > 0
        assert record["plan"][key]["planned"] > 0
    assert record["processor_s"]["speech"] > 0


def test_the_command_shows_planned_beside_actual(record: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    out = str(folder / "out")
    told = json.loads(CliRunner().invoke(app, ["plan", "--actual", out, "--json"]).stdout)
    assert told == {"run": f"runs/{record['run_id']}.json", "plan": record["plan"]}
    shown = CliRunner().invoke(app, ["plan", "--actual", out])
    assert shown.exit_code == 0, shown.output
    rows = [[cell.strip() for cell in line.split("│")] for line in shown.stdout.splitlines()]
    (row,) = [cells for cells in rows if cells[0] == "dialogues"]
    assert row[2] == f"{record['plan']['dialogues']['actual']:.0f} dialogues"
    nothing = CliRunner().invoke(app, ["plan", "--actual", str(tmp_path)])
    assert nothing.exit_code == 6
    assert "has an estimate" in nothing.output


def test_a_run_with_nothing_to_do_plans_nothing(config: RefreshConfig, record: dict[str, Any]) -> None:
    again, _, _ = run_refresh(config, Silent())
    assert again.planned == []
    assert record["plan"] != {}


def test_a_form_of_the_dashboard_is_planned_without_starting_anything(
    config: RefreshConfig, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAME_CACHE", str(folder / "cache"))
    other = config.model_copy(update={"out": str(folder / "never")})
    figures = {each.key: each for each in plan_settings(other)}
    assert figures["items"].value == pytest.approx(40, rel=0.25)
    assert not (folder / "never").exists()


def test_a_training_is_planned_with_the_codec_of_what_it_starts_from() -> None:
    from flows.runs.train import take_from_checkpoint  # heavy: torch

    shipped = find_shipped_checkpoint()
    assert shipped is not None
    started = FrontEndConfig(datasets=["d"], init_from=shipped)
    taken = take_from_checkpoint(started)
    assert taken.codec == "codec2-neural"
    planned = {each.key: each.value for each in plan_settings(started)}
    assert planned == {each.key: each.value for each in plan_settings(taken)}
    other = {each.key: each.value for each in plan_settings(started.model_copy(update={"codec": "codec2-learnt"}))}
    assert planned != other


def test_items_of_sources_are_counted(config: RefreshConfig, rates: Rates) -> None:
    n_items = count_items(config.model_copy(update={"limit": 10}))
    assert n_items == {"gsm8k": 10}
    book = RateBook([rates])
    figures = {each.key: each.value for each in plan_dataset(config, book, count_dialogues(config, n_items, book))}
    assert figures["items"] == pytest.approx(10)


def test_codecs_of_presets_and_all_that_were_measured_are_planned(config: RefreshConfig, rates: Rates) -> None:
    costs = [StepCost(step="codec", engine=each, per="duration_s", seconds=0.5) for each in ("codec2-neural", "mine")]
    book = RateBook([rates.model_copy(update={"costs": [*rates.costs, *costs]})])
    figures = {each.key: each.value for each in plan_dataset(config, book, {"gsm8k": 10})}
    of_nano, of_mine, of_mimi = (figures[f"processor.codec.{each}"] for each in ("codec2-neural", "mine", "mimi"))
    assert of_nano == of_mine == pytest.approx(0.5 * (figures["duration_s"] or 0))
    assert of_mimi is None


def test_the_command_plans_the_papers_corpus_and_every_figure_has_its_source() -> None:
    typed = ["plan", "--json", "--device", "cpu", "--device", "H200", "--workers", "4"]
    result = CliRunner().invoke(app, typed)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    by_key = {each["key"]: each for each in told["figures"]}
    assert len(by_key) == len(told["figures"])
    assert by_key["dialogues"]["value"] == 56_582
    for key in ("wall_s", "memory_bytes", "processor.codec.codec2-neural", "training.nano.cpu.s"):
        assert by_key[key]["value"] > 0
    assert all(each["basis"] for each in told["figures"])
    assert all(each["value"] is not None or each["basis"].startswith("unknown") for each in told["figures"])
    assert any(origin.startswith("reference machine") for origin in told["rates"])


def test_the_command_says_what_does_not_fit(tmp_path: Path) -> None:
    for typed in (["--dialogues", "gsm8k"], ["--preset", "huge"], ["--rates", str(tmp_path / "none.yaml")]):
        result = CliRunner().invoke(app, ["plan", *typed])
        assert result.exit_code == 2, result.output


def test_a_device_is_known_in_any_letters_and_nonsense_is_refused() -> None:
    book = RateBook([])
    assert [check_device(each, book) for each in ("cpu", "CPU", "h200", "NVIDIA H200 SXM", "rtx 4090")] == [
        *("cpu", "cpu", "H200", "H200", "RTX 4090")
    ]
    with pytest.raises(ConfigError, match="no data sheet for the device 'H2OO'"):
        check_device("H2OO", book)


def test_the_reference_rates_know_the_sources_that_were_measured() -> None:
    book = open_rates()
    assert all(book.find_shape(source) is not None for source in ("gsm8k", "mmlu_pro"))
