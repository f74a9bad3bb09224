"""Accepts client connections, in a server of one process or in the parent of several."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import NoReturn

BACKLOG = 2048
"""Clients that may wait to be accepted, uvicorn's default; the system may have a lower limit."""
_RETRY_S = 0.1
_USED_UP = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_LISTENER = (errno.EBADF, errno.EINVAL, errno.ENOTSOCK)
_log = logging.getLogger(__name__)


async def accept_clients(
    listener: socket.socket,
    take: Callable[[socket.socket], object],
    backlog: int = BACKLOG,
    give_way: Callable[[], object] = lambda: None,
) -> NoReturn:
    """Accepts clients, one per round of the event loop, so that many do not delay the open sessions.

    Args:
        listener: bound to its address.
        take: receives each client's socket.
        backlog: clients that may wait to be accepted.
        give_way: called to release some descriptors when all are used up.

    Raises:
        OSError: the listener is closed or no listening socket.
    """
    loop = asyncio.get_running_loop()
    listener.setblocking(False)
    listener.listen(backlog)
    is_failing = False
    while True:
        try:
            accepted, _ = await loop.sock_accept(listener)
        except OSError as error:
            if error.errno in _NO_LISTENER:
                raise
            if error.errno not in _USED_UP:  # that client has gone already (accept(2), "Error handling")
                await asyncio.sleep(0)
                continue
            if not is_failing:  # descriptors are used up, by this process or by others of this machine
                _log.error("Nobody can connect: %s. Raise `ulimit -n` or limits.reserved_descriptors.", error)
            is_failing = True
            give_way()
            await asyncio.sleep(_RETRY_S)
            continue
        is_failing = False
        take(accepted)
        await asyncio.sleep(0)
