"""The cache of answers: what is stored stays, across processes, kills and full disks."""

import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.chat.batch import BatchStore, OpenBatch
from backends.chat.budget import list_spending
from backends.chat.cache import ReplyCache, StoredReply, make_reply_key, make_request_id
from backends.chat.protocol import Endpoint
from data_schemas.errors import StoreError

ENDPOINT = Endpoint("embedded", "http://127.0.0.1:1/v1", "model", "digest")
REPLY = StoredReply("two apples", 10, 4, 2)
WRITER = """
import os, signal, sys
from backends.chat.cache import ReplyCache, StoredReply
from backends.chat.protocol import Endpoint
cache = ReplyCache(sys.argv[1])
for index in range(int(sys.argv[2]), int(sys.argv[3])):
    cache.put(f"key {index}", StoredReply(f"answer {index} by {sys.argv[4]}", 1, 0, 1), Endpoint("e", "", "m", ""))
os.kill(os.getpid(), signal.SIGKILL)
"""


def start_writer(path: Path, first: int, end: int, name: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(first), str(end), name])


def test_the_first_answer_stays_also_after_opening_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "replies.sqlite"
    cut = StoredReply("two app", 10, 4, 2, finish_reason="length", is_estimated=True)
    with ReplyCache(path) as mine, ReplyCache(path) as other:
        assert mine.get("key") is None
        assert mine.put("key", REPLY, ENDPOINT) == REPLY
        assert other.put("key", StoredReply("another", 1, 1, 1), ENDPOINT) == REPLY
        assert mine.put("cut", cut, ENDPOINT) == cut
    with ReplyCache(path) as cache:
        assert (cache.get("key"), cache.get("cut"), len(cache)) == (REPLY, cut, 2)


def test_a_file_of_the_first_format_keeps_its_answers_and_takes_new_ones(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    with closing(sqlite3.connect(path)) as old:
        old.execute(
            "CREATE TABLE replies (key TEXT PRIMARY KEY, text TEXT NOT NULL, n_tokens_in INTEGER NOT NULL, "
            "n_tokens_cached INTEGER NOT NULL, n_tokens_out INTEGER NOT NULL, endpoint TEXT NOT NULL, "
            "model TEXT NOT NULL) WITHOUT ROWID"
        )
        old.execute("INSERT INTO replies VALUES ('old', 'two apples', 10, 4, 2, 'e', 'm')")
        old.execute("INSERT INTO replies VALUES ('not told', 'two apples', 10, 0, 2, 'e', 'm')")
        old.execute("PRAGMA user_version = 1")
        old.commit()
    cut = StoredReply("two app", 1, 0, 1, "length")
    with ReplyCache(path) as cache, ReplyCache(path) as other:
        assert cache.get("old") == REPLY
        assert list_spending(cache, "any") == []  # it was made before budgets
        assert cache.get("not told") == replace(REPLY, n_tokens_cached=None)
        assert cache.put("new", cut, ENDPOINT) == cut == other.get("new")
        unknown = replace(cut, n_tokens_cached=None)
        assert cache.put("unknown", unknown, ENDPOINT) == unknown == other.get("unknown")


def test_open_batches_of_a_file_that_names_no_model_of_them_are_found(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    with closing(sqlite3.connect(path)) as old:
        old.execute("CREATE TABLE batches (file_id TEXT PRIMARY KEY, batch_id TEXT, endpoint TEXT, keys TEXT)")
        old.execute("INSERT INTO batches VALUES ('file', 'batch', 'embedded', '[\"key\"]')")
        old.execute("PRAGMA user_version = 4")
        old.commit()
    with ReplyCache(path) as cache:
        assert BatchStore(cache, ENDPOINT).list_open_batches() == [OpenBatch("file", "batch", ("key",))]


def test_two_killed_writers_leave_all_they_stored(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    writers = [start_writer(path, 0, 200, "one"), start_writer(path, 100, 300, "two")]
    assert [writer.wait() for writer in writers] == [-signal.SIGKILL] * 2
    with ReplyCache(path) as cache:
        assert len(cache) == 300
        assert all(cache.get(f"key {index}") is not None for index in range(300))


def test_a_new_file_may_be_opened_by_many_at_once(tmp_path: Path) -> None:
    n_openers = 4
    for index in range(25):
        path, at_once = tmp_path / f"{index}.sqlite", Barrier(n_openers)

        def put_one(name: int, path: Path = path, at_once: Barrier = at_once) -> None:
            at_once.wait()
            with ReplyCache(path) as cache:
                cache.put(f"key {name}", REPLY, ENDPOINT)

        with ThreadPoolExecutor(n_openers) as openers:
            list(openers.map(put_one, range(n_openers)))
        with ReplyCache(path) as cache:
            assert len(cache) == n_openers


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    path.write_bytes(b"not a database " * 100)
    with pytest.raises(StoreError, match="move it away"):
        ReplyCache(path)
    assert path.read_bytes().startswith(b"not a database")


def test_damage_in_the_middle_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    with ReplyCache(path) as cache:
        for index in range(500):
            cache.put(f"key {index}", REPLY, ENDPOINT)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"malformed.*move it away"), ReplyCache(path) as cache:
        cache.get("key 250")


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "replies.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="format 99"):
        ReplyCache(tmp_path / "replies.sqlite")


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="can be written to"):
        ReplyCache(tmp_path / "file" / "replies.sqlite")


@contextmanager
def files_no_larger_than(n_bytes: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_reported_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    stored: list[StoredReply] = []
    with ReplyCache(path) as cache, files_no_larger_than(200_000), pytest.raises(StoreError, match="run again"):
        stored.extend(cache.put(f"key {index}", REPLY, ENDPOINT) for index in range(10_000))
    with ReplyCache(path) as again:
        assert again.get("key 0") == REPLY
        assert again.put("one more", REPLY, ENDPOINT) == REPLY


payloads = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none(), max_size=4)


@given(payloads, payloads, st.integers(0, 3), st.integers(0, 3))
def test_a_key_stands_for_the_payload_and_the_attempt(
    one: dict[str, Any], other: dict[str, Any], first: int, second: int
) -> None:
    same = one == other and first == second
    assert (make_reply_key(ENDPOINT, one, first) == make_reply_key(ENDPOINT, other, second)) == same


@given(payloads)
def test_a_key_does_not_depend_on_order_or_place(payload: dict[str, Any]) -> None:
    turned = dict(reversed(payload.items()))
    elsewhere = replace(ENDPOINT, base_url="http://elsewhere:9/v1")
    assert make_reply_key(ENDPOINT, payload, 0) == make_reply_key(elsewhere, turned, 0)
    assert make_reply_key(ENDPOINT, payload, 0).startswith(make_request_id(make_reply_key(ENDPOINT, payload, 0)))


def test_a_key_depends_on_endpoint_model_and_digest() -> None:
    others = [replace(ENDPOINT, name="b"), replace(ENDPOINT, model="b"), replace(ENDPOINT, model_digest="b")]
    assert len({make_reply_key(each, {}, 0) for each in (ENDPOINT, *others)}) == 4


def test_forgotten_answers_are_gone_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    keys = [make_reply_key(ENDPOINT, {"messages": number}, 0) for number in range(3)]
    with ReplyCache(path) as cache:
        for number, key in enumerate(keys):
            cache.put(key, StoredReply(f"the secret {number}", 1, 0, 1), ENDPOINT)
        cache.forget([make_request_id(keys[1]), "00000"])
        assert [cache.get(key) is not None for key in keys] == [True, False, True]
        content = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert b"the secret 0" in content
    assert b"the secret 1" not in content
