"""Datasets in a bucket of S3's protocol: the same bytes as in a folder, whatever is killed, slow, cut or in a race."""

import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import fsspec
import pyarrow.dataset
import pytest
import s3fs
from typer.testing import CliRunner

from data_schemas.buckets import Bucket
from data_schemas.config import RefreshConfig
from data_schemas.errors import StoreError
from data_schemas.manifest import DATA, DatasetCounts, ShardEntry, make_manifest
from data_schemas.reader import DatasetReader
from data_schemas.store import Store
from flows.cli.app import app
from flows.runs.refresh import run_refresh
from pipelines.quality.check import check
from pipelines.run import lease as leases
from pipelines.run.lease import LEASE
from pipelines.run.mirror import SPOOL, Mirror, get_work_folder
from pipelines.run.parts import Part, PartRecord
from pipelines.run.publish import publish, remove_superseded
from tests.support.runs import ENDING_S, ITEMS, Silent, config_on_doubles, contents, start_command
from tests.support.s3_server import S3, Fault, s3_server, use_s3

pytestmark = pytest.mark.full

OUT = "s3://corpora/team/spoken"
STREAM = """
import os, sys, datasets

options = {"endpoint_url": os.environ["AWS_ENDPOINT_URL"]}
files = f"{sys.argv[1]}/data/*.parquet"
found = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True, storage_options=options)
print(*(row["dialogue_id"] for row in found.select_columns(["dialogue_id"])))
"""
LEAST_PIECE = 5 * 2**20
"""Size in bytes of a piece of a multipart upload, the smallest that S3 takes."""
IMPATIENT_S = 1.0
"""How long a client waits for a slow server."""
HERE_ALONE = {".store/answers.sqlite", ".store/lease.json", ".store/mirror.jsonl", "answers"}


class Killed(BaseException):
    """Stands for a kill: nothing of ours takes it for an error."""


class Killer(Silent):
    """Ends a run when so many parts were done by a stage; no more is copied, as after a kill."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stage: str, n_parts: int) -> None:
        self.monkeypatch, self.left = monkeypatch, Counter({stage: n_parts})

    def on_part(self, stage: str, part: Part, record: PartRecord) -> None:
        if stage in self.left:
            self.left[stage] -= 1
            if self.left[stage] <= 0:
                self.monkeypatch.setattr(Mirror, "push", lambda mirror: None)
                raise Killed


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a run in a folder."""
    out = tmp_path_factory.mktemp("whole") / "out"
    run_refresh(config().model_copy(update={"out": str(out)}), Silent())
    return files(contents(out))


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    with s3_server("corpora") as (server, url):
        use_s3(url, monkeypatch)
        move_to_machine(monkeypatch, tmp_path, "first")
        yield server


def move_to_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    """From now on another machine's folder and name are this process's."""
    monkeypatch.setenv(SPOOL, str(tmp_path / name))
    monkeypatch.setattr(platform, "node", lambda: name)


def files(held: dict[str, bytes]) -> dict[str, bytes]:
    return {path: data for path, data in held.items() if path not in HERE_ALONE and not path.startswith("runs/")}


def in_bucket() -> dict[str, bytes]:
    bucket = Bucket(OUT)
    return files({path: bucket.read_bytes(path) for path in bucket.list_states()})


def config(**changes: object) -> RefreshConfig:
    small = config_on_doubles(Path("out"), sources=(ITEMS / "gsm8k.jsonl",))
    return small.model_copy(update={"out": OUT, "limit": 4, **changes})


def test_a_run_into_a_bucket_leaves_what_a_run_into_a_folder_leaves(s3: S3, whole: dict[str, bytes]) -> None:
    run_refresh(config(), Silent())
    puts = [path.partition("?")[0].rpartition("spoken/")[2] for method, path in s3.asked if method == "PUT"]
    shown = [path for path in puts if path.startswith(("data/", "oracles/", "rejects/"))]
    assert puts.index("dataset.json") > max(map(puts.index, shown)), "the manifest is the last of what readers need"
    assert in_bucket() == whole
    there = set(Bucket(OUT).list_states())
    assert not [path for path in there if "answers" in path or path.endswith((".chat.jsonl", "/lock"))]
    assert check(OUT) == []
    s3.asked.clear()
    run_refresh(config(), Silent())
    put = {path.rpartition("spoken/")[2] for method, path in s3.asked if method in ("PUT", "POST", "DELETE")}
    assert not [path for path in put if path.startswith(("data/", "oracles/", ".store/parts/"))]
    assert in_bucket() == whole


@pytest.mark.parametrize(("stage", "n_parts"), [("script", 1), ("oracle", 2)])
def test_another_machine_goes_on_where_one_was_killed(
    s3: S3, whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, n_parts: int
) -> None:
    with monkeypatch.context() as until_killed, pytest.raises(Killed):
        run_refresh(config(), Killer(until_killed, stage, n_parts))
    left = Bucket(OUT).list_states()
    assert "dataset.json" not in left
    assert [path for path in left if "/items-" in path and path.endswith(".json")]
    move_to_machine(monkeypatch, tmp_path, "second")
    assert not Path(get_work_folder(OUT)).exists()
    run_refresh(config(), Silent())
    assert in_bucket() == whole
    assert check(OUT) == []


def test_a_second_machine_makes_nothing_again(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_refresh(config(), Silent())
    before = in_bucket()
    move_to_machine(monkeypatch, tmp_path, "second")
    s3.asked.clear()
    record, _, _ = run_refresh(config(), Silent())
    assert record.parts == []
    assert record.chat.n_requests == 0
    assert in_bucket() == before


@pytest.mark.parametrize("fault", ["500", "503", "cut", "cut_after", "slow"])
def test_a_server_that_fails_now_and_then_changes_nothing(
    s3: S3, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    if fault == "slow":
        monkeypatch.setitem(fsspec.config.conf, "s3", {"config_kwargs": {"read_timeout": IMPATIENT_S}})
    failed: set[tuple[str, str]] = set()
    every = 40 if fault == "slow" else 9

    def decide(method: str, path: str) -> Fault | None:
        """The first request of its kind for each path fails."""
        if (method, path) in failed or "uploadId" in path:
            return None
        failed.add((method, path))
        return fault if len(failed) % every == 0 or path.endswith(("dataset.json", "lease.json")) else None

    s3.decide = decide
    run_refresh(config(), Silent())
    s3.decide = lambda method, path: None
    assert in_bucket() == whole
    assert check(OUT) == []


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize(("failing", "fault"), [("partNumber=2", "500"), ("partNumber=2", "cut"), ("uploadId=", "500")])
def test_a_large_file_whose_upload_fails_is_absent_or_as_it_was(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool, failing: str, fault: Fault
) -> None:
    """The second of three pieces fails for good, or the request that makes them one object."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr("s3fs.core.calculate_chunksize", lambda size, chunksize: LEAST_PIECE)
    bucket, local = Bucket(OUT), tmp_path / "large"
    local.write_bytes(b"new" * LEAST_PIECE)
    if is_there:
        bucket.put("large", b"old", None)
    failing_method = "PUT" if "part" in failing else "POST"
    s3.decide = lambda method, path: fault if failing in path and method == failing_method else None
    with pytest.raises(StoreError, match=f"Cannot write {OUT}/large"):
        bucket.upload("large", str(local))
    s3.decide = lambda method, path: None
    assert bucket.list_states().keys() == ({"large"} if is_there else set())
    assert not is_there or bucket.read_bytes("large") == b"old"
    s3.asked.clear()
    bucket.upload("large", str(local))
    assert sum("partNumber=" in path for _, path in s3.asked) == 3
    assert bucket.read_bytes("large") == local.read_bytes()


def test_an_upload_says_whether_the_file_or_the_bucket_is_missing(s3: S3, tmp_path: Path) -> None:
    local = tmp_path / "shard"
    with pytest.raises(StoreError, match=f"Cannot upload {local}: there is no such file"):
        Bucket(OUT).upload("data/shard", str(local))
    local.write_bytes(b"x")
    with pytest.raises(StoreError, match=r"bucket of s3://nowhere/team does not exist.*Create"):
        Bucket("s3://nowhere/team").upload("data/shard", str(local))


def test_a_download_that_fails_names_the_bucket(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    Bucket(OUT).put("data/shard", b"x", None)
    here = Store(str(tmp_path / "here"))
    s3.decide = lambda method, path: "500" if method == "GET" and "/data/shard" in path else None
    with (
        leases.hold_lease(Bucket(OUT)) as lease,
        Mirror(Bucket(OUT), here.root, lease) as mirror,
        pytest.raises(StoreError, match=f"Cannot read {OUT}/data/shard: .*network"),
    ):
        mirror.pull()
    assert here.list_files("data") == []


def test_a_bucket_that_stays_away_ends_the_run_and_the_next_one_publishes(
    s3: S3, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    s3.decide = lambda method, path: "500" if method == "PUT" and "/data/" in path else None
    with pytest.raises(StoreError, match=r"Cannot write s3://corpora/team/spoken/data/.*run the same command again"):
        run_refresh(config(), Silent())
    assert not Bucket(OUT).exists("dataset.json")
    s3.decide = lambda method, path: None
    run_refresh(config(), Silent())
    assert in_bucket() == whole


def test_while_one_run_writes_another_is_told_who_does(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, bytes]
) -> None:
    told = []

    class Interrupting(Silent):
        def begin_stage(self, name: str, n_items: int) -> None:
            if name == "speech":
                with monkeypatch.context() as other:
                    move_to_machine(other, tmp_path, "second")
                    with pytest.raises(StoreError) as refused:
                        run_refresh(config(), Silent())
                told.append(str(refused.value))

    run_refresh(config(), Interrupting())
    assert len(told) == 1
    assert re.search(r"process \d+ on first.* Wait for it", told[0])
    assert in_bucket() == whole


@pytest.mark.parametrize(("is_first", "is_late"), [(True, False), (False, True)])
def test_of_two_publishers_one_wins_and_the_other_says_so(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, bytes], is_first: bool, is_late: bool
) -> None:
    """The lease fails, as where a machine slept through it: the manifest's condition alone decides."""
    if is_late:  # the other publishes when this one has looked, and copies
        monkeypatch.setattr(Mirror, "_check_manifest", lambda mirror, state: None)
    if not is_first:
        run_refresh(config(limit=2), Silent())

    def publish_after_another(*arguments: object) -> object:
        monkeypatch.setattr("flows.runs.refresh.publish", publish)
        made = publish(*arguments)  # type: ignore[arg-type]
        with monkeypatch.context() as other:
            move_to_machine(other, tmp_path, "second")
            Bucket(OUT).remove(LEASE)
            run_refresh(config(seed=0), Silent())
        return made

    monkeypatch.setattr("flows.runs.refresh.publish", publish_after_another)
    monkeypatch.setattr("pipelines.run.lease.Lease.check", lambda self: None)
    with pytest.raises(StoreError, match=r"Another run has published s3://corpora.*Run the same command again"):
        run_refresh(config(seed=1), Silent())
    assert check(OUT) == []
    shown = ("data/", "dataset.json", "README.md")
    theirs = in_bucket()
    if is_first:
        found, expected = ({p: d for p, d in each.items() if p.startswith(shown)} for each in (theirs, whole))
        assert found == expected
    run_refresh(config(seed=1), Silent())
    assert check(OUT) == []
    assert in_bucket()["dataset.json"] != theirs["dataset.json"]


@pytest.mark.slow
def test_of_two_commands_that_start_at_once_one_publishes_and_the_other_says_who_does(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, bytes]
) -> None:
    both, n_takers = threading.Barrier(2, timeout=ENDING_S), itertools.count()

    def wait_for_both(method: str, path: str) -> None:
        """Both have found no lease when the first of them takes it."""
        if method == "PUT" and path.endswith(LEASE) and next(n_takers) < 2:
            both.wait()

    s3.decide = wait_for_both
    started = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(SPOOL, str(tmp_path / name / "spool"))
        started.append(start_command(config(), tmp_path / name))
    said = {process.returncode: output for process in started for output in [process.communicate()[0]]}
    assert set(said) == {0, 5}
    assert f"Another run has just begun to write {OUT}" in said[5].replace("\n", " ")
    assert in_bucket() == whole
    assert check(OUT) == []
    run_refresh(config(), Silent())
    assert in_bucket() == whole


def test_a_run_whose_lease_was_taken_writes_no_more(s3: S3, tmp_path: Path) -> None:
    bucket, here = Bucket(OUT), Store(str(tmp_path / "here"))
    lease = leases.Lease(bucket)
    lease.take()
    lease.renew()
    lease.check()
    bucket.remove(LEASE)
    leases.Lease(bucket).take()
    lease.renew()
    here.write_bytes(".store/evaluation.json", b"[]")
    with (
        Mirror(bucket, here.root, lease) as mirror,
        pytest.raises(StoreError, match=r"no longer holds .*: another run has begun"),
    ):
        mirror.push()
    lease.release()
    assert set(bucket.list_states()) == {LEASE}
    with pytest.raises(StoreError, match="Another run is writing"):
        leases.Lease(bucket).take()


def publish_one_shard(bucket: Bucket, here: Store, lease: leases.Lease, digit: str) -> None:
    """Publishes a dataset of one shard from a folder, as a run does."""
    lease.take()
    with Mirror(bucket, here.root, lease) as mirror:
        mirror.pull()
        shard = here.write_bytes(f"data/train-s-{digit * 16}.parquet", digit.encode())
        entry = {"path": shard.path, "kind": DATA, "source": "s", "split": "train", "sha256": shard.sha256}
        listed = ShardEntry.model_validate(entry | {"n_rows": 1, "n_bytes": 1})
        manifest = make_manifest([listed], DatasetCounts(dialogues=1, audio_s=1.0, events=0, rejects=0), "v1")
        here.write_bytes("dataset.json", manifest.model_dump_json().encode())
        here.write_bytes("README.md", digit.encode())
        remove_superseded(here, manifest)
        mirror.publish()


@pytest.mark.parametrize("notices", [True, False])
@pytest.mark.parametrize("last", ["dataset.json", "README.md"])
def test_a_publisher_that_was_suspended_removes_nothing_of_the_next_one(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str, notices: bool
) -> None:
    """It sleeps after an upload, and another run publishes meanwhile; its own clock may not show that it slept."""
    bucket, time_s, put = Bucket(OUT), [1_000_000.0], Bucket.put

    def sleep_after_put(self: Bucket, path: str, data: bytes, state: str | None) -> str:
        new_state = put(self, path, data, state)
        if path == last:
            monkeypatch.setattr(Bucket, "put", put)
            if notices:
                time_s[0] += leases.HELD_S + 1
            else:
                bucket.remove(LEASE)
            publish_one_shard(bucket, Store(str(tmp_path / "second")), leases.Lease(bucket, lambda: time_s[0]), "b")
        return new_state

    publish_one_shard(bucket, Store(str(tmp_path / "old")), leases.Lease(bucket, lambda: time_s[0]), "0")
    bucket.remove(LEASE)
    monkeypatch.setattr(Bucket, "put", sleep_after_put)
    with pytest.raises(StoreError, match=rf"The dataset was published in {OUT}, but perhaps not its card"):
        publish_one_shard(bucket, Store(str(tmp_path / "first")), leases.Lease(bucket, lambda: time_s[0]), "a")
    theirs = DatasetReader(OUT).manifest
    assert {path for path in bucket.list_states() if path.startswith("data/")} == {each.path for each in theirs.shards}
    assert bucket.read_bytes("README.md") == bucket.read_bytes(theirs.shards[0].path) == b"b"


def test_a_loser_without_the_lease_removes_no_shard_that_another_run_may_use(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, time_s, put = Bucket(OUT), [1_000_000.0], Bucket.put

    def sleep_before_put(self: Bucket, path: str, data: bytes, state: str | None) -> str:
        if path == "dataset.json":
            monkeypatch.setattr(Bucket, "put", put)
            time_s[0] += leases.HELD_S + 1
            publish_one_shard(bucket, Store(str(tmp_path / "second")), leases.Lease(bucket, lambda: time_s[0]), "b")
            bucket.upload(f"data/train-s-{'a' * 16}.parquet", str(tmp_path / f"first/data/train-s-{'a' * 16}.parquet"))
        return put(self, path, data, state)

    monkeypatch.setattr(Bucket, "put", sleep_before_put)
    with pytest.raises(StoreError, match="Another run has published"):
        publish_one_shard(bucket, Store(str(tmp_path / "first")), leases.Lease(bucket, lambda: time_s[0]), "a")
    assert bucket.exists(f"data/train-s-{'a' * 16}.parquet"), "a third run has uploaded it, and publishes next"


def test_what_one_run_holds_of_a_killed_one_of_this_machine_is_taken_at_once(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, time_s = Bucket(OUT), 1_000_000.0
    leases.Lease(bucket, lambda: time_s).take()
    with pytest.raises(StoreError, match=r"Another run is writing .* run again in 120 s"):
        leases.Lease(bucket, lambda: time_s).take()
    monkeypatch.setattr("psutil.pid_exists", lambda number: False)
    leases.Lease(bucket, lambda: time_s).take()
    move_to_machine(monkeypatch, tmp_path, "second")
    with pytest.raises(StoreError, match="on first"):
        leases.Lease(bucket, lambda: time_s).take()
    leases.Lease(bucket, lambda: time_s + leases.HELD_S).take()


@pytest.mark.parametrize("other", ["BOOT_ID", "PID_NAMESPACE"])
def test_a_run_in_another_container_of_the_same_host_name_is_not_taken_for_dead(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    bucket = Bucket(OUT)
    leases.Lease(bucket).take()
    monkeypatch.setattr("psutil.pid_exists", lambda number: False)  # as in a container, which sees its own processes
    with monkeypatch.context() as there:
        (tmp_path / "namespace").symlink_to("pid:[1]")
        (tmp_path / "boot_id").write_text("another\n")
        there.setattr(leases, other, tmp_path / ("boot_id" if other == "BOOT_ID" else "namespace"))
        with pytest.raises(StoreError, match="Another run is writing"):
            leases.Lease(bucket).take()
    leases.Lease(bucket).take()


def test_others_read_it_where_it_is(s3: S3, tmp_path: Path) -> None:
    run_refresh(config(), Silent())
    reader, fs = DatasetReader(OUT), s3fs.S3FileSystem(skip_instance_cache=True)
    n_dialogues = reader.manifest.counts.dialogues
    assert len(list(reader.iterate_dialogues())) == n_dialogues > 0
    paths = [f"corpora/team/spoken/{entry.path}" for entry in reader.manifest.select_kind(DATA)]
    assert pyarrow.dataset.dataset(paths, filesystem=fs).count_rows() == n_dialogues
    with duckdb.connect() as connection:
        connection.register_filesystem(fs)
        counted = connection.execute(f"SELECT count(*) FROM read_parquet('{OUT}/data/*.parquet')").fetchone()
    assert counted == (n_dialogues,)
    online = os.environ | {"HF_HUB_OFFLINE": "0"}  # offline, `datasets` opens no address, this machine's neither
    read = subprocess.run([sys.executable, "-c", STREAM, OUT], env=online, capture_output=True, text=True, check=True)
    assert set(read.stdout.split()) == {each.dialogue_id for each in reader.iterate_dialogues()}
    for command in (["inspect", OUT, "--json"], ["check", OUT, "--json"]):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
    shown = json.loads(CliRunner().invoke(app, ["inspect", OUT, "--json"]).stdout)
    assert shown["counts"]["dialogues"] == n_dialogues


def test_what_was_removed_from_the_bucket_is_no_longer_here(s3: S3) -> None:
    run_refresh(config(), Silent())
    here = Store(get_work_folder(OUT))
    assert here.exists("dataset.json")
    for path in Bucket(OUT).list_states():
        Bucket(OUT).remove(path)
    shutil.rmtree(Path(here.resolve_path(".store/parts")))
    run_refresh(config(limit=2), Silent())
    assert check(OUT) == []
    assert DatasetReader(OUT).manifest.counts.dialogues <= 4
