"""A chat server that streams its answers (server-sent events) in the test's own event loop, as it is told to."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from backends.chat.protocol import Endpoint

MODEL = "streamer"
Write = Callable[[bytes], Awaitable[None]]


def piece(text: str) -> bytes:
    """The event that adds a piece of the answer."""
    return event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})


def event(body: object) -> bytes:
    """An event with any JSON."""
    return b"data: " + json.dumps(body).encode() + b"\n\n"


STOP = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
USAGE = event(
    {
        "choices": [],
        "usage": {"prompt_tokens": 11, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}},
    }
)
DONE = b"data: [DONE]\n\n"


class StreamingChat:
    """What a server answers and what it has seen.

    Attributes:
        answer: writes the events of one answer; replaced by tests.
        status: status of every answer from now on; other than 200, answers are errors with `headers`.
        bodies: requests received, in order.
        n_open: answers that are being written.
        n_hung_up: answers whose client went away before their end.
        changed: set whenever an answer begins or ends.
    """

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces or ("I think ", "it is ", "the moon.")
        self.status = 200
        self.headers: dict[str, str] = {}
        self.bodies: list[dict[str, Any]] = []
        self.n_open = self.n_hung_up = 0
        self.changed = asyncio.Event()
        self.answer: Callable[[dict[str, Any], Write], Awaitable[None]] = self.say_pieces

    async def say_pieces(self, body: dict[str, Any], write: Write) -> None:
        """Writes all pieces as events, and then the stop, the usage and the end."""
        for text in self.pieces:
            await write(piece(text))
        await write(STOP + USAGE + DONE)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits until a condition holds, which is checked whenever an answer begins or ends.

        Raises:
            TimeoutError: nothing has changed for 20 s.
        """
        while not holds():
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), 20)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers a request by `answer`, or with an error if `status` is not 200."""
        self.bodies.append(await request.json())
        if self.status != 200:
            key = request.headers.get("Authorization", "")
            body = {"error": {"message": f"fault, asked with {key}"}}
            return web.json_response(body, status=self.status, headers=self.headers)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        self._count(1)
        try:
            await response.prepare(request)
            await self.answer(self.bodies[-1], response.write)
        except (asyncio.CancelledError, ConnectionError):
            self.n_hung_up += 1
            raise
        finally:
            self._count(-1)
        return response

    def _count(self, change: int) -> None:
        self.n_open += change
        self.changed.set()


@asynccontextmanager
async def serving(chat: StreamingChat) -> AsyncIterator[Endpoint]:
    """Serves during a `with` block, and yields the server's endpoint."""
    app = web.Application()
    app.add_routes([web.post("/v1/chat/completions", chat.handle)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield Endpoint("streamer", f"http://{host}:{port}/v1", MODEL, "")
    finally:
        await runner.cleanup()
