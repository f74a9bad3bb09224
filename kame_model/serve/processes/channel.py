"""What the parent and one process of a server say to each other, over one Unix socket.

The parent gives a byte at a time: `SOCKET`, with a caller's socket beside it, `RETIRE` (end when your callers have) or
`END` (end now). The process tells a `Report`
as a line of JSON, at once when something has changed. The end of the socket is the end of whoever held its other end.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Literal

from pydantic import BaseModel, ConfigDict

SOCKET, RETIRE, END = b"s", b"r", b"e"
_FLAGS = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_CHUNK = 65_536

Phase = Literal["loading", "serving", "draining", "failed"]


class Report(BaseModel):
    """How it stands with a process.

    Attributes:
        phase: failed: it ends with an error, before it served or later.
        n_sessions: callers who talk.
        n_connections: of callers, sessions' too.
        n_free: sessions that may still come.
        n_taken: sockets taken from the parent since the start.
        unready: why callers are better sent elsewhere; empty: they are not.
        error_kind, error_what, error_remedy: of phase failed: a class of data_schemas/errors.py, and its texts.
    """

    model_config = ConfigDict(frozen=True)

    phase: Phase = "loading"
    n_sessions: int = 0
    n_connections: int = 0
    n_free: int = 0
    n_taken: int = 0
    unready: str = "loading"
    error_kind: str = ""
    error_what: str = ""
    error_remedy: str = ""


def give_socket(channel: socket.socket, accepted: socket.socket) -> bool:
    """Gives a caller's socket to a process, and closes it here; False where the process takes none, and it stays open.

    Args:
        channel: the parent's end, not blocking.
    """
    try:
        socket.send_fds(channel, [SOCKET], [accepted.fileno()])
    except OSError:  # it has ended, or is stuck and its buffer full
        return False
    accepted.close()
    return True


def give_order(channel: socket.socket, order: bytes) -> None:
    """Tells a process to `RETIRE` or to `END`; one that has ended already is not told."""
    with suppress(OSError):
        channel.send(order)


def take_given(channel: socket.socket) -> socket.socket | bytes:
    """What the parent gives next: a caller's socket, `RETIRE`, `END`, or nothing: the parent has ended.

    Raises:
        BlockingIOError: nothing is there yet.
    """
    try:
        data, given, *_ = socket.recv_fds(channel, 1, 1, _FLAGS)
    except BlockingIOError:
        raise
    except OSError:
        return b""
    if data == SOCKET and given:
        return socket.socket(fileno=given[0])
    return data


def tell(channel: socket.socket, report: Report) -> bool:
    """Tells the parent; False where it does not read, and is to be told again later."""
    try:
        channel.sendall(report.model_dump_json().encode() + b"\n")
    except BlockingIOError:
        return False
    except OSError:  # it has ended, which `take_given` tells
        return True
    return True


async def read_reports(channel: socket.socket) -> AsyncIterator[Report]:
    """What a process reports, until it has ended.

    Args:
        channel: the parent's end, not blocking.
    """
    loop, unread = asyncio.get_running_loop(), b""
    while True:
        try:
            data = await loop.sock_recv(channel, _CHUNK)
        except OSError:
            data = b""
        if not data:
            return
        *lines, unread = (unread + data).split(b"\n")
        for line in lines:
            yield Report.model_validate_json(line)
