"""Starts a group of processes in order, monitors them, and stops them in reverse order."""

import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from filelock import FileLock, Timeout

from data_schemas.errors import BackendError, ConfigError

_LOOK_EVERY_S: Final = 0.2
_N_LAST_LINES: Final = 15
PATIENCE_S: Final = 10.0
"""Time in seconds that a process has to end after SIGTERM, before it is killed."""
SAVING_S: Final = 30.0
"""Time in seconds that a process left behind by a killed `kame up` has to save, as a cancelled run has."""
_MARK: Final = "KAME_UP"
"""Environment variable that marks all started processes."""


@dataclass(frozen=True, slots=True)
class Component:
    """A running process.

    Attributes:
        name: name for people.
        log: file of its output.
    """

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def make_fault(self) -> BackendError:
        """Makes the error of a process that has ended by itself, with the end of its log."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        last = "\n  ".join(text.rstrip().splitlines()[-_N_LAST_LINES:])
        return BackendError(
            f"{self.name} ended with exit code {self.process.returncode}. The end of its log:\n  {last}\n",
            f"The full log is {self.log}.",
        )

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process and to all others of its process group; does nothing if all have ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


class Components:
    """Processes that run during a `with` block; on systems with /proc, their descendants are ended with them.

    Processes that a killed predecessor left running are ended first. Entering the block raises a `ConfigError` if
    another `kame up` uses the folder.

    Args:
        folder: folder of the logs, of the last run only.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Component] = []
        self._mark = f"{_MARK}={secrets.token_hex(8)}"
        self._lock = FileLock(folder / "lock")

    def __enter__(self) -> Self:
        """Takes the lock of the folder, and ends processes that a killed predecessor left running.

        Raises:
            ConfigError: another one has the lock.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise ConfigError(
                f"Another `kame up` is running; its logs are in {self._folder}.",
                "Stop it, or set KAME_CACHE to another folder.",
            ) from error
        last = self._folder / "mark"
        if last.is_file() and re.fullmatch(_MARK + "=[0-9a-f]{16}", mark := last.read_text(encoding="utf-8")):
            _end_marked(mark, SAVING_S)
        last.write_text(self._mark, encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends all processes in reverse order, and kills each that does not end within `PATIENCE_S`."""
        for each in reversed(self._started):
            each.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):  # a second Ctrl-C does not want to wait
                each.process.wait(PATIENCE_S)
            each.send_signal(signal.SIGKILL)
            each.process.wait()
        _end_marked(self._mark, PATIENCE_S)
        self._lock.release()

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> Component:
        """Starts and returns a process that writes to NAME.log, in a process group that Ctrl-C does not reach.

        Args:
            environment: environment variables of the process, besides the one that marks it; none are inherited.
        """
        log = self._folder / f"{name}.log"
        name_of_mark, _, mark = self._mark.partition("=")
        with log.open("wb") as file:
            process = subprocess.Popen(  # noqa: S603 - our own commands, no shell
                command,
                env={**environment, name_of_mark: mark},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        made = Component(name, process, log)
        self._started.append(made)
        return made

    def wait_for(self, component: Component, is_ready: Callable[[], bool], limit_s: float) -> None:
        """Waits until a process is ready, by calling `is_ready` several times a second.

        Raises:
            BackendError: this or another process ended during the wait, or it timed out.
        """
        until = time.monotonic() + limit_s
        while not is_ready():
            self._raise_if_ended()
            if time.monotonic() > until:
                raise BackendError(
                    f"{component.name} was not ready after {limit_s:.0f} s.", f"See its log: {component.log}"
                )
            time.sleep(_LOOK_EVERY_S)

    def watch(self) -> None:
        """Blocks until one of the processes ends, which none should do by itself.

        Raises:
            BackendError: one has ended; the message has the end of its log.
        """
        while True:
            self._raise_if_ended()
            time.sleep(_LOOK_EVERY_S)

    def _raise_if_ended(self) -> None:
        """Raises the error of the first process that has ended, if there is one."""
        for each in self._started:
            if each.process.poll() is not None:
                raise each.make_fault()


def _end_marked(mark: str, patience_s: float) -> None:
    """Sends SIGTERM to the processes that `_find_marked` finds, and SIGKILL to those that still run after `patience_s`.

    They include processes in other process groups, as Prefect's workers start them. Returns when none is left.
    """
    until = time.monotonic() + patience_s
    number = signal.SIGTERM
    while left := _find_marked(mark):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        while time.monotonic() < until and _find_marked(mark):
            time.sleep(_LOOK_EVERY_S)
        number = signal.SIGKILL


def _find_marked(mark: str) -> list[int]:
    """Returns the ids of the processes that have a mark (NAME=VALUE) in their environment; none without /proc."""
    found = []
    for each in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has just ended, or is somebody else's
            if mark.encode() in each.read_bytes().split(b"\0"):
                found.append(int(each.parent.name))
    return found
