"""A mail server on this machine that keeps what it is sent."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Session(socketserver.StreamRequestHandler):
    """As much of SMTP as one message needs."""

    def handle(self) -> None:
        self._say("220 here")
        while line := self.rfile.readline():
            word = line[:4].upper().strip()
            if word == b"DATA":
                self._say("354 go on")
                lines = list(iter(self.rfile.readline, b".\r\n"))
                self.server.messages.append(b"".join(lines).decode())  # type: ignore[attr-defined]
            self._say("221 bye" if word == b"QUIT" else "250 fine")
            if word == b"QUIT":
                return

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def mail_server() -> Iterator[tuple[int, list[str]]]:
    """Runs a mail server during a `with` block, and yields its port and the list to which it adds each message."""
    messages: list[str] = []
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Session) as server:
        server.messages = messages  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1], messages
        finally:
            server.shutdown()
            thread.join()
