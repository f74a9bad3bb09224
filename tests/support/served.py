"""A whole server with its web: reached over the network of this machine, or as ASGI on a simulated clock."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
from starlette.types import ASGIApp, Message

from data_schemas.config.serving import RecordConfig
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.device.engine import RunInThread
from kame_model.serve.parts import ServerParts
from kame_model.serve.server import KameServer
from kame_model.serve.session.recordings import RecordingFacts, Recordings
from kame_model.serve.web.app import create_app
from kame_model.serve.web.transport import WebServer
from tests.support.inline_threads import InlineThreads
from tests.support.serving import doubles, inline, serve_config


@dataclass(frozen=True, slots=True)
class Served:
    """A server, the host:port it is at, and the task that is done when its web has ended."""

    server: KameServer
    place: str
    web: "asyncio.Task[None]"


@asynccontextmanager
async def served(
    checkpoint: Checkpoint, page: Path | None = None, parts: ServerParts | None = None, **changes: Any
) -> AsyncIterator[Served]:
    """Serves over the network of this machine during a `with` block, and yields the server.

    Args:
        page: folder served at `/`.
        parts: None: doubles in which everything is traced to its caller.
        changes: changes of the configuration.
    """
    config = serve_config(**changes)
    async with KameServer(checkpoint, config, parts or doubles(), run=inline) as server:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            web = WebServer(create_app(server, page), config, closing_s=1)
            running = asyncio.create_task(web.serve([listener]))
            try:
                await web.has_started.wait()
                yield Served(server, f"127.0.0.1:{listener.getsockname()[1]}", running)
            finally:
                web.should_exit = True
                await running


@asynccontextmanager
async def app_of(
    checkpoint: Checkpoint | None, parts: ServerParts | None = None, run: RunInThread = inline, **changes: Any
) -> AsyncIterator[tuple[KameServer, ASGIApp]]:
    """Runs a server during a `with` block, and yields it with its app, without a network."""
    config = serve_config(**changes)
    async with KameServer(checkpoint, config, parts or doubles(), run=run) as server:
        yield server, create_app(server)


@asynccontextmanager
async def recording_app(
    checkpoint: Checkpoint, folder: Path, notice: str = "It is kept.", **changes: Any
) -> AsyncIterator[tuple[KameServer, ASGIApp]]:
    """As `app_of`, of a server that records those who agree into a folder."""
    config = RecordConfig(folder=str(folder), notice=notice)
    about = RecordingFacts(checkpoint="tiny", recogniser="double", notice=notice)
    recordings = Recordings(config, about, thread=InlineThreads())
    async with app_of(checkpoint, doubles(recordings=recordings), record=config, **changes) as served:
        yield served
    await recordings.aclose()


def http_client(app: ASGIApp, address: str = "192.0.2.1", **headers: str) -> httpx.AsyncClient:
    """Returns an HTTP client of an app without a network; callers are told apart by their `address`."""
    transport = httpx.ASGITransport(app, client=(address, 4711))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)


class AsgiSocket:
    """A web socket's client without a network.

    Attributes:
        accepted: headers of the acceptance; None: not accepted.
        status, answer: of the HTTP answer that refused it; 0: it was not refused.
        received: messages, bytes or text.
        closed: code and reason; None: it is open.
        takes: cleared, it takes nothing that is sent, as a client that is stuck.
    """

    def __init__(
        self, app: ASGIApp, url: str, headers: dict[str, str] | None = None, address: str = "192.0.2.1"
    ) -> None:
        path, _, query = url.partition("?")
        self.accepted: dict[str, str] | None = None
        self.status = 0
        self.answer: dict[str, Any] = {}
        self.received: list[bytes | str] = []
        self.closed: tuple[int, str] | None = None
        self.takes = asyncio.Event()
        self.takes.set()
        self._sent: asyncio.Queue[Message] = asyncio.Queue()
        self._sent.put_nowait({"type": "websocket.connect"})
        scope = {
            "type": "websocket",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
            "client": (address, 4711),
            "scheme": "ws",
            "subprotocols": [],
            "extensions": {"websocket.http.response": {}},
        }
        self.over = asyncio.ensure_future(app(scope, self._sent.get, self._take))

    def send(self, message: bytes | str | dict[str, Any]) -> None:
        """Sends bytes, text, or an object as JSON."""
        kind = "bytes" if isinstance(message, bytes) else "text"
        data = json.dumps(message) if isinstance(message, dict) else message
        self._sent.put_nowait({"type": "websocket.receive", kind: data})

    async def leave(self) -> None:
        """Disconnects, and waits until the server is done with it."""
        self._sent.put_nowait({"type": "websocket.disconnect", "code": 1005})
        await self.over

    @property
    def events(self) -> list[dict[str, Any]]:
        """What was received as text, read as JSON."""
        return [json.loads(message) for message in self.received if isinstance(message, str)]

    async def _take(self, message: Message) -> None:
        await self.takes.wait()
        match message["type"]:
            case "websocket.accept":
                self.accepted = {name.decode().lower(): value.decode() for name, value in message["headers"]}
                self.accepted["subprotocol"] = message.get("subprotocol") or ""
            case "websocket.http.response.start":
                self.status = message["status"]
            case "websocket.http.response.body":
                self.answer = json.loads(message["body"])
            case "websocket.close":
                self.closed = message["code"], message["reason"]
            case _:
                self.received.append(message["bytes"] if message.get("bytes") is not None else message["text"])
