"""One process of a server of several: takes callers from the parent, and reports its state."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from kame_model.serve.processes.channel import END, RETIRE, Phase, Report, receive_message, send_report
from kame_model.serve.processes.shared_counts import SharedCounts
from kame_model.serve.processes.siblings import (
    AllProcessesMiddleware,
    ForwardedRequestApp,
    connect_others,
    get_socket_path,
)
from kame_model.serve.server import KameServer
from kame_model.serve.web.transport import WebServer

_LOOK_S = 0.05
"""Seconds between checks for something to report."""


class PrivateServer(uvicorn.Server):
    """A uvicorn server for requests that other processes forward to a Unix socket; it leaves signals to its caller."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(
            uvicorn.Config(
                ForwardedRequestApp(app),
                log_level="warning",
                lifespan="off",
                ws="none",
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures no signals."""
        yield


class ProcessMember:
    """The process's side of the channel to the parent.

    Args:
        channel: to the parent.
        number: of this process.
        folder: private, shared by all processes of the server.
        counts: shared by them.

    Attributes:
        parent_is_gone: set when the parent has ended, so that no more callers can come.
        is_retired: set when this process is to end as soon as its callers have left.
        is_over: set when it is to end now.
    """

    def __init__(self, channel: socket.socket, number: int, folder: Path, counts: SharedCounts) -> None:
        channel.setblocking(False)
        self.parent_is_gone, self.is_retired, self.is_over = (asyncio.Event() for _ in range(3))
        self._channel, self._number, self._folder, self._counts = channel, number, folder, counts
        self._last = Report()
        self._n_taken = 0

    @asynccontextmanager
    async def serve_callers(self, server: KameServer, app: FastAPI, web: WebServer) -> AsyncIterator[None]:
        """Context manager in which callers are taken from the parent, other processes are answered, and reports sent.

        Args:
            web: has been started; serves the callers.
        """
        loop, private = asyncio.get_running_loop(), get_socket_path(self._folder, self._number)
        private.unlink(missing_ok=True)
        async with AsyncExitStack() as stack:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            listener.bind(str(private))
            stack.callback(private.unlink, missing_ok=True)
            asked = PrivateServer(app)
            asking = asyncio.create_task(asked.serve([listener]))
            stack.push_async_callback(asyncio.wait, [asking])
            stack.callback(setattr, asked, "should_exit", True)
            telling = asyncio.create_task(self._report_changes(server, app))
            stack.push_async_callback(_cancel_task, telling)
            loop.add_reader(self._channel, self._take, web)
            stack.callback(loop.remove_reader, self._channel)
            yield

    async def wait_for_entering_callers(self, app: FastAPI, within_s: float) -> None:
        """Waits until every connection has a web socket or is closed, but not longer than `within_s` seconds.

        A caller that is still connecting has been sent to no other process.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while app.state.connections.n_before_entry:
                    await asyncio.sleep(_LOOK_S)

    def answer_for_all(self, app: FastAPI) -> None:
        """Adds the middleware that answers for the other processes, too; call it before the app starts."""
        others = partial(connect_others, self._folder, self._number)
        app.add_middleware(AllProcessesMiddleware, number=self._number, others=others, counts=self._counts)

    def _take(self, web: WebServer) -> None:
        """Processes one message or client from the parent, if any; many at once would delay the open sessions."""
        try:
            given = receive_message(self._channel)
        except BlockingIOError:
            return
        if isinstance(given, socket.socket):
            self._n_taken += 1
            web.take(given)
        elif given == RETIRE:
            self.is_retired.set()
        elif given == END:
            self.is_over.set()
        elif not given:
            self.parent_is_gone.set()
            asyncio.get_running_loop().remove_reader(self._channel)

    async def _report_changes(self, server: KameServer, app: FastAPI) -> None:
        """Sends the parent a report of the state whenever it has changed, until it is cancelled."""
        while True:
            unready = server.find_unreadiness()
            is_draining = unready is not None and unready.reason == "draining"
            phase: Phase = "draining" if is_draining else "serving"
            report = Report(
                phase=phase,
                n_sessions=len(server.sessions),
                n_connections=app.state.connections.n_now,
                n_free=server.n_free,
                n_taken=self._n_taken,
                unready="" if unready is None else unready.reason,
            )
            if report != self._last and send_report(self._channel, report):
                self._last = report
            await asyncio.sleep(_LOOK_S)


async def _cancel_task(task: "asyncio.Task[None]") -> None:
    """Cancels a task, and waits until it has ended; raises its error if it had failed."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
