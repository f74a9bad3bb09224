"""One client's web socket and its session: sends and receives until either ends, and then cleans up."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from dataclasses import replace
from typing import cast

from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from data_schemas.config.serving import Mode
from data_schemas.errors import BackendError, ConfigError
from kame_model.serve.server import KameServer, Refused
from kame_model.serve.session.events import EventKind, SessionEvent
from kame_model.serve.session.mailbox import SaidFrame
from kame_model.serve.session.session import Session
from kame_model.serve.web.access import AccessControl, Denied, choose_protocol, make_consent_word
from kame_model.serve.web.metrics import Metrics
from kame_model.serve.web.rate_limits import MESSAGES_AT_ONCE_S, Allowance, RateLimiter
from kame_model.serve.web.session_changes import Changes

SEND_TIMEOUT_S = 10.0
"""Timeout for a client that reads nothing; until then its oldest audio is dropped, and nobody else waits."""
CHANGES_PER_S, CHANGES_AT_ONCE = 2.0, 10.0
"""Rate limit of one session: a change may restart the recogniser and clear a slot, which costs the others."""
DONE, GOING_AWAY, POLICY, OWN_FAULT = 1000, 1001, 1008, 1011
"""Close codes of web sockets (RFC 6455, 7.4.1)."""
_GONE = (WebSocketDisconnect, RuntimeError, OSError)
"""What sending to a client that has left raises: Starlette's, Starlette's if it is already closed, uvicorn's."""
_FAULTS: dict[EventKind, str] = {
    "listening_failed": "Speech recognition does not work at the moment.",
    "oracle_failed": "The chat model gave no usable answer.",
    "sentence_left_out": "A sentence of the answer cannot be spoken.",
    "voice_failed": "The model's text cannot be spoken at the moment.",
}
"""What callers learn of an error. The reasons of back-ends contain addresses in the host's network and words of foreign
servers; the log has them (backends/listener, `BackEndCycle`).
"""
_log = logging.getLogger(__name__)


class UnfitMessage(Exception):
    """A client's message that ends the connection; the text is the reason for the client."""


class ConnectionManager:
    """Accepts or refuses clients by web socket and by HTTP, with a reason, and counts them."""

    def __init__(self, server: KameServer, access: AccessControl, metrics: Metrics) -> None:
        self.server, self.access, self.metrics = server, access, metrics
        self._changes = RateLimiter(CHANGES_PER_S, CHANGES_AT_ONCE)

    async def enter(self, socket: WebSocket, back_end: str | None = None, model: str | None = None) -> Session | None:
        """Opens the session that a socket requests, and accepts the socket; returns None if it was refused over HTTP or
        the client has left.

        Args:
            socket: its query contains the choices: mode, back_end, prompt, record.
            back_end: used if the query names none.
            model: one of the back-end's; not read from the query, as OpenAI's protocol uses that name for a back-end.
        """
        try:
            self.access.check(socket)
            session = await self._open(socket, back_end, model)
        except Denied as denied:
            await self.refuse(socket, denied)
            return None
        try:
            await socket.accept(choose_protocol(socket))
        except _GONE:
            await session.close("the client left")
            return None
        return session

    async def refuse(self, socket: WebSocket, denied: Denied) -> None:
        """Answers a socket with an HTTP error, and counts it in the metrics."""
        self.metrics.n_denied[denied.code] += 1
        with suppress(*_GONE):
            await socket.send_denial_response(denied.make_response())

    def change(self, session: Session, changes: Changes) -> None:
        """Changes a session, within its rate limit; empty changes do nothing and are not counted.

        Raises:
            Denied: it has been changed too often, or the device has no time for the mode; nothing has changed.
            ConfigError: this mode, back-end, model or prompt is not available or not allowed here; nothing has changed.
        """
        if changes == Changes():
            return
        if not self._changes.take(session.id):
            raise Denied(429, "too_many_changes", f"A session may be changed at most {CHANGES_PER_S:g} times a second.")
        try:
            changes.apply(session)
        except Refused as refusal:
            raise Denied.from_error(refusal) from refusal

    async def _open(self, socket: WebSocket, back_end: str | None, model: str | None) -> Session:
        """Opens a session with the choices in the socket's query.

        Raises:
            Denied: it cannot be opened now, or not with these choices.
        """
        wishes = socket.query_params
        try:
            return await self.server.open_session(
                self.access.find_address(socket),
                mode=cast(Mode | None, wishes.get("mode") or None),
                back_end=wishes.get("back_end") or back_end,
                model=model,
                prompt=wishes.get("prompt") or None,
                record=self._has_consent(wishes.get("record")),
            )
        except (Refused, ConfigError, BackendError) as error:
            if isinstance(error, BackendError):
                _log.error("A caller could not be admitted: %s", error)
            raise Denied.from_error(error) from error

    def _has_consent(self, consent: str | None) -> bool:
        """Returns whether a caller agrees to be recorded: `consent` is the word of `make_consent_word`; empty or None
        means no.

        If this server makes no recordings, any word counts here, and `open_session` rejects the call.

        Raises:
            Denied: the caller wants to be recorded, but the word is wrong.
        """
        if not consent:
            return False
        if self.server.takes_recordings and consent != make_consent_word(self.server.config.record.notice):
            message = (
                "A recording needs an informed user: show your user record_notice of /v1/about, and if they agree "
                "say record= and the word in its record_consent."
            )
            raise Denied(400, "consent", message)
        return True


class ClientSocket(ABC):
    """A connected client; subclasses implement the protocol of its messages.

    Args:
        socket: accepted.
    """

    def __init__(self, manager: ConnectionManager, socket: WebSocket, session: Session) -> None:
        self._manager, self._socket, self._session = manager, socket, session
        self._config = manager.server.config
        self._drop_reports = Allowance(per_s=1, most=1)
        self._oracle: object = None  # the last one that had words
        self._ended: tuple[int, str] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._is_lost = False

    @abstractmethod
    async def _on_message(self, message: Message) -> None:
        """Handles the client's next message.

        Raises:
            UnfitMessage: the message ends the session.
        """

    @abstractmethod
    async def _on_drop(self, reason: str) -> None:
        """Informs the client that its messages are being dropped, and why."""

    @abstractmethod
    async def _on_frame(self, frame: SaidFrame) -> None:
        """Sends the session's next frame."""

    @abstractmethod
    async def _on_event(self, event: SessionEvent) -> None:
        """Sends an event of the session."""

    async def _run_extra_work(self) -> None:  # noqa: B027
        """Does protocol-specific work for as long as the session lasts."""

    async def converse(self) -> None:
        """Sends and receives until the session has ended, and then closes the socket."""
        events = (
            self._session.subscribe_to_events()
        )  # now, because the first message may already wait, and its events are sent
        work = (self._receive_messages(), self._run_extra_work(), self._send_frames(), self._send_events(events))
        *others, saying, telling = [asyncio.create_task(self._run_guarded(each)) for each in work]
        try:
            await asyncio.wait({saying, telling})  # both end with the session, whoever ends it
        finally:
            for task in (saying, telling, *others):
                task.cancel()
            await asyncio.gather(saying, telling, *others, return_exceptions=True)
            await self.end(GOING_AWAY, "the server is shutting down")
            await self._close_socket()

    async def send(self, message: bytes | str) -> None:
        """Sends a message. If that fails or takes too long, the session ends, and nothing is sent after it."""
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
            await self.end(POLICY, "the client does not read its messages")
        except _GONE:
            await self._leave()

    async def end(self, code: int, reason: str) -> None:
        """Closes the session and waits for it; `converse` then closes the socket with the code of the first call."""
        if self._ended is None:
            self._ended = (code, reason)
        if self._closing is None:
            self._closing = asyncio.create_task(self._session.close(reason))
        await asyncio.shield(self._closing)  # clean-up completes even if the caller is cancelled

    def change(self, changes: Changes) -> None:
        """Changes the session, and counts a denial in the metrics; raises as `ConnectionManager.change` does."""
        try:
            self._manager.change(self._session, changes)
        except Denied as denied:
            self._manager.metrics.n_denied[denied.code] += 1
            raise

    def count_drop(self, code: str) -> bool:
        """Counts a dropped message; returns whether to inform the client, which is at most once a second."""
        self._manager.metrics.n_denied[code] += 1
        return self._drop_reports.take()

    async def _receive_messages(self) -> None:
        """Passes messages to `_on_message` until the client leaves. Those with too many bytes in a second are dropped;
        too many messages, or an unfit one, end the session.
        """
        limits = self._config.limits
        per_s = limits.max_messages_per_s
        n_messages = Allowance(per_s, MESSAGES_AT_ONCE_S * per_s)
        n_bytes = Allowance(limits.max_bytes_per_s, limits.max_burst_bytes)
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return await self._leave()
            if not n_messages.take():
                return await self.end(POLICY, f"more than {per_s} messages in a second")
            # A character of text is a byte or more.
            if not n_bytes.take(len(message.get("bytes") or message.get("text") or "")):
                if self.count_drop("too_many_bytes"):
                    await self._on_drop(f"Messages are dropped: more than {limits.max_bytes_per_s} bytes in a second.")
                continue
            try:
                await self._on_message(message)
            except UnfitMessage as error:
                return await self.end(POLICY, str(error))

    async def _send_frames(self) -> None:
        async for frame in self._session.read_frames():
            await self._on_frame(frame)

    async def _send_events(self, events: AsyncIterator[SessionEvent]) -> None:
        """Passes events to `_on_event` until the session has ended, with public texts in place of the back-ends' error
        messages, and records the ages of oracles.
        """
        async for event in events:
            if event.kind == "oracle" and event.data["oracle"] != self._oracle:  # its first words
                self._oracle = event.data["oracle"]
                self._manager.metrics.oracle_age_s.observe(event.data["age_s"])
            if event.kind == "ended" and self._ended is None:
                self._ended = (DONE, str(event.data.get("reason", "")))
            if event.kind in _FAULTS and event.data.get("reason"):  # empty: the fault is over
                event = replace(event, data={**event.data, "reason": _FAULTS[event.kind]})
            await self._on_event(event)

    async def _run_guarded(self, work: Awaitable[None]) -> None:
        """Runs `work`; an error in it is logged with its traceback, ends this session, and is raised again."""
        try:
            await work
        except Exception:
            _log.exception("Session %s ends after an internal error.", self._session.id)
            await self.end(OWN_FAULT, "an error inside the server")
            raise

    async def _leave(self) -> None:
        """Ends the session because the client has left; nothing is sent any more."""
        self._is_lost = True
        await self.end(GOING_AWAY, "the client left")

    async def _close_socket(self) -> None:
        """Closes the web socket with the code and reason of the session's end."""
        code, reason = self._ended or (DONE, "")
        with suppress(*_GONE, TimeoutError):
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await self._socket.close(code, reason.encode()[:120].decode(errors="ignore"))
