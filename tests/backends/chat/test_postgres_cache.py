"""The cache of answers in PostgreSQL: the same answers as in a file, shared, and plain errors of a lost server."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from backends.chat.batch import BatchStore
from backends.chat.budget import Spending, list_spending, set_run_id
from backends.chat.cache import StoredReply, make_reply_key, make_request_id
from backends.chat.double import DoubleEngine
from backends.chat.postgres_cache import open_reply_cache
from backends.chat.protocol import Endpoint
from data_schemas.config import BudgetConfig, ChatConfig, RefreshConfig
from data_schemas.errors import BackendError, BudgetError, ConfigError, StoreError
from flows.settings import validate_settings
from tests.support.refreshing import Bench, assert_one_message

pytestmark = pytest.mark.full

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
ENDPOINT = Endpoint("embedded", "http://127.0.0.1:1/v1", "model", "digest")
REPLY = StoredReply("two apples", 10, None, 2, "stop", True, "model-1", "fp")


class Cluster:
    """A PostgreSQL server on a Unix socket in a new folder, run by the user `postgres` if we are root."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.run("initdb", "-D", f"{folder}/data", "-U", "kame", "-A", "trust", "--no-sync")
        self.start()
        self.url = f"postgresql://kame@/postgres?host={folder}"

    def run(self, program: str, *arguments: str) -> None:
        prefix = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        command = [*prefix, str(BINARIES[-1].with_name(program)), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60, cwd=self._folder)

    def start(self) -> None:
        options = f"-k {self._folder} -c listen_addresses= -c fsync=off"
        self.run("pg_ctl", "-D", f"{self._folder}/data", "-l", f"{self._folder}/log", "-w", "-o", options, "start")

    def stop(self) -> None:
        self.run("pg_ctl", "-D", f"{self._folder}/data", "-m", "immediate", "-w", "stop")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    if not BINARIES:
        pytest.skip("needs PostgreSQL's server: apt-get install postgresql")
    pytest.importorskip("psycopg")
    folder = Path(tempfile.mkdtemp(prefix="kame-pg-", dir="/tmp"))  # a socket's path must be short
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
    server = Cluster(folder)
    yield server
    server.stop()
    shutil.rmtree(folder)


def make_key(question: str) -> str:
    return make_reply_key(ENDPOINT, {"question": question}, 0)


def test_the_first_answer_is_kept_for_all(cluster: Cluster) -> None:
    key = make_key("shared")
    with open_reply_cache(cluster.url) as mine, open_reply_cache(cluster.url) as other:
        assert mine.get(key) is None
        assert mine.put(key, REPLY, ENDPOINT) == REPLY
        assert other.put(key, replace(REPLY, text="another"), ENDPOINT) == REPLY == other.get(key)


def test_many_writers_open_and_write_at_once(cluster: Cluster) -> None:
    keys = [make_key(f"at once {index}") for index in range(20)]

    def write(name: int) -> list[StoredReply]:
        with open_reply_cache(cluster.url) as cache:
            return [cache.put(key, replace(REPLY, text=f"by {name}"), ENDPOINT) for key in keys]

    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(write, range(8)))
    assert all(each == written[0] for each in written)


def test_forgotten_answers_are_deleted_and_no_others(cluster: Cluster) -> None:
    gone, kept = make_key("gone"), make_key("kept")
    with open_reply_cache(cluster.url) as cache:
        for key in (gone, kept):
            cache.put(key, REPLY, ENDPOINT)
        n_before = len(cache)
        cache.forget([make_request_id(gone)])
        assert (cache.get(gone), cache.get(kept), len(cache)) == (None, REPLY, n_before - 1)


async def test_a_run_on_two_machines_has_one_budget(cluster: Cluster) -> None:
    budget = BudgetConfig(tokens=30)
    with set_run_id("two machines"), open_reply_cache(cluster.url) as mine, open_reply_cache(cluster.url) as other:
        for cache in (mine, other):
            Spending(cache, ENDPOINT, None, budget).add(REPLY)
        (model,) = list_spending(mine, "two machines")
        assert (model.n_requests, model.n_tokens_in, model.n_tokens_cached, model.usd) == (2, 20, None, None)
        assert model.answered_by == {"model-1": 2}
        with pytest.raises(BudgetError):
            async with Spending(other, ENDPOINT, None, budget).reserve_cost({"messages": [], "max_tokens": 10}):
                pass


def test_open_batches_belong_to_one_process(cluster: Cluster) -> None:
    with open_reply_cache(cluster.url) as mine, open_reply_cache(cluster.url) as other:
        batches = BatchStore(mine, ENDPOINT)
        batches.claim()
        with pytest.raises(BackendError, match="Another process waits"):
            BatchStore(other, ENDPOINT).claim()
        opened = batches.record_batch(batches.record_upload("file", ["key"]), "batch")
        assert BatchStore(other, ENDPOINT).list_open_batches() == [opened]
        batches.remove(opened)
        batches.release()
        BatchStore(other, ENDPOINT).claim()


def test_a_newer_format_is_refused(cluster: Cluster) -> None:
    with open_reply_cache(cluster.url) as cache:
        cache.run("UPDATE answer_cache SET format = format + 1")
        try:
            with pytest.raises(StoreError, match="newer version"):
                open_reply_cache(cluster.url)
        finally:
            cache.run("UPDATE answer_cache SET format = format - 1")


def test_a_lost_server_is_an_error_that_resumes(cluster: Cluster) -> None:
    key = make_key("lost")
    with open_reply_cache(cluster.url) as cache:
        cache.put(key, REPLY, ENDPOINT)
        cluster.stop()
        try:
            for act in (lambda: cache.get(key), lambda: open_reply_cache(cluster.url)):
                with pytest.raises(BackendError, match="run again"):
                    act()
        finally:
            cluster.start()
    with open_reply_cache(cluster.url) as cache:
        assert cache.get(key) == REPLY


@pytest.mark.parametrize("url", ["postgresql://u:hidden@h/d", "postgresql://u@h/d?password=hidden", "mysql://h/d"])
def test_a_url_with_a_password_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ConfigError, match="cache URL") as caught:
        validate_settings(RefreshConfig, {"sources": [], "cache_url": url})
    assert "hidden" not in str(caught.value)


def test_a_server_that_is_not_there_is_reported_before_any_speech(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    engine = DoubleEngine(ChatConfig())
    result = bench.refresh_by(engine, "--set", "cache_url=postgresql://me@127.0.0.1:1/kame")
    assert_one_message(result, 4, "The answer cache postgresql://me@127.0.0.1:1/kame failed")
    assert list(bench.out.rglob("speech-*")) == []


def test_two_datasets_share_what_was_paid_for(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "hidden")
    n_requests = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        bench, engine = Bench(tmp_path / name), DoubleEngine(ChatConfig())
        result = bench.refresh_by(engine, "--set", f"cache_url={cluster.url}")
        assert result.exit_code == 0, result.stderr
        n_requests.append(len(engine.requests))
        assert not (bench.out / ".store" / "answers.sqlite").exists()
        records = [path.read_text() for path in (bench.out / "runs").iterdir()]
        assert any(cluster.url in each for each in records)
        assert not any("hidden" in each for each in [*records, result.output, result.stderr])
    assert n_requests[0] > 0 == n_requests[1]
