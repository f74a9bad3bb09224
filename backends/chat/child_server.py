"""A chat server in a child process: started, waited for, and never left behind."""

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
"""After this a child that does not stop is killed."""
ENDING_S = 1.0
"""How long a child may take to end after its client has noticed."""
N_LOG_LINES = 12
"""Lines of the server's log that an error quotes."""
PROJECT_ROOT = Path(__file__).resolve().parents[2]

Child = subprocess.Popen[bytes]


class NotReady(Exception):
    """The child does not serve; the message says how that showed, as the predicate of a sentence."""


@dataclass(frozen=True, slots=True)
class ChildServer:
    """How a server is started.

    Args:
        name: for messages, as in "The … stopped".
        command: of a process that ends when its standard input is closed.
        environment: its whole environment.
        remedy: what to check when it does not work.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    remedy: str

    @contextmanager
    def running(self, until_ready: Callable[[Child], str]) -> Iterator[str]:
        """The base URL that `until_ready` gives, for the time of a block.

        Raises:
            BackendError: it did not start (`until_ready` raised `NotReady`), or it stopped inside the block while its
                client failed for want of it; quotes the end of its log.
        """
        with tempfile.TemporaryFile() as log, self._child(log) as child:
            try:
                yield until_ready(child)
            except NotReady as error:
                raise self._stopped(str(error), child, log) from error
            except BackendError as error:
                if not _has_ended(child):
                    raise
                raise self._stopped(f"stopped while it was needed ({error.what})", child, log) from error

    @contextmanager
    def _child(self, log: IO[bytes]) -> Iterator[Child]:
        child = subprocess.Popen(  # noqa: S603 - our own command, no shell
            list(self.command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=dict(self.environment),
            start_new_session=True,  # Ctrl-C is for us; the child follows when its standard input closes
        )
        try:
            yield child
        finally:
            _stop(child)

    def _stopped(self, what: str, child: Child, log: IO[bytes]) -> BackendError:
        log.seek(0)
        lines = log.read().decode(errors="replace").splitlines()[-N_LOG_LINES:]
        quoted = "\n".join(["The end of its log:", *(f"  {line}" for line in lines)])
        return BackendError(f"The {self.name} {what}; exit code {child.poll()}.", f"{self.remedy}\n{quoted}")


def _has_ended(child: Child) -> bool:
    """Whether it has ended, or does so in a moment: its client may notice before it is gone."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(ENDING_S)
    return child.poll() is not None


def _stop(child: Child) -> None:
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


def free_port(wanted: int, name: str) -> int:
    """The port that is wanted, or any free one for 0.

    Raises:
        BackendError: the port is taken.
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
