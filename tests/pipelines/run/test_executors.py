"""What is handed to an executor, how much at a time, and what is said where a place cannot do it."""

import json
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from data_schemas.config import PartConfig, RefreshConfig, SourceConfig, SplitConfig, StageResources
from data_schemas.errors import BackendError, KameError, StoreError
from data_schemas.store import Store
from pipelines.run import workers
from pipelines.run.execute import Runner, run_on_part
from pipelines.run.parts import ITEMS, Part, PartRecord
from pipelines.run.plan import make_plan
from pipelines.run.stages import SCRIPT
from pipelines.run.workers import MOST_LOSSES, MOST_PARTS, PARTS_A_SLOT, Workers
from tests.support.runs import config_on_doubles

N_SLOTS = 4
RECORD = PartRecord(n_rows=0, n_bytes=0, sha256="", n_to_retry=0, rejects=[])


class PatientExecutor(Executor):
    """Runs what is handed in only when its caller waits for it, the newest first; counts what lies there."""

    def __init__(self) -> None:
        self.handed_in: list[tuple[Callable[[], Any], Future[Any]]] = []
        self.sizes: list[int] = []
        self.most = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.handed_in.append((fn, Future()))
        self.sizes.append(len(pickle.dumps((fn, args, kwargs))))
        self.most = max(self.most, len(self.handed_in))
        return self.handed_in[-1][1]

    def run_one(self) -> None:
        fn, future = self.handed_in.pop()
        try:
            future.set_result(fn())
        except KameError as error:
            future.set_exception(error)


class Place:
    """A cluster that is none."""

    def __init__(self) -> None:
        self.made = PatientExecutor()
        self.n_free = N_SLOTS
        self.needs: StageResources | None = None
        self.is_open = False

    def __enter__(self) -> "Place":
        self.is_open = True
        return self

    def __exit__(self, *error: object) -> None:
        self.is_open = False

    def get_executor(self, needs: StageResources, n_tasks: int) -> Executor:
        self.needs = needs
        return self.made

    def count_slots(self, needs: StageResources) -> int:
        return self.n_free

    def find_fault(self, error: BaseException, task: str) -> BackendError | None:
        return BackendError("The scheduler was lost.") if isinstance(error, CancelledError) else None


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    """Stands for any cluster; waiting lets it make one part."""
    one = Place()

    def wait(
        futures: dict[Future[Any], Part], timeout: float, when: str
    ) -> tuple[list[Future[Any]], list[Future[Any]]]:
        if one.made.handed_in:
            one.made.run_one()
        return [future for future in futures if future.done()], []

    monkeypatch.setattr(workers, "open_executor_provider", lambda config: one)
    monkeypatch.setattr(workers, "wait", wait)
    return one


def parts(n: int, shard: int = 0) -> list[Part]:
    prints = {ITEMS: "0" * 16, SCRIPT: "1" * 16}
    made = Part(part_id="", shard_id=f"s{shard}", source="s", split="train", n_items=1, fingerprints=prints)
    return [replace(made, part_id=f"s-p{shard}{k:05d}") for k in range(n)]


def make_nothing(config: RefreshConfig, stage: str, part: Part) -> PartRecord:
    return RECORD


def fail_in_the_second_shard(config: RefreshConfig, stage: str, part: Part) -> PartRecord:
    if part.shard_id == "s1":
        raise KameError(f"{part.part_id} cannot be made.")
    return RECORD


def die_as_told(config: RefreshConfig, stage: str, part: Part) -> PartRecord:
    """Kills its worker as many times as the file `OUT.kills/PART` says, if there is one."""
    kills = Path(f"{config.out}.kills") / part.part_id
    if kills.exists() and (n_left := int(kills.read_text())):
        kills.write_text(str(n_left - 1))
        os.kill(os.getpid(), signal.SIGKILL)
    return RECORD


def tell_to_die(config: RefreshConfig, part: Part, n_times: int) -> None:
    kills = Path(f"{config.out}.kills") / part.part_id
    kills.parent.mkdir()
    kills.write_text(str(n_times))


def on_cluster(out: Path, **settings: Any) -> RefreshConfig:
    return config_on_doubles(out).model_copy(update={"executor": "dask://nowhere:8786", **settings})


def run(config: RefreshConfig, groups: Sequence[Sequence[Part]], run_one: Any = make_nothing) -> list[str]:
    told: list[str] = []
    with (
        Workers(config, run_one) as them,
        them.begin(SCRIPT, groups, lambda _, part, __: told.append(part.part_id)) as all_,
    ):
        for group in groups:
            all_.finish(group)
    return told


def test_a_window_of_parts_is_handed_in_not_all(place: Place, tmp_path: Path) -> None:
    many = parts(300)
    assert sorted(run(on_cluster(tmp_path), [many])) == [part.part_id for part in many]
    assert place.made.most == PARTS_A_SLOT * N_SLOTS
    place.n_free = 100_000
    run(on_cluster(tmp_path), [parts(MOST_PARTS + 10)])
    assert place.made.most == MOST_PARTS, "the window has an end however large the cluster"


def test_what_is_sent_is_small_with_full_paths(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[RefreshConfig] = []

    def look(config: RefreshConfig, stage: str, part: Part) -> PartRecord:
        seen.append(config)
        return RECORD

    config = on_cluster(Path("out"))
    lexicon = config.script.model_copy(update={"lexicon": "words.tsv"})
    with monkeypatch.context() as patch:
        patch.setattr(pickle, "dumps", lambda *_: b"")  # a function of a test cannot be sent
        run(config.model_copy(update={"script": lexicon}), [parts(1)], look)
    assert (seen[0].out, seen[0].script.lexicon) == (str(tmp_path / "out"), str(tmp_path / "words.tsv"))
    place.made.sizes.clear()
    run(config, [parts(2)])
    assert max(place.made.sizes) < 10_000


def test_shards_are_begun_together_and_each_is_told_of_its_own_fault(place: Place, tmp_path: Path) -> None:
    first, second = parts(3), parts(3, shard=1)
    told: list[str] = []
    with (
        Workers(on_cluster(tmp_path), fail_in_the_second_shard) as them,
        them.begin(SCRIPT, [first, second], lambda _, part, __: told.append(part.part_id)) as all_,
    ):
        all_.finish(first)
        assert place.made.most > len(first), "else the cluster waits for the next shard"
        assert sorted(told) == [part.part_id for part in first]
        with pytest.raises(KameError, match=r"s-p1\d+ cannot be made"):
            all_.finish(second)


def test_a_stage_asks_for_what_the_configuration_says(place: Place, tmp_path: Path) -> None:
    config = on_cluster(tmp_path)
    needs = StageResources(cores=2, memory_gb=3, gpus=0.25)
    run(config.model_copy(update={"resources": config.resources.model_copy(update={SCRIPT: needs})}), [parts(1)])
    assert place.needs == needs


def test_a_cluster_without_fit_workers_is_told(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.n_free = 0
    monkeypatch.setattr(workers, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(place.made, "run_one", lambda: None)
    config = on_cluster(tmp_path)
    impatient = {"resources": config.resources.model_copy(update={"wait_s": 0.0})}
    with pytest.raises(BackendError, match=r"no worker of dask://nowhere:8786 .*memory_gb=1.0.*--set resources.script"):
        run(config.model_copy(update=impatient), [parts(2)])


def test_a_dropped_task_is_the_places_fault(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place.made, "run_one", lambda: place.made.handed_in.pop()[1].cancel())
    with pytest.raises(BackendError, match="The scheduler was lost"):
        run(on_cluster(tmp_path), [parts(2)])


def test_a_worker_that_does_not_share_the_folder_is_told_of_and_does_no_work(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"  # the same path on two machines
    there.mkdir()
    monkeypatch.setattr(workers, "_make_paths_absolute", lambda config: config.model_copy(update={"out": str(there)}))
    with pytest.raises(BackendError, match=rf"{os.uname().nodename} does not see .*{there}.* KAME_SPOOL"):
        run(on_cluster(here), [parts(2)])
    assert not [path for path in here.rglob("*") if path.is_file()]


def test_a_folder_that_cannot_be_written_leaves_no_connection_to_the_cluster(place: Place, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("no folder")
    with pytest.raises(StoreError):
        run(on_cluster(tmp_path / "out"), [parts(2)])
    assert not place.is_open


@pytest.mark.full
def test_parts_whose_local_worker_died_are_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config, many = config_on_doubles(tmp_path / "out", workers=2), parts(7)
    tell_to_die(config, many[3], MOST_LOSSES)
    assert sorted(run(config, [many[:4], many[4:]], die_as_told)) == [part.part_id for part in many]
    assert caplog.text.count("A worker process died in the stage script") == MOST_LOSSES


@pytest.mark.full
def test_a_part_that_kills_its_local_worker_each_time_ends_the_run_and_is_named(tmp_path: Path) -> None:
    config, many = config_on_doubles(tmp_path / "out", workers=2), parts(5)
    tell_to_die(config, many[3], 10)
    told = rf"of part {many[3].part_id} of script died {MOST_LOSSES + 1} times.*memory"
    with pytest.raises(BackendError, match=told):
        run(config, [many], die_as_told)


@pytest.mark.full
def test_a_local_worker_that_died_while_idle_is_replaced(tmp_path: Path) -> None:
    told: list[str] = []
    with Workers(config_on_doubles(tmp_path / "out", workers=2), make_nothing) as them:
        them.run(SCRIPT, parts(3), lambda _, part, __: told.append(part.part_id))
        for process in multiprocessing.active_children():
            process.kill()
            process.join()
        them.run(SCRIPT, parts(3, shard=1), lambda _, part, __: told.append(part.part_id))
    assert sorted(told) == [part.part_id for part in parts(3) + parts(3, shard=1)]


def test_the_part_with_most_to_do_comes_first(tmp_path: Path) -> None:
    lengths = (3, 9, 1, 6)
    rows = [{"question": "She buys an apple and a pear. " * n + "How many is that?", "answer": str(n)} for n in lengths]
    (tmp_path / "mine.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    columns = {"question": "question", "answer": "answer"}
    mine = SourceConfig(name="mine", path=str(tmp_path / "mine.jsonl"), columns=columns)
    sizes = {"parts": PartConfig(dialogues_per_part=1, parts_per_shard=4), "split": SplitConfig()}
    config = config_on_doubles(tmp_path / "out").model_copy(update={"sources": [mine], **sizes})
    started: list[Part] = []

    def note(config: RefreshConfig, stage: str, part: Part) -> PartRecord:
        started.append(part)
        return RECORD

    planned = make_plan(config).parts
    with Workers(config, note) as them:
        them.run(SCRIPT, planned, lambda *_: None)
    runner = Runner(Store(config.out))
    sizes_started = [runner.read_finished(part, ITEMS).n_bytes for part in started]
    assert len(set(sizes_started)) == len(lengths)
    assert sizes_started == sorted(sizes_started, reverse=True)
    assert [part.part_id for part in started] != [part.part_id for part in planned], "else it shows nothing"


def test_what_dead_workers_left_half_written_is_swept(place: Place, tmp_path: Path) -> None:
    half = tmp_path / "x.parquet.0.kame-writing"
    half.write_bytes(b"half")
    run(on_cluster(tmp_path), [parts(1)])
    assert not half.exists()


def test_a_machine_that_would_make_something_else_refuses(tmp_path: Path) -> None:
    config = config_on_doubles(tmp_path / "out")
    part = make_plan(config).parts[0]
    other = config.model_copy(update={"seed": 1})  # stands for another version of the code
    told = f"{os.uname().nodename} would make a different script of part {part.part_id}"
    with pytest.raises(BackendError, match=told):
        run_on_part(other, SCRIPT, part)
    assert Runner(Store(config.out)).read_record(part, SCRIPT) is None


@pytest.mark.parametrize("wrong", ["dask", "dask://host", "ray://:1", "spark://host:1", "dask://a b:1", "local:2"])
def test_an_executor_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(ValidationError, match="use local, dask://HOST:PORT or ray://HOST:PORT"):
        RefreshConfig(executor=wrong)


@pytest.mark.parametrize(("kind", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_a_missing_package_is_told_with_its_extra_before_any_work(
    kind: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"pipelines.run.{kind}_cluster", raising=False)
    config = on_cluster(tmp_path / "out").model_copy(update={"executor": f"{kind}://127.0.0.1:1"})
    with pytest.raises(BackendError, match=rf"pip install 'kame-pipeline\[{kind}\]'"), Workers(config):
        pass


@pytest.mark.full
def test_an_interrupt_ends_a_program_that_waits_for_a_scheduler() -> None:
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    program = "import sys; from pipelines.run.dask_cluster import DaskCluster; DaskCluster(sys.argv[1])"
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        waiting = subprocess.Popen([sys.executable, "-c", program, address], stderr=subprocess.PIPE, text=True)
        connection, _ = nobody.accept()
        with connection:
            waiting.send_signal(signal.SIGINT)
            _, said = waiting.communicate()
    assert waiting.returncode == -signal.SIGINT
    assert "Exception ignored" not in said, "the client waited a minute for nobody, after the program's end"
