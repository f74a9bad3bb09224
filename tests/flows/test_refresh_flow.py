"""The flow `refresh` at a Prefect server of its own: the bytes of a plain run, what it shows, and how it fails."""

import io
import json
import logging
import os
import signal
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.sorting import FlowRunSort
from prefect.logging.handlers import PrefectConsoleHandler
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from typer.testing import CliRunner

from data_schemas.config import (
    AlignmentConfig,
    ChatConfig,
    GateConfig,
    PartConfig,
    RefreshConfig,
    SpeechConfig,
    SplitConfig,
)
from data_schemas.errors import BackendError
from data_schemas.manifest import Manifest
from data_schemas.records import Item
from data_schemas.store import Store
from flows import refresh
from flows.automations import emit_if_changed
from flows.cli.app import app
from flows.cli.progress import RefreshBars
from flows.runs.refresh import run_refresh
from flows.settings import list_sample_sources
from pipelines.figures import Figures
from pipelines.figures import list_tables as figure_tables
from pipelines.run.parts import MembershipFiles
from pipelines.run.plan import RunPlan, make_plan
from pipelines.run.stages import STAGES
from pipelines.sources.items import SourceReading
from tests.support.builders import make_item
from tests.support.refreshing import Bench

pytestmark = pytest.mark.full

STEPS = (*STAGES, "compact")


def doubles(out: Path, workers: int = 1) -> RefreshConfig:
    """Our sample items with engines that need no model; parts of two, so that shards have several."""
    return RefreshConfig(
        out=str(out),
        sources=list_sample_sources(),
        workers=workers,
        parts=PartConfig(dialogues_per_part=2),
        speech=SpeechConfig(tts="double"),
        gate=GateConfig(asr="none"),
        alignment=AlignmentConfig(aligner="double"),
        chat=ChatConfig(engine="double"),
    )


def files_of(out: Path, *folders: str) -> dict[str, bytes]:
    """Files by path: those in the folders named, or else those of the dataset (no store, no records of runs)."""
    found = {str(file.relative_to(out)): file for file in out.rglob("*") if file.is_file()}
    return {
        path: file.read_bytes()
        for path, file in found.items()
        if (path.startswith(folders) if folders else not path.startswith((".store/", "runs/")))
    }


def last_flow_run() -> FlowRun:
    with get_client(sync_client=True) as client:
        return client.read_flow_runs(sort=FlowRunSort.EXPECTED_START_TIME_DESC, limit=1)[0]


class TaskNames(logging.Handler):
    """Gathers the names of task runs in the order in which they finish."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.names.append(getattr(record, "task_run_name", "?"))


@dataclass
class Made:
    """What the flow made with two worker processes, and what the server knows of it."""

    out: Path
    manifest: Manifest
    figures: Figures
    task_names: list[str]
    flow_run: FlowRun


@pytest.fixture(scope="module")
def made(server: None, tmp_path_factory: pytest.TempPathFactory) -> Made:
    out, tasks = tmp_path_factory.mktemp("flow") / "dataset", TaskNames()
    logging.getLogger("prefect.task_runs").addHandler(tasks)
    try:
        _, manifest, figures = refresh.run_as_flow(doubles(out, workers=2))
    finally:
        logging.getLogger("prefect.task_runs").removeHandler(tasks)
    return Made(out, manifest, figures, tasks.names, last_flow_run())


def test_bytes_are_those_of_the_plain_run(made: Made, tmp_path: Path) -> None:
    with RefreshBars(quiet=True) as bars:
        _, manifest, figures = run_refresh(doubles(tmp_path / "plain"), bars)
    assert (made.manifest, made.figures) == (manifest, figures)
    plain = files_of(tmp_path / "plain")
    assert {path.split("/")[0] for path in plain} == {
        "README.md",
        "data",
        "dataset.json",
        "oracles",
        "prompts",
        "rejects",
    }
    assert files_of(made.out) == plain


def test_tasks_are_one_a_stage_and_shard_stage_after_stage(made: Made) -> None:
    shards = [group[0].shard_id for group in make_plan(doubles(made.out)).group_by_shard()]
    assert made.task_names == ["plan", *(f"{step} {shard}" for step in STEPS for shard in shards), "publish"]


def test_artifacts_show_the_figures_and_the_card(made: Made) -> None:
    with get_client(sync_client=True) as client:
        of_run = FlowRunFilter(id=FlowRunFilterId(any_=[made.flow_run.id]))
        shown = {str(each.key): each for each in client.read_artifacts(flow_run_filter=of_run)}
    tables: dict[str, Any] = {key: json.loads(str(each.data)) for key, each in shown.items() if each.type == "table"}
    assert tables.keys() == {each.key for each in figure_tables(Figures())}
    assert [row["source"] for row in tables["dialogues-by-source"]] == ["gsm8k", "hssbench", "mmlu_pro"]
    assert all(row["dialogues"] == row["rejects"] == 4 for row in tables["dialogues-by-source"])
    minutes = sum(row["minutes"] for row in tables["dialogues-by-source"])
    assert minutes == pytest.approx(made.manifest.counts.audio_s / 60, abs=0.15)
    assert sum(row["items"] for row in tables["rejects-by-reason"]) == made.manifest.counts.rejects == 12
    assert [row["level"] for row in tables["events-by-level"]] == [0, 1, 2, 3, 4, 5]
    assert sum(row["events"] for row in tables["events-by-level"]) == made.manifest.counts.events
    card = str(shown["dataset-card"].data)
    assert card.startswith("# Spoken dialogues with oracles")
    assert card.strip() in (made.out / "README.md").read_text(encoding="utf-8")


@pytest.mark.full
@pytest.mark.parametrize("typed", [(), ("--prefect",)], ids=["plain", "as a flow"])
def test_a_run_says_what_it_left_out_and_what_it_kept(server: None, bench: Bench, typed: tuple[str, ...]) -> None:
    texts = {"question": "What is two and one?", "options": {"A": "three", "B": "four"}}
    about = {"correct_answer": "A", "category": "sums", "pic_path": None}
    rows = [{"id": f"h{n}", "en": texts, "zh": texts, **about} for n in range(3)]
    file = bench.file("rows.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows).encode())
    bench.refresh(source=f"hssbench={file}")
    result = bench.refresh("--limit", 2, *typed, source=f"hssbench={file}")
    assert [line for line in result.stderr.splitlines() if line.startswith("kame: ")] == [
        "kame: Questions of hssbench in other languages were skipped: 2 in zh. Option `languages` selects them.",
        "kame: 1 items of earlier runs, which were not read now, are still in the dataset.",
    ], result.output


def test_running_again_makes_only_what_is_missing(made: Made) -> None:
    before, dataset = files_of(made.out, ".store/parts/"), files_of(made.out)
    times = {path: (made.out / path).stat().st_mtime_ns for path in before}
    lost = min(path for path in before if "/mixing-" in path and path.endswith(".parquet"))
    (made.out / lost).unlink()
    refresh.run_as_flow(doubles(made.out))
    assert files_of(made.out, ".store/parts/") == before
    assert files_of(made.out) == dataset
    again = {path for path, time_ns in times.items() if (made.out / path).stat().st_mtime_ns != time_ns}
    assert again == {lost, lost.replace(".parquet", ".json")}


def test_a_change_is_announced_until_a_server_has_taken_it(made: Made, tmp_path: Path) -> None:
    out, nowhere = str(tmp_path), {PREFECT_API_URL: "http://127.0.0.1:9/api", PREFECT_CLIENT_MAX_RETRIES: 0}
    with temporary_settings(nowhere), pytest.raises(httpx.HTTPError):
        emit_if_changed(out, made.manifest)
    with temporary_settings(restore_defaults={PREFECT_API_URL}):  # a temporary server, which has no automations
        assert not emit_if_changed(out, made.manifest)
    assert emit_if_changed(out, made.manifest)
    assert not emit_if_changed(out, made.manifest)


@pytest.fixture
def prefect_console(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What Prefect writes to the terminal."""
    written = io.StringIO()
    for handler in logging.getLogger().handlers:
        if isinstance(handler, PrefectConsoleHandler):
            monkeypatch.setattr(handler.console, "file", written)
    return written


def test_our_errors_are_said_once_and_fail_the_flow_run(
    server: None, tmp_path: Path, prefect_console: io.StringIO
) -> None:
    missing = tmp_path / "nowhere.jsonl"
    command = ["refresh", "--prefect", "--source", f"gsm8k={missing}", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, command)
    said = f"There is no file {missing}. Give --source NAME=FILE with a JSONL(.gz) or Parquet file."
    assert (result.exit_code, result.output) == (3, f"kame: {said}\n")
    assert "Beginning flow run" in prefect_console.getvalue()
    assert [word for word in ("ERROR", "Traceback", "Failed") if word in prefect_console.getvalue()] == []
    run = last_flow_run()
    assert run.state is not None
    assert run.state.is_failed()
    assert said in str(run.state.message)


def test_sigterm_stops_the_flow_run_and_reaches_the_command(
    server: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told_to_stop(config: RefreshConfig) -> RunPlan:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the signal should have ended this task")

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt  # as the command `kame` reads the signal

    monkeypatch.setattr("flows.runs.refresh.make_plan", told_to_stop)
    earlier = signal.signal(signal.SIGTERM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            refresh.run_as_flow(doubles(tmp_path))
    finally:
        signal.signal(signal.SIGTERM, earlier)
    run = last_flow_run()
    assert run.state is not None
    assert run.state.is_crashed()


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    nowhere = {PREFECT_API_URL: "http://127.0.0.1:9/api", PREFECT_CLIENT_MAX_RETRIES: 0}
    with temporary_settings(nowhere), pytest.raises(BackendError, match="Prefect's server cannot be reached"):
        refresh.run_as_flow(doubles(tmp_path))


@pytest.mark.parametrize(("afterwards", "raised"), [("refused", BackendError), (None, ZeroDivisionError)])
def test_a_lost_server_is_told_from_an_error_of_ours(
    afterwards: str | None, raised: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([None, afterwards and ConnectionError(afterwards)])  # before the run, and after it failed
    client = nullcontext(SimpleNamespace(api_healthcheck=lambda: next(answers)))

    def failing(config: RefreshConfig) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(refresh, "get_client", lambda sync_client: client)
    monkeypatch.setattr(refresh, "refresh", failing)
    with pytest.raises(raised, match="lost during the run: refused" if afterwards else None):
        refresh.run_as_flow(doubles(tmp_path))


def test_form_of_the_deployment_has_meanings_and_bounds() -> None:
    schema = refresh.refresh.parameters.model_dump()
    assert schema["properties"]["config"]["description"].startswith("Settings of the dataset")
    fields = schema["definitions"]["RefreshConfig"]["properties"]
    assert fields["workers"] | {"maximum": 256, "minimum": 0, "type": "integer"} == fields["workers"]
    assert schema["definitions"]["MixingConfig"]["properties"]["gap_max_s"]["maximum"] == 5
    undescribed = {
        f"{name}.{field}"
        for name, model in schema["definitions"].items()
        for field, about in model.get("properties", {}).items()  # JSON of any form has none
        if not about.get("description")
    }
    assert undescribed == set()


def test_a_corpus_of_56000_dialogues_stays_under_1800_tasks(tmp_path: Path) -> None:
    n_items = {"gsm8k": 8_800, "mmlu_pro": 12_000, "hssbench": 35_200}
    shards: set[str] = set()
    for source, n in n_items.items():
        items = [_item(source, number) for number in range(n)]
        book = MembershipFiles(Store(str(tmp_path)), source, SplitConfig(), PartConfig())
        shards |= {
            each.shard_id for each in book.update(SourceReading(items, [], n, is_whole=True), frozenset()).members
        }
    assert len(shards) >= 56_000 / 256
    assert len(STEPS) * len(shards) + 2 < 1800


def _item(source: str, number: int) -> Item:
    split = ("validation", "test")[number % 2] if number % 10 == 0 else "train"
    where = {"item_id": f"{source}-{number}", "group_id": f"{source}-{number}", "source": source, "split": split}
    return make_item(f"What is {number} and one?", str(number + 1), **where)
