"""Reply cache in a PostgreSQL database, shared by several machines (`cache_url`): the same tables as those of the file.

The URL holds no password, because records and messages have it: libpq reads PGPASSWORD or ~/.pgpass. Each statement is
a transaction of its own. A `get` waits for the network, which takes less than a millisecond within one site.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from backends.chat.cache import ADDED_COLUMNS, CREATE_TABLES, FORGET, FORMAT, ReplyCache, bound_keys
from data_schemas.errors import BackendError, StoreError

CONNECT_WAIT_S = 10
"""Timeout of a connection attempt."""
_LOCK = 0x6B616D65
"""Key of the advisory lock (\"kame\"): number 0 while tables are created, 1 for the open batches."""


class PostgresReplyCache(ReplyCache):
    """The reply cache in the PostgreSQL database at `url`, whose tables are created if they do not exist.

    Raises:
        BackendError: psycopg is not installed, or the server is unavailable or refuses a statement (all methods).
        StoreError: the tables have a newer format.
    """

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise BackendError(
                f"The answer cache {url} needs psycopg, which cannot be imported ({error}).",
                "Install it: pip install 'kame-pipeline[postgres]'.",
            ) from error
        self.place = url
        self._error = psycopg.Error
        with self._translate_errors():
            self._server = psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_WAIT_S)
        try:
            with self._translate_errors(), self._server.transaction():
                self._create_tables()
        except BaseException:
            self._server.close()
            raise

    def _create_tables(self) -> None:
        """Creates what is missing of the tables, one process at a time; raises StoreError if they are newer."""
        self.run("SELECT pg_advisory_xact_lock(?, 0)", (_LOCK,))
        self.run("CREATE TABLE IF NOT EXISTS answer_cache (format INTEGER NOT NULL)")
        found = self.run("SELECT format FROM answer_cache")
        if found and found[0][0] > FORMAT:
            raise StoreError(
                f"The answer cache {self.place} has format {found[0][0]}; this version reads up to {FORMAT}.",
                "Use the newer version, or another database.",
            )
        if found and found[0][0] == FORMAT:
            return
        for table in CREATE_TABLES:
            self.run(_translate_types(table.replace("WITHOUT ROWID", "")))
        for name, column, kind in ADDED_COLUMNS:
            self.run(f"ALTER TABLE {name} ADD COLUMN IF NOT EXISTS {column} {_translate_types(kind)}")
        self.run("DELETE FROM answer_cache")
        self.run("INSERT INTO answer_cache VALUES (?)", (FORMAT,))

    def forget(self, request_ids: Iterable[str]) -> None:
        """Deletes the answers to some requests from the database; its backups and logs are the administrator's."""
        with self._translate_errors(), self._server.transaction(), self._server.cursor() as cursor:
            cursor.executemany(FORGET.replace("?", "%s").encode(), bound_keys(request_ids))
        self.run("VACUUM replies")  # deleted rows stay in the table until then

    def run(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Executes an SQL statement and returns its rows; changes are durable when it returns."""
        with self._translate_errors():
            cursor = self._server.execute(statement.replace("?", "%s").encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def try_lock(self) -> bool:
        """Locks the open batches for this connection, on all machines; False: another one holds the lock."""
        return bool(self.run("SELECT pg_try_advisory_lock(?, 1)", (_LOCK,))[0][0])

    def unlock(self) -> None:
        """Releases what `try_lock` locked; the end of a connection does so too."""
        if not self._server.closed:
            self.run("SELECT pg_advisory_unlock(?, 1)", (_LOCK,))

    def close(self) -> None:
        """Closes the connection."""
        self._server.close()

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Converts errors of psycopg in the block to `BackendError`."""
        try:
            yield
        except self._error as error:
            message = " ".join(str(error).split())
            raise BackendError(
                f"The answer cache {self.place} failed: {message}.",
                "Check that the server runs, that the database exists and that PGPASSWORD or ~/.pgpass has the "
                "password, then run again: the run resumes, and stored answers are kept.",
            ) from error


def open_reply_cache(place: str) -> ReplyCache:
    """Opens the reply cache in a file, or in a PostgreSQL database if `place` is its URL.

    Raises:
        StoreError: as `ReplyCache`.
        BackendError: the database or its library is unavailable.
    """
    return PostgresReplyCache(place) if place.startswith("postgresql://") else ReplyCache(place)


def _translate_types(statement: str) -> str:
    """Translates SQLite's types to those of the same ranges and order."""
    statement = statement.replace("INTEGER", "BIGINT").replace("REAL", "DOUBLE PRECISION")
    return statement.replace("TEXT", 'TEXT COLLATE "C"')
