"""Protocol between the parent and one process of a server, over a Unix socket.

The parent sends single bytes: `SOCKET`, with a caller's socket attached, `RETIRE` (end when your callers have) or `END`
(end now). The process sends a `Report` as a line of JSON whenever something has changed. When the socket ends, its
other end has ended.
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
    """The state of a process.

    Attributes:
        phase: failed: it ends with an error, before it served or later.
        n_sessions: open sessions.
        n_connections: of callers, including those of sessions.
        n_free: sessions that can still be opened.
        n_taken: sockets taken from the parent since the start.
        unready: why callers should use another process; empty if they need not.
        error_kind, error_what, error_remedy: in phase failed: a class of data_schemas/errors.py, and its texts.
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


def send_socket(channel: socket.socket, accepted: socket.socket) -> bool:
    """Sends a caller's socket to a process and closes it here; returns False, and leaves it open, if that fails.

    Args:
        channel: the parent's end, non-blocking.
    """
    try:
        socket.send_fds(channel, [SOCKET], [accepted.fileno()])
    except OSError:  # it has ended, or is stuck and its buffer full
        return False
    accepted.close()
    return True


async def send_order(channel: socket.socket, order: bytes) -> None:
    """Orders a process to `RETIRE` or to `END`, as soon as the channel's buffer has room; lost if it has ended.

    Args:
        channel: the parent's end, non-blocking.
    """
    with suppress(OSError):
        await asyncio.get_running_loop().sock_sendall(channel, order)


def receive_message(channel: socket.socket) -> socket.socket | bytes:
    """Returns what the parent sends next: a caller's socket, `RETIRE`, `END`, or b"" if the parent has ended.

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


def send_report(channel: socket.socket, report: Report) -> bool:
    """Sends a report. Returns False if it has to be sent again because the parent does not read; it need not if the
    parent has ended.
    """
    try:
        channel.sendall(report.model_dump_json().encode() + b"\n")
    except BlockingIOError:
        return False
    except OSError:  # it has ended, which `receive_message` reports
        return True
    return True


async def read_reports(channel: socket.socket) -> AsyncIterator[Report]:
    """Yields the reports of a process until it closes its end of the channel, as by ending.

    Args:
        channel: the parent's end, non-blocking.
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
