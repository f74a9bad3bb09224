"""A process of a server without a model: it keeps the parent's rules, and says to each caller who it is.

A caller talks as long as its connection is open, and may say `die`. The checkpoint's name tells it apart; one called
`broken` does not start.
"""

import argparse
import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress

from data_schemas.config.serving import ServeConfig
from kame_model.serve.processes.channel import END, RETIRE, Phase, Report, receive_message, send_report


class LightMember:
    """A member of a server's processes: its callers, and what it tells the parent of them."""

    def __init__(self, channel: socket.socket, number: int, config: ServeConfig) -> None:
        self.is_over = asyncio.Event()
        self._channel, self._number, self._config = channel, number, config
        self._callers: set[asyncio.Task[None]] = set()
        self._n_taken, self._is_draining = 0, False
        self.tell()

    def tell(self) -> None:
        """Tells the parent how it stands; if it is draining and has no callers, it is over."""
        n, most = len(self._callers), self._config.limits.max_sessions
        unready = "draining" if self._is_draining else "full" if n >= most else ""
        phase: Phase = "draining" if self._is_draining else "serving"
        report = Report(
            phase=phase, n_sessions=n, n_connections=n, n_free=most - n, n_taken=self._n_taken, unready=unready
        )
        send_report(self._channel, report)
        if self._is_draining and not n:
            self.is_over.set()

    def drain(self) -> None:
        """Ends as soon as its callers have."""
        self._is_draining = True
        self.tell()

    def take(self) -> None:
        """Receives from the parent a connection to take, or a message to end soon or at once."""
        given = receive_message(self._channel)
        if isinstance(given, socket.socket):
            given.setblocking(False)
            self._n_taken += 1
            caller = asyncio.create_task(self._talk(given))
            self._callers.add(caller)
            caller.add_done_callback(self._leave)
            self.tell()
        elif given == RETIRE:
            self.drain()
        elif given == END or not given:
            self.is_over.set()

    async def _talk(self, caller: socket.socket) -> None:
        """Tells a caller who serves it, and waits until it leaves; kills this process if it says `die`."""
        loop = asyncio.get_running_loop()
        with caller:
            address = "{}:{}".format(*caller.getpeername())
            said = f"{self._number} {os.getpid()} {self._config.checkpoint} {address}\n"
            await loop.sock_sendall(caller, said.encode())
            with suppress(OSError):
                if await loop.sock_recv(caller, 64) == b"die":
                    os.kill(os.getpid(), signal.SIGKILL)

    def _leave(self, caller: "asyncio.Task[None]") -> None:
        self._callers.discard(caller)
        self.tell()


async def serve(channel: socket.socket, number: int, config: ServeConfig) -> None:
    """Serves until the parent or SIGTERM ends it."""
    member, loop = LightMember(channel, number, config), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, member.drain)
    loop.add_reader(channel, member.take)
    await member.is_over.wait()


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser()
    for name in ("--channel", "--number"):
        parser.add_argument(name, type=int)
    parser.add_argument("--folder")
    options = parser.parse_args()
    config = ServeConfig.model_validate_json(sys.stdin.read())
    with socket.socket(fileno=options.channel) as channel:
        if config.checkpoint == "broken":
            send_report(
                channel,
                Report(phase="failed", error_kind="ConfigError", error_what="It is broken.", error_remedy="Mend it."),
            )
            sys.exit(2)
        channel.setblocking(False)
        asyncio.run(serve(channel, options.number, config))


if __name__ == "__main__":
    main()
