"""One socket and its session: both ways at once, until either ends, and what is left is cleared away."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import cast

from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from data_schemas.config.serving import Mode
from data_schemas.errors import BackendError, ConfigError
from kame_model.serve.server import KameServer, Refused
from kame_model.serve.session.events import SessionEvent
from kame_model.serve.session.mailbox import SaidFrame
from kame_model.serve.session.session import Session
from kame_model.serve.web.access import Denied, Door, chosen_protocol
from kame_model.serve.web.disclosure import consent_to, for_callers
from kame_model.serve.web.metrics import Metrics
from kame_model.serve.web.rate_limits import MESSAGES_AT_ONCE_S, Allowance
from kame_model.serve.web.session_changes import Changes, Changing

SEND_TIMEOUT_S = 10.0
"""A client that takes nothing for so long is gone; until then its oldest sound is dropped, and nobody else waits."""
DONE, GOING_AWAY, POLICY, OWN_FAULT = 1000, 1001, 1008, 1011
"""Codes that sockets are closed with (RFC 6455, 7.4.1)."""
_GONE = (WebSocketDisconnect, RuntimeError, OSError)
"""What sending to a client that has left raises: Starlette's, Starlette's where it is closed already, uvicorn's."""
_log = logging.getLogger(__name__)


class Unfit(Exception):
    """A client's message ends the connection; the text says why, to the client."""


class Hall:
    """Where sockets come in: looked at, let in or refused with a reason, and counted.

    Args:
        server: has the sessions.
        door: who may come in.
        metrics: count it.

    Attributes:
        changing: of all its sessions.
    """

    def __init__(self, server: KameServer, door: Door, metrics: Metrics) -> None:
        self.server = server
        self.door = door
        self.metrics = metrics
        self.changing = Changing()

    async def enter(self, socket: WebSocket, back_end: str | None = None, model: str | None = None) -> "Caller | None":
        """Opens the session a socket asks for and accepts the socket; None where it was refused, by an HTTP answer.

        Args:
            socket: its query says what is wished: mode, back_end, prompt, record.
            back_end: where the query names none.
            model: one of the back-end's; not read from the query, where OpenAI's protocol calls a back-end so.
        """
        try:
            self.door.check(socket)
            session = await self._open(socket, back_end, model)
        except Denied as denied:
            await self.refuse(socket, denied)
            return None
        try:
            await socket.accept(chosen_protocol(socket))
        except _GONE:
            await session.close("the client left")
            return None
        return Caller(self, socket, session)

    async def refuse(self, socket: WebSocket, denied: Denied) -> None:
        """Answers a socket that is not let in with an HTTP error."""
        self.metrics.n_denied[denied.code] += 1
        with suppress(*_GONE):
            await socket.send_denial_response(denied.response())

    async def _open(self, socket: WebSocket, back_end: str | None, model: str | None) -> Session:
        """A session of the caller's wishes.

        Raises:
            Denied: not now, or not so.
        """
        wishes = socket.query_params
        try:
            return await self.server.open_session(
                self.door.address_of(socket),
                mode=cast(Mode | None, wishes.get("mode") or None),
                back_end=wishes.get("back_end") or back_end,
                model=model,
                prompt=wishes.get("prompt") or None,
                record=self._agrees(wishes.get("record")),
            )
        except (Refused, ConfigError, BackendError) as error:
            if isinstance(error, BackendError):
                _log.error("A caller could not be let in: %s", error)
            raise Denied.because(error) from error

    def _agrees(self, consent: str | None) -> bool:
        """Whether a caller wishes to be recorded and has been told what that means.

        Raises:
            Denied: it wishes so, and has not been told.
        """
        if not consent:
            return False
        if self.server.takes_recordings and consent != consent_to(self.server.config.record.notice):
            message = (
                "Nobody is recorded who was not told: show your user record_notice of /v1/about, and if they agree "
                "say record= and the word in its record_consent."
            )
            raise Denied(400, "consent", message)
        return True


class Caller:
    """A client that is connected.

    Args:
        hall: where it came in.
        socket: the way to it, accepted.
        session: its conversation.

    Attributes:
        session: as given.
    """

    def __init__(self, hall: Hall, socket: WebSocket, session: Session) -> None:
        self.session = session
        self._hall = hall
        self._socket = socket
        self._limits = hall.server.config.limits
        self._watch = hall.metrics.watch()
        self._may_be_told = Allowance(per_s=1, most=1)
        self._ended: tuple[int, str] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._is_lost = False

    async def send(self, message: bytes | str) -> None:
        """Sends a message; one that cannot be sent ends the session, and nothing is sent after it."""
        if self._is_lost:
            return
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                if isinstance(message, bytes):
                    await self._socket.send_bytes(message)
                else:
                    await self._socket.send_text(message)
        except TimeoutError:
            self._is_lost = True
            await self.end(POLICY, "the client does not take what is sent")
        except _GONE:
            await self._left()

    async def end(self, code: int, reason: str) -> None:
        """Ends the session, and the socket after it with this code."""
        if self._ended is None:
            self._ended = (code, reason)
        if self._closing is None:
            self._closing = asyncio.create_task(self.session.close(reason))
        await asyncio.shield(self._closing)  # what it gives back is given back, whoever waits no more

    def change(self, changes: Changes) -> None:
        """Changes the session.

        Raises:
            Denied, ConfigError: as `Changing.apply`.
        """
        try:
            self._hall.changing.apply(changes, self.session)
        except Denied as denied:
            self._hall.metrics.n_denied[denied.code] += 1
            raise

    def drop(self, code: str) -> bool:
        """Counts a message that is not taken; True where the client should be told, which is once a second."""
        self._hall.metrics.n_denied[code] += 1
        return self._may_be_told.take()

    async def run(
        self,
        on_message: Callable[[Message], Awaitable[None]],
        on_drop: Callable[[str], Awaitable[None]],
        on_frame: Callable[[SaidFrame], Awaitable[None]],
        on_event: Callable[[SessionEvent], Awaitable[None]],
        beside: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Both ways at once, until the session has ended.

        Args:
            on_message: called with each message of the client; Unfit ends the session.
            on_drop: called with the reason where messages are dropped.
            on_frame, on_event: called with each frame and each event of the session.
            beside: more work, for as long.
        """
        work = [self._hear(on_message, on_drop)] + ([] if beside is None else [beside()])
        others = [asyncio.create_task(self._guarded(each)) for each in work]
        saying = asyncio.create_task(self._guarded(self._say(on_frame)))
        events = self.session.events()  # now: the first message may wait already, and what comes of it is told
        telling = asyncio.create_task(self._guarded(self._tell(events, on_event)))
        try:
            await asyncio.wait({saying, telling})  # both end with the session, whoever ends it
        finally:
            for task in (saying, telling, *others):
                task.cancel()
            await asyncio.gather(saying, telling, *others, return_exceptions=True)
            await self.end(GOING_AWAY, "the server stops")
            await self._close_socket()

    async def _hear(
        self, on_message: Callable[[Message], Awaitable[None]], on_drop: Callable[[str], Awaitable[None]]
    ) -> None:
        limits = self._limits
        per_s = limits.max_messages_per_s
        allowance = Allowance(per_s, MESSAGES_AT_ONCE_S * per_s)
        n_bytes = Allowance(limits.max_bytes_per_s, limits.max_burst_bytes)
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return await self._left()
            if not allowance.take():
                return await self.end(POLICY, f"more than {per_s} messages in a second")
            if not n_bytes.take(_n_bytes(message)):
                if self.drop("too_many_bytes"):
                    await on_drop(f"Messages are dropped: more than {limits.max_bytes_per_s} bytes in a second.")
                continue
            try:
                await on_message(message)
            except Unfit as error:
                return await self.end(POLICY, str(error))

    async def _say(self, on_frame: Callable[[SaidFrame], Awaitable[None]]) -> None:
        async for frame in self.session.frames():
            await on_frame(frame)

    async def _tell(
        self, events: AsyncIterator[SessionEvent], on_event: Callable[[SessionEvent], Awaitable[None]]
    ) -> None:
        async for event in events:
            self._watch.happened(event)
            if event.kind == "ended" and self._ended is None:
                self._ended = (DONE, str(event.data.get("reason", "")))
            await on_event(for_callers(event))

    async def _guarded(self, work: Awaitable[None]) -> None:
        """A fault of ours ends this session, and is told in the log with where it was."""
        try:
            await work
        except Exception:
            _log.exception("Session %s ends: a fault of the server", self.session.id)
            await self.end(OWN_FAULT, "a fault of the server")
            raise

    async def _left(self) -> None:
        self._is_lost = True
        await self.end(GOING_AWAY, "the client left")

    async def _close_socket(self) -> None:
        code, reason = self._ended or (DONE, "")
        with suppress(*_GONE, TimeoutError):
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await self._socket.close(code, reason.encode()[:120].decode(errors="ignore"))


def _n_bytes(message: Message) -> int:
    """How long a message is; a character of text is a byte or more."""
    return len(message.get("bytes") or message.get("text") or "")
