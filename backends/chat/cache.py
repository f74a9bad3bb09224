"""Reply cache: stores the answers of chat models on disk, so that no request is sent twice.

SQLite in WAL mode: an answer is durable once `put` returns, whatever signal ends the process (a power failure may lose
the last few). Several processes and threads may share a file on a local disk; SQLite's locks do not work on network
file systems. A `put` takes about 0.1 ms and a `get` less, so the event loop calls both without a thread. (diskcache
also uses SQLite, but pickles its values and evicts old ones, which must not happen to answers.)

The same file stores the cost of each run (`budget.py`) and the open batches (`batch.py`). The statements of all three
are read by PostgreSQL too (`postgres_cache.py`).
"""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from filelock import FileLock, Timeout

from backends.chat.protocol import Endpoint
from data_schemas import ids
from data_schemas.errors import StoreError

FORMAT = 5
"""Version of the tables, stored in the file's `user_version`. Older files lack columns of `ADDED_COLUMNS` or the table
`answerers`, or have 0 where the number of tokens from a server's cache was not reported."""
N_ID_DIGITS = 20
"""Hexadecimal digits of the key that form a request's id."""
LOCK_WAIT_S = 30.0
"""Timeout for the lock while another process writes; a write takes a fraction of a millisecond."""
LONGEST_PAUSE_S = 0.02
"""Maximum random pause between two attempts to set the journal mode."""

CREATE_TABLES = (
    """
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, text TEXT NOT NULL, n_tokens_in INTEGER NOT NULL, n_tokens_cached INTEGER,
    n_tokens_out INTEGER NOT NULL, endpoint TEXT NOT NULL, model TEXT NOT NULL
) WITHOUT ROWID
""",
    """
CREATE TABLE IF NOT EXISTS spending (
    run TEXT NOT NULL, endpoint TEXT NOT NULL, model TEXT NOT NULL, n_requests INTEGER NOT NULL,
    n_tokens_in INTEGER NOT NULL, n_tokens_cached INTEGER, n_tokens_out INTEGER NOT NULL, usd REAL,
    PRIMARY KEY (run, endpoint, model)
) WITHOUT ROWID
""",
    """
CREATE TABLE IF NOT EXISTS batches (
    file_id TEXT PRIMARY KEY, batch_id TEXT, endpoint TEXT NOT NULL, keys TEXT NOT NULL
) WITHOUT ROWID
""",
    """
CREATE TABLE IF NOT EXISTS answerers (
    run TEXT NOT NULL, endpoint TEXT NOT NULL, model TEXT NOT NULL, answered_by TEXT NOT NULL,
    system_fingerprint TEXT NOT NULL, n_requests INTEGER NOT NULL,
    PRIMARY KEY (run, endpoint, model, answered_by, system_fingerprint)
) WITHOUT ROWID
""",
)
ADDED_COLUMNS = (
    ("replies", "finish_reason", "TEXT"),
    ("replies", "is_estimated", "INTEGER NOT NULL DEFAULT 0"),
    ("replies", "answered_by", "TEXT"),
    ("replies", "system_fingerprint", "TEXT"),
    ("spending", "n_estimated", "INTEGER NOT NULL DEFAULT 0"),
    ("batches", "model", "TEXT NOT NULL DEFAULT ''"),
)
"""Columns that were added in later versions, by table."""
_GET = """
SELECT text, n_tokens_in, n_tokens_cached, n_tokens_out, finish_reason, is_estimated, answered_by, system_fingerprint
FROM replies WHERE key = ?
"""
_PUT = """
INSERT INTO replies (
    key, text, n_tokens_in, n_tokens_cached, n_tokens_out, finish_reason, is_estimated, answered_by, system_fingerprint,
    endpoint, model
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING
"""

FORGET = "DELETE FROM replies WHERE key >= ? AND key < ?"


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A chat model's answer including its thoughts, with its input tokens, those from the server's prefix cache (None:
    not reported), and its output tokens.

    `finish_reason` is the server's reason for the end of the answer; `is_estimated` says that the token counts are
    estimates because the server did not report them. `answered_by` and `system_fingerprint` are the server's names for
    the model that answered and its state.
    """

    text: str
    n_tokens_in: int
    n_tokens_cached: int | None
    n_tokens_out: int
    finish_reason: str | None = None
    is_estimated: bool = False
    answered_by: str | None = None
    system_fingerprint: str | None = None


def make_reply_key(endpoint: Endpoint, payload: dict[str, Any], attempt: int) -> str:
    """Makes an answer's cache key, 64 hexadecimal digits of all that determines it except the server's address."""
    return ids.digest("reply", endpoint.name, endpoint.model, endpoint.model_digest, payload, attempt, n_hex=64)


def make_request_id(key: str) -> str:
    """Makes a request's id from its key; it is the same on every machine."""
    return key[:N_ID_DIGITS]


def bound_keys(request_ids: Iterable[str]) -> list[tuple[str, str]]:
    """Returns the range of keys (end exclusive) that begin with each request id; keys are hexadecimal."""
    return [(each, f"{each}g") for each in request_ids]


class ReplyCache:
    """The reply cache in one SQLite file, `path`, which is created if it does not exist.

    Raises:
        StoreError: the file cannot be opened, is damaged or has a newer format (all methods: or the disk is full).
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.place = str(path)
        lock = Path(f"{path}.batches.lock").resolve()
        self._lock = FileLock(lock, timeout=0, is_singleton=True, thread_local=False)  # one a process and path
        with self._translate_errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                self.path, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self) -> None:
        """Sets the file's modes, and creates or migrates its tables; raises StoreError if its format is newer."""
        found: int = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if found > FORMAT:
            raise StoreError(
                f"The answer cache {self.path} has format {found}; this version reads up to {FORMAT}.",
                "Use the newer version, or another file.",
            )
        self._enable_write_ahead_log()
        self._connection.execute("PRAGMA synchronous = NORMAL")
        if found < FORMAT:
            self._migrate()

    def _enable_write_ahead_log(self) -> None:
        """Enables WAL mode, with retries: SQLite rejects concurrent attempts without waiting for its timeout."""
        from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random

        Retrying(
            retry=retry_if_exception(_is_busy),
            stop=stop_after_delay(LOCK_WAIT_S),
            wait=wait_random(max=LONGEST_PAUSE_S),
            reraise=True,
        )(self._connection.execute, "PRAGMA journal_mode = WAL")

    def _migrate(self) -> None:
        """Creates or migrates the tables of a new or older file, and keeps its answers.

        In files of an old format, 0 tokens from a server's cache become NULL: the number was not reported.
        """
        self._connection.execute("PRAGMA secure_delete = ON")  # copied data must not remain at its old place (`forget`)
        self._connection.execute("BEGIN IMMEDIATE")  # another process may migrate it too
        outdated = [name for name in ("replies", "spending") if self._is_cached_count_required(name)]
        for name in outdated:
            self._connection.execute(f"ALTER TABLE {name} RENAME TO outdated_{name}")
        for table in CREATE_TABLES:
            self._connection.execute(table)
        for name, column, kind in ADDED_COLUMNS:
            if column not in self._list_columns(name):
                self._connection.execute(f"ALTER TABLE {name} ADD COLUMN {column} {kind}")
        for name in outdated:
            columns = ", ".join(self._list_columns(f"outdated_{name}"))
            values = columns.replace("n_tokens_cached", "nullif(n_tokens_cached, 0)")
            self._connection.execute(f"INSERT INTO {name} ({columns}) SELECT {values} FROM outdated_{name}")  # noqa: S608
            self._connection.execute(f"DROP TABLE outdated_{name}")
        self._connection.execute(f"PRAGMA user_version = {FORMAT}")
        self._connection.execute("COMMIT")

    def _list_columns(self, table: str) -> dict[str, bool]:
        """Lists a table's columns with whether they are NOT NULL; empty for a table that does not exist."""
        return {row[1]: bool(row[3]) for row in self._connection.execute(f"PRAGMA table_info({table})")}

    def _is_cached_count_required(self, table: str) -> bool:
        """Returns whether a table's column `n_tokens_cached` is NOT NULL, as in files of an old format."""
        return self._list_columns(table).get("n_tokens_cached", False)

    def get(self, key: str) -> StoredReply | None:
        """Returns the answer stored under a key (`make_reply_key`), or None."""
        rows = self.run(_GET, (key,))
        if not rows:
            return None
        text, n_in, n_cached, n_out, finish_reason, is_estimated, *who = rows[0]
        return StoredReply(text, n_in, n_cached, n_out, finish_reason, bool(is_estimated), *who)

    def put(self, key: str, reply: StoredReply, endpoint: Endpoint) -> StoredReply:
        """Stores an answer and returns the stored one, which is another process's if that was faster."""
        text, n_in, n_cached, n_out, finish_reason, is_estimated, *who = astuple(reply)
        counts = (n_in, n_cached, n_out, finish_reason, int(is_estimated))
        self.run(_PUT, (key, text, *counts, *who, endpoint.name, endpoint.model))
        return self.get(key) or reply

    def forget(self, request_ids: Iterable[str]) -> None:
        """Erases the answers to some requests, which may contain what a user said, without a trace in the file.

        Another process that is reading the file at this moment delays this until its last `close`.
        """
        with self._translate_errors():
            self._connection.execute("PRAGMA secure_delete = ON")
            self._connection.executemany(FORGET, bound_keys(request_ids))
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the log of changes holds them until then

    def run(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Executes an SQL statement and returns its rows, empty if it has none; changes are on disk when it returns."""
        with self._translate_errors():
            return self._connection.execute(statement, parameters).fetchall()

    def try_lock(self) -> bool:
        """Locks the open batches for this process, and returns False if another process holds the lock.

        Each call that returns True needs a call of `unlock`.
        """
        try:
            self._lock.acquire()
        except Timeout:
            return False
        return True

    def unlock(self) -> None:
        """Releases what `try_lock` locked."""
        self._lock.release()

    def close(self) -> None:
        """Closes the file; SQLite's write-ahead log is merged into it unless another process has it open."""
        with self._translate_errors():
            self._connection.close()

    def __len__(self) -> int:
        """Returns the number of stored answers."""
        return int(self.run("SELECT count(*) FROM replies")[0][0])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Converts errors of SQLite and of the file system in the block to `StoreError`."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"The answer cache {self.path} failed: {error}.", _choose_remedy(error)) from error


def _is_busy(error: BaseException) -> bool:
    """Returns whether an error says that another process holds SQLite's lock."""
    return _get_error_code(error) == sqlite3.SQLITE_BUSY


def _get_error_code(error: BaseException) -> int:
    """Returns SQLite's primary error code; the rest of an extended code says where the error happened."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _choose_remedy(error: Exception) -> str:
    """Returns what to do about an error of SQLite or of the file."""
    code = _get_error_code(error)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return "Restore the file from a copy, or move it away and run again: its answers will then be requested again."
    if code == sqlite3.SQLITE_FULL:
        return "Free some disk space and run again: all answers stored before are kept."
    if code == sqlite3.SQLITE_BUSY:
        return f"Another process has locked it for {LOCK_WAIT_S:.0f} s; stop that process, then run again."
    return "Check that the folder is on a local disk and can be written to, then run again: stored answers are kept."
