"""Moonshine behind a web socket in a process of its own, which can be killed.

    python -m tests.support.recogniser_process --port PORT

It speaks the protocol of `backends/listener/websocket.py`, which the server's ears use to reach it.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from backends.chat.child_server import find_free_port
from backends.listener.moonshine import MoonshineListener, MoonshineListenerOptions
from backends.listener.protocol import Heard, StreamingRecogniser
from tests.support.runs import RunError

_FINAL_S = 6.0
"""How long the server waits for last words: the process itself waits for two seconds, and is not alone."""


class RecogniserProcess:
    """The process, which can be killed and started anew at the same port."""

    def __init__(self) -> None:
        self._port = find_free_port(0, "test")
        self._process: subprocess.Popen[str] | None = None

    @property
    def settings(self) -> list[str]:
        """Settings with which a server listens by this process (`kame serve --set`)."""
        return [
            "listener.engine=websocket",
            f"listener.options.url=ws://127.0.0.1:{self._port}",
            f"listener.options.final_timeout_s={_FINAL_S}",
        ]

    def start(self) -> None:
        """Starts it; returns when it listens.

        Raises:
            RunError: it does not start.
        """
        command = [sys.executable, "-m", "tests.support.recogniser_process", "--port", str(self._port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            self.kill()
            raise RunError("The recogniser's process does not start.")

    def kill(self) -> None:
        """Ends it without a word to anybody, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None


@contextmanager
def recogniser_process() -> Iterator[RecogniserProcess]:
    """One that runs, and is gone after the block.

    Raises:
        RunError: it does not start.
    """
    process = RecogniserProcess()
    process.start()
    try:
        yield process
    finally:
        process.kill()


async def serve_recogniser(recogniser: StreamingRecogniser, port: int) -> None:
    """Serves until it is cancelled; says so on standard output when it can be reached."""
    async with serve(lambda connection: converse(recogniser, connection), "127.0.0.1", port):
        print("ready", flush=True)
        await asyncio.get_running_loop().create_future()


async def converse(recogniser: StreamingRecogniser, connection: ServerConnection) -> None:
    """Passes the sound of a connection to a recogniser, and sends back what it hears, until the connection closes."""
    loop = asyncio.get_running_loop()
    told: asyncio.Queue[Heard] = asyncio.Queue()

    def on_heard(heard: Heard) -> None:
        loop.call_soon_threadsafe(told.put_nowait, heard)

    ear = recogniser.listen(on_heard)

    async def tell() -> None:
        while True:
            heard = await told.get()
            message = {"type": "heard", "text": heard.text, "is_final": heard.is_final}
            await connection.send(json.dumps(message))

    telling = asyncio.create_task(tell())
    try:
        with suppress(ConnectionClosed):
            async for message in connection:
                if isinstance(message, bytes):
                    ear.feed(np.frombuffer(message, "<i2").astype(np.float32) / np.float32(32768))
                elif json.loads(message)["type"] == "end_turn":
                    ear.end_turn()
    finally:
        ear.close()
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    port: int = parser.parse_args().port
    asyncio.run(serve_recogniser(MoonshineListener(MoonshineListenerOptions()), port))


if __name__ == "__main__":
    main()
