"""Answers once given, on disk: what a chat model has said is never asked again.

SQLite in WAL mode: an answer is there for good once `put` returns, whatever signal ends the process (a loss of power
may take the last few). Several processes and threads may share a file on a local disk; SQLite's locks do not work on
network file systems. A `put` takes about 0.1 ms and a `get` less, so the event loop calls both without a thread.
(diskcache is such a SQLite file too, but pickles what it keeps and evicts what grows old; an answer must do neither.)

The same file keeps what each run spent (`budget.py`) and which batches are under way (`batch.py`).
"""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from backends.chat.protocol import Endpoint
from data_schemas import ids
from data_schemas.errors import StoreError

FORMAT = 4
"""Version of the tables, kept in the file's `user_version`. Older ones lack columns of `_ADDED`, or `answerers`, or
have a nought where nobody told how many tokens came from a server's cache."""
N_ID_DIGITS = 20
"""Hexadecimal digits of the key that make a request's id."""
LOCK_WAIT_S = 30.0
"""How long to wait while another process writes; a write takes a fraction of a millisecond."""
LONGEST_PAUSE_S = 0.02
"""Of the random pauses between tries to set the journal's mode, the longest."""

_CREATE = (
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
_ADDED = (
    ("replies", "finish_reason", "TEXT"),
    ("replies", "is_estimated", "INTEGER NOT NULL DEFAULT 0"),
    ("replies", "answered_by", "TEXT"),
    ("replies", "system_fingerprint", "TEXT"),
    ("spending", "n_estimated", "INTEGER NOT NULL DEFAULT 0"),
)
"""Columns that came later, by table."""
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


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A chat model's answer, its thoughts with it, and the tokens it took: read, of those from the server's prefix
    cache (None where it did not tell), and written.

    `finish_reason` is the server's word for why it ends, `is_estimated` whether the tokens are our guess because the
    server did not tell. `answered_by` and `system_fingerprint` are its names for the model that answered and its state.
    """

    text: str
    n_tokens_in: int
    n_tokens_cached: int | None
    n_tokens_out: int
    finish_reason: str | None = None
    is_estimated: bool = False
    answered_by: str | None = None
    system_fingerprint: str | None = None


def reply_key(endpoint: Endpoint, payload: dict[str, Any], attempt: int) -> str:
    """The key of an answer, 64 hexadecimal digits: all that decides it, and not where the model is served."""
    return ids.digest("reply", endpoint.name, endpoint.model, endpoint.model_digest, payload, attempt, n_hex=64)


def request_id(key: str) -> str:
    """A request's id: the head of its key, the same on every machine."""
    return key[:N_ID_DIGITS]


class ReplyCache:
    """The answers in one file, `path`, which is made when it is not there.

    Raises:
        StoreError: the file cannot be opened, is damaged or of a newer format (all methods: or the disk is full).
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        with self._translated():
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
        found: int = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if found > FORMAT:
            raise StoreError(
                f"The answer cache {self.path} has format {found}; this version reads up to {FORMAT}.",
                "Use the newer version, or another file.",
            )
        self._write_ahead()
        self._connection.execute("PRAGMA synchronous = NORMAL")
        if found < FORMAT:
            self._bring_up_to_date()

    def _write_ahead(self) -> None:
        """Sets the journal's mode; of processes that do so at once SQLite refuses all but one, without its time-out."""
        from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random

        Retrying(
            retry=retry_if_exception(_is_busy),
            stop=stop_after_delay(LOCK_WAIT_S),
            wait=wait_random(max=LONGEST_PAUSE_S),
            reraise=True,
        )(self._connection.execute, "PRAGMA journal_mode = WAL")

    def _bring_up_to_date(self) -> None:
        """Makes what is missing in a new or older file, and leaves its answers as they are."""
        self._connection.execute("PRAGMA secure_delete = ON")  # what is copied must not stay where it was (`forget`)
        self._connection.execute("BEGIN IMMEDIATE")  # another process may be at it too
        outdated = [name for name in ("replies", "spending") if self._must_know_cached(name)]
        for name in outdated:
            self._connection.execute(f"ALTER TABLE {name} RENAME TO outdated_{name}")
        for table in _CREATE:
            self._connection.execute(table)
        for name, column, kind in _ADDED:
            if column not in self._columns(name):
                self._connection.execute(f"ALTER TABLE {name} ADD COLUMN {column} {kind}")
        for name in outdated:
            columns = ", ".join(self._columns(f"outdated_{name}"))
            values = columns.replace("n_tokens_cached", "nullif(n_tokens_cached, 0)")
            self._connection.execute(f"INSERT INTO {name} ({columns}) SELECT {values} FROM outdated_{name}")  # noqa: S608
            self._connection.execute(f"DROP TABLE outdated_{name}")
        self._connection.execute(f"PRAGMA user_version = {FORMAT}")
        self._connection.execute("COMMIT")

    def _columns(self, table: str) -> dict[str, bool]:
        """A table's columns, and which of them must have a value; none of a table that is not there."""
        return {row[1]: bool(row[3]) for row in self._connection.execute(f"PRAGMA table_info({table})")}

    def _must_know_cached(self, table: str) -> bool:
        return self._columns(table).get("n_tokens_cached", False)

    def get(self, key: str) -> StoredReply | None:
        """The answer stored under a key (`reply_key`), if there is one."""
        with self._translated():
            row = self._connection.execute(_GET, (key,)).fetchone()
        if row is None:
            return None
        text, n_in, n_cached, n_out, finish_reason, is_estimated, *who = row
        return StoredReply(text, n_in, n_cached, n_out, finish_reason, bool(is_estimated), *who)

    def put(self, key: str, reply: StoredReply, endpoint: Endpoint) -> StoredReply:
        """Stores an answer and returns what stands in the file: the first one, if another process was faster."""
        with self._translated():
            self._connection.execute(_PUT, (key, *astuple(reply), endpoint.name, endpoint.model))
        return self.get(key) or reply

    def forget(self, request_ids: Iterable[str]) -> None:
        """Deletes the answers to some requests, and overwrites them: what somebody said may stand in them."""
        bounds = [(each, f"{each}g") for each in request_ids]  # keys are hexadecimal: all that begin with an id
        with self._translated():
            self._connection.execute("PRAGMA secure_delete = ON")
            self._connection.executemany("DELETE FROM replies WHERE key >= ? AND key < ?", bounds)

    def run(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of one SQL statement, which is on disk when this returns: for the tables beside the answers."""
        with self._translated():
            return self._connection.execute(statement, parameters).fetchall()

    def close(self) -> None:
        """Folds the log into the file and closes it."""
        with self._translated():
            self._connection.close()

    def __len__(self) -> int:
        """How many answers it holds."""
        with self._translated():
            return int(self._connection.execute("SELECT count(*) FROM replies").fetchone()[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"The answer cache {self.path} failed: {error}.", _remedy(error)) from error


def _is_busy(error: BaseException) -> bool:
    return _code_of(error) == sqlite3.SQLITE_BUSY


def _code_of(error: BaseException) -> int:
    """SQLite's code of an error; the rest of an extended code says where it happened."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _remedy(error: Exception) -> str:
    code = _code_of(error)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return "Restore the file from a copy, or move it away and run again: its answers will then be asked for anew."
    if code == sqlite3.SQLITE_FULL:
        return "Free some disk space and run again: all answers stored before are kept."
    if code == sqlite3.SQLITE_BUSY:
        return f"Another process has held it for {LOCK_WAIT_S:.0f} s; end that one, then run again."
    return "Check that the folder is on a local disk and can be written to, then run again: stored answers are kept."
