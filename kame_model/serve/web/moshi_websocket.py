"""Moshi's web socket, `/api/chat`: Opus audio both ways, and the words of the model (REFERENCE: rust/protocol.md).

Kyutai's clients work unchanged. A client that adds `?events=1` receives each event of its session as metadata, and
changes the session by sending metadata. Any client may begin with such metadata, for what is too long for a URL: a
prompt. Messages of kinds that this direction does not have are ignored, as the protocol demands. Opus costs about 1.2
ms of one core per frame, both ways together.
"""

import asyncio
import json
from dataclasses import asdict

import sphn
from pydantic import ValidationError
from starlette.types import Message
from starlette.websockets import WebSocket

from data_schemas.errors import ConfigError
from data_schemas.units import SAMPLE_RATE_HZ
from kame_model.serve.session.events import SessionEvent
from kame_model.serve.session.mailbox import SaidFrame
from kame_model.serve.session.session import Session
from kame_model.serve.web.access import Denied
from kame_model.serve.web.client_websocket import ClientSocket, ConnectionManager, UnfitMessage
from kame_model.serve.web.moshi_protocol import RESTART, Kind
from kame_model.serve.web.rate_limits import Allowance
from kame_model.serve.web.session_changes import Changes

MAX_SOUND_S = 10.0
"""Longest audio in one message. Opus packs 1.3 s of silence into half a kilobyte; no microphone sends more."""
SOUND_SPEED, SOUND_AT_ONCE_S = 1.5, 10.0
"""Decoding limit for a client's audio: the rate relative to real time, and a burst, seconds."""
_SLICE_BYTES = 256
"""Read at a time, so that a message with too much audio is detected early."""


async def serve_moshi(manager: ConnectionManager, socket: WebSocket) -> None:
    """Serves one client of Moshi's protocol from its connection to its end."""
    session = await manager.enter(socket, model=socket.query_params.get("model"))
    if session is not None:
        await MoshiSocket(manager, socket, session).run()


class MoshiSocket(ClientSocket):
    """Moshi's protocol for one client; arguments as for `ClientSocket`."""

    def __init__(self, manager: ConnectionManager, socket: WebSocket, session: Session) -> None:
        super().__init__(manager, socket, session)
        self._wants_events = socket.query_params.get("events") == "1"
        self._has_begun = False
        self._sound = Allowance(SOUND_SPEED * SAMPLE_RATE_HZ, SOUND_AT_ONCE_S * SAMPLE_RATE_HZ)
        self._reader = sphn.OpusStreamReader(SAMPLE_RATE_HZ)
        self._writer = sphn.OpusStreamWriter(SAMPLE_RATE_HZ)

    async def run(self) -> None:
        """Runs the conversation until it ends; a client without events gets the notices as the first text."""
        await self.send(bytes([Kind.HANDSHAKE]))
        if not self._wants_events:
            care, record = self._config.care, self._config.record
            notices = [care.notice if care.notice_as_text else "", record.notice if self._session.is_recorded else ""]
            await self._send(Kind.TEXT, " ".join(each.strip() for each in notices if each.strip()).encode())
        await self.converse()

    async def _on_message(self, message: Message) -> None:
        """Passes on audio, restarts the session, or changes it, by the kind of the message; other kinds are ignored.

        If the client wants no events, a change is ignored too unless it is the first message.
        """
        data: bytes = message.get("bytes") or b""
        kind, body = data[:1], data[1:]
        is_first, self._has_begun = not self._has_begun, True
        if kind == bytes([Kind.AUDIO]):
            await self._hear_opus(body)
        elif kind == bytes([Kind.CONTROL]) and body == RESTART:
            await self._change(b'{"reset": true}', tells_why=self._wants_events)
        elif kind == bytes([Kind.METADATA]) and (self._wants_events or is_first):
            await self._change(body, tells_why=True)

    async def _on_drop(self, reason: str) -> None:
        """Sends why messages are dropped, if the client wants events."""
        if self._wants_events:  # the protocol has no message for it
            await self._send(Kind.ERROR, reason.encode())

    async def _hear_opus(self, packets: bytes) -> None:
        """Decodes audio and passes it on. Audio faster than real time is dropped undecoded, in whole messages (pages of
        Ogg).

        Raises:
            UnfitMessage: it is not Opus in Ogg, or more than `MAX_SOUND_S`.
        """
        if self._sound.amount_left <= 0:
            if self.count_drop("too_much_sound"):
                await self._on_drop("Audio is dropped: it arrives faster than real time.")
            return
        n_samples = 0
        for start in range(0, len(packets), _SLICE_BYTES):
            try:
                samples = self._reader.append_bytes(packets[start : start + _SLICE_BYTES])
            except ValueError as error:
                raise UnfitMessage("the audio is not Opus in Ogg") from error
            n_samples += len(samples)
            self._sound.overdraw(len(samples))
            if n_samples > MAX_SOUND_S * SAMPLE_RATE_HZ:
                raise UnfitMessage(f"more than {MAX_SOUND_S:g} s of audio in one message")
            if len(samples):  # pages without audio do not count as activity
                self._session.hear(samples)
            if start:
                await asyncio.sleep(0)  # long messages let the others go first

    async def _change(self, wishes: bytes, *, tells_why: bool) -> None:
        """Applies `Changes`, as JSON, to the session; if they are rejected, sends the reason if `tells_why`."""
        why = ""
        try:
            self.change(Changes.model_validate_json(wishes))
        except ValidationError as error:
            why = f"{error.errors()[0]['msg']}: {Changes.describe()}"
        except (ConfigError, Denied) as error:
            why = str(error)
        if why and tells_why:
            await self._send(Kind.ERROR, why.encode())

    async def _on_frame(self, frame: SaidFrame) -> None:
        """Sends a frame's audio as Opus, and then its text, if any."""
        await self._send(Kind.AUDIO, self._writer.append_pcm(frame.samples))
        if frame.text:
            await self._send(Kind.TEXT, frame.text.encode())

    async def _on_event(self, event: SessionEvent) -> None:
        """Sends an event as JSON, if the client wants events."""
        if self._wants_events:
            await self._send(Kind.METADATA, _encode_json(event))

    async def _send(self, kind: Kind, body: bytes) -> None:
        """Sends a message unless it is empty."""
        if body:
            await self.send(bytes([kind]) + body)


def _encode_json(event: SessionEvent) -> bytes:
    return json.dumps(asdict(event), ensure_ascii=False, separators=(",", ":")).encode()
