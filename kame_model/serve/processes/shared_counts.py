"""Counts shared by a server's processes: sessions and wrong tokens by address, and the state of the processes.

They are in a SQLite file, which every process opens: SQLite's lock decides between two processes that admit callers of
one address at the same moment. Times are those of `time.monotonic`, one clock for all processes of a machine.
"""

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from kame_model.serve.web.rate_limits import RateLimiter

_LOG = logging.getLogger(__name__)
COUNTS = "counts.sqlite"
"""The file, in the private folder of a server's processes."""
_WAIT_S = 0.5
"""Longest wait for another process's lock: all callers' frames wait with it."""
_MINUTE_S = 60.0
_TABLES = """
CREATE TABLE IF NOT EXISTS sessions (process INTEGER, address TEXT);
CREATE INDEX IF NOT EXISTS sessions_by_address ON sessions (address);
CREATE TABLE IF NOT EXISTS starts (process INTEGER, address TEXT, at_s REAL);
CREATE INDEX IF NOT EXISTS starts_by_address ON starts (address);
CREATE TABLE IF NOT EXISTS allowances (name TEXT, key TEXT, n_left REAL, at_s REAL, PRIMARY KEY (name, key));
CREATE TABLE IF NOT EXISTS processes (number INTEGER PRIMARY KEY, state TEXT, n_deaths INTEGER);
"""

ProcessState = Literal["loading", "serving", "draining", "dead"]
"""loading: it cannot take callers yet · serving · draining: its callers may finish · dead: it is being restarted."""


class SharedCounts:
    """The counts of one server, as one of its processes sees them.

    If the file cannot be read or written later, an error is logged, and this process goes by what it knows itself: the
    other processes have no sessions, and each `SharedAllowance` counts for this process alone. The next call tries the
    file again.

    Args:
        file: shared by all processes; created if it does not exist.
        process: the process id that identifies this process's callers; None: the current one.

    Raises:
        sqlite3.Error: the file cannot be opened.
    """

    def __init__(self, file: Path, process: int | None = None) -> None:
        self._process = os.getpid() if process is None else process
        self._database = sqlite3.connect(file, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=OFF")  # nothing in it outlives the server
        self._database.executescript(_TABLES)

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    @contextmanager
    def hold_decision(self) -> Iterator[None]:
        """Context manager that locks admission and counts in all processes; if that fails, it runs without the lock."""
        try:
            self._database.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            _log_error(error)
            yield
            return
        try:
            yield
        finally:
            self._run("COMMIT")
            if self._database.in_transaction:  # it failed, and its lock would keep all processes out
                self._run("ROLLBACK")

    def count_present(self, address: str) -> int:
        """Returns the number of the address's sessions in the other processes."""
        found = self._run("SELECT count(*) FROM sessions WHERE address = ? AND process != ?", address, self._process)
        return int(found[0][0]) if found else 0

    def count_started(self, address: str, now_s: float) -> int:
        """Returns the number of sessions that the address began in the other processes within the last minute."""
        found = self._run(
            "SELECT count(*) FROM starts WHERE address = ? AND process != ? AND at_s > ?",
            address,
            self._process,
            now_s - _MINUTE_S,
        )
        return int(found[0][0]) if found else 0

    def enter(self, address: str, now_s: float) -> None:
        """Counts a session that this process has admitted."""
        self._run("INSERT INTO sessions VALUES (?, ?)", self._process, address)
        self._run("DELETE FROM starts WHERE at_s <= ?", now_s - _MINUTE_S)
        self._run("INSERT INTO starts VALUES (?, ?, ?)", self._process, address, now_s)

    def leave(self, address: str) -> None:
        """Removes one session of an address in this process from the counts; its start stays counted."""
        self._run(
            "DELETE FROM sessions WHERE rowid IN "
            "(SELECT rowid FROM sessions WHERE process = ? AND address = ? LIMIT 1)",
            self._process,
            address,
        )

    def forget_process(self, process: int) -> int:
        """Removes the sessions of a process (by its id) that has ended; returns how many there were."""
        return len(self._run("DELETE FROM sessions WHERE process = ? RETURNING 1", process))

    def record_state(self, number: int, state: ProcessState) -> None:
        """Records the state of a process; `dead` adds one to its deaths."""
        self._run(
            "INSERT INTO processes VALUES (?, ?, ?) ON CONFLICT (number) DO UPDATE SET state = excluded.state, "
            "n_deaths = n_deaths + excluded.n_deaths",
            number,
            state,
            int(state == "dead"),
        )

    def read_states(self) -> dict[int, tuple[ProcessState, int]]:
        """Returns the state of each process, and how often it has died, by its number."""
        return {number: (state, n) for number, state, n in self._run("SELECT * FROM processes ORDER BY number")}

    def make_allowance(
        self, name: str, per_s: float, most: float, clock_s: Callable[[], float] = time.monotonic
    ) -> "SharedAllowance":
        """Returns a rate limit for each key, over all processes.

        Args:
            name: identifies the limit; all processes use the same amounts.
            per_s: how much is added per second.
            most: the maximum, and the initial amount.
            clock_s: a monotonic clock that all processes share, seconds.
        """
        return SharedAllowance(self, name, per_s, most, clock_s)

    def read_left(self, name: str, key: str) -> tuple[float, float] | None:
        """Returns what a key had left of an allowance, and when; None if it has used nothing lately (`write_left`).

        Raises:
            sqlite3.Error: the file cannot be read.
        """
        found = self._execute("SELECT n_left, at_s FROM allowances WHERE name = ? AND key = ?", name, key)
        return (float(found[0][0]), float(found[0][1])) if found else None

    def write_left(self, name: str, key: str, n_left: float, at_s: float, full_at_s: float) -> None:
        """Records what a key has left, and deletes the keys of this allowance that used nothing since `full_at_s`.

        Raises:
            sqlite3.Error: the file cannot be written.
        """
        self._execute("DELETE FROM allowances WHERE name = ? AND at_s < ?", name, full_at_s)
        self._execute("INSERT OR REPLACE INTO allowances VALUES (?, ?, ?, ?)", name, key, n_left, at_s)

    def _execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Runs a statement and returns its rows; raises sqlite3.Error."""
        return self._database.execute(statement, values).fetchall()

    def _run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Runs a statement and returns its rows; after an error, which is logged, there are none."""
        try:
            return self._execute(statement, *values)
        except sqlite3.Error as error:
            _log_error(error)
            return []


class SharedAllowance:
    """An allowance for each key, like `RateLimiter`, over all processes of a server.

    While the counts are unavailable, which is logged, it counts for this process alone.
    """

    def __init__(
        self, counts: SharedCounts, name: str, per_s: float, most: float, clock_s: Callable[[], float]
    ) -> None:
        self._counts, self._name, self._per_s, self._most, self._clock_s = counts, name, per_s, most, clock_s
        self._own = RateLimiter(per_s, most, clock_s)

    def get_amount_left(self, key: str) -> float:
        """Returns how much a key may use now."""
        try:
            return self._compute_amount_left(key, self._clock_s())
        except sqlite3.Error as error:
            _log_error(error)
            return self._own.get_amount_left(key)

    def take(self, key: str, amount: float = 1.0) -> bool:
        """Uses up an amount; returns False, and uses nothing, if the key has less."""
        now_s = self._clock_s()
        try:
            with self._counts.hold_decision():
                left = self._compute_amount_left(key, now_s)
                if left < amount:
                    return False
                self._counts.write_left(self._name, key, left - amount, now_s, now_s - self._most / self._per_s)
        except sqlite3.Error as error:
            _log_error(error)
            return self._own.take(key, amount)
        return True

    def _compute_amount_left(self, key: str, now_s: float) -> float:
        """Returns how much a key may use at a time: what it had left, and what has been added since.

        Raises:
            sqlite3.Error: the counts are unavailable.
        """
        known = self._counts.read_left(self._name, key)
        if known is None:
            return self._most
        n_left, at_s = known
        return min(self._most, n_left + max(0.0, now_s - at_s) * self._per_s)


def _log_error(error: sqlite3.Error) -> None:
    """Logs that the shared counts are unavailable."""
    _LOG.error("The counts shared by the server's processes are unavailable, so each uses its own: %s", error)
