"""Runs a chat server in a child process: starts it, waits until it is ready, and always stops it."""

import contextlib
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from data_schemas.errors import BackendError

HOST = "127.0.0.1"
STOP_LIMIT_S = 15.0
"""A child that has not stopped after this time is killed."""
ENDING_S = 1.0
"""Time that a child may take to exit after its client has noticed."""
N_LOG_LINES = 12
"""Lines of the server's log quoted in errors."""
PROJECT_ROOT = Path(__file__).resolve().parents[2]

Child = subprocess.Popen[bytes]


class NotReady(Exception):
    """The child does not serve; the message is the predicate of a sentence that says why."""


@dataclass(frozen=True, slots=True)
class ChildServer:
    """How to start a server.

    Args:
        name: its name in messages, as in "The … stopped".
        command: command of a process that exits when its standard input is closed.
        environment: its complete environment.
        remedy: what to check if it does not work.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    remedy: str

    @contextmanager
    def run(self, until_ready: Callable[[Child], str]) -> Iterator[str]:
        """Runs the server for the duration of the block; yields the base URL that `until_ready` returns.

        Raises:
            BackendError: it did not start (`until_ready` raised `NotReady`), or it stopped inside the block and its
                client failed because of that; quotes the end of its log.
        """
        with tempfile.TemporaryFile() as log, self._run_child(log) as child:
            try:
                yield until_ready(child)
            except NotReady as error:
                raise self._make_stopped_error(str(error), child, log) from error
            except BackendError as error:
                if not _has_ended(child):
                    raise
                raise self._make_stopped_error(f"stopped while it was needed ({error.what})", child, log) from error

    @contextmanager
    def _run_child(self, log: IO[bytes]) -> Iterator[Child]:
        """Runs the process until the end of the block; its standard output is a pipe, standard error goes to `log`."""
        child = subprocess.Popen(  # noqa: S603 - our own command, no shell
            list(self.command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=dict(self.environment),
            start_new_session=True,  # Ctrl-C reaches only us; the child exits when its standard input closes
        )
        try:
            yield child
        finally:
            _stop(child)

    def _make_stopped_error(self, what: str, child: Child, log: IO[bytes]) -> BackendError:
        """Makes the error of a server that did not start or has stopped, with its exit code and the end of its log."""
        log.seek(0)
        lines = log.read().decode(errors="replace").splitlines()[-N_LOG_LINES:]
        quoted = "\n".join(["The end of its log:", *(f"  {line}" for line in lines)])
        return BackendError(f"The {self.name} {what}; exit code {child.poll()}.", f"{self.remedy}\n{quoted}")


def _has_ended(child: Child) -> bool:
    """Returns whether the child has exited, or exits within `ENDING_S`: a client may notice its end before."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(ENDING_S)
    return child.poll() is not None


def _stop(child: Child) -> None:
    """Closes the child's standard input, at which it should exit, and kills it if it does not within `STOP_LIMIT_S`."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.close()
    try:
        child.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    finally:
        child.stdout.close()


def find_free_port(wanted: int, name: str) -> int:
    """Returns the wanted port of this machine if it is free; for 0, any free port. It is not reserved.

    Args:
        name: the server, for messages.

    Raises:
        BackendError: the port is in use.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted))
        except OSError as error:
            raise BackendError(
                f"The {name} cannot use port {wanted}: {error.strerror}.",
                "Set chat.port to another one, or to 0 for any free one.",
            ) from error
        return int(probe.getsockname()[1])
