"""An HTTP server on this machine in a thread of its own, for clients that block or choose their own event loop."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class QuietHandler(BaseHTTPRequestHandler):
    """Answers as its subclass says, and writes no log."""

    def got(self) -> None:
        """Answers a GET or a HEAD; with status 405 unless a subclass does otherwise."""
        self.answer(405, b"{}")

    def posted(self, body: bytes) -> None:
        """Answers a POST; with status 405 unless a subclass does otherwise."""
        self.answer(405, b"{}")

    def put(self, body: bytes) -> None:
        """Answers a PUT; with status 405 unless a subclass does otherwise."""
        self.answer(405, b"{}")

    def answer(self, status: int, body: bytes, kind: str = "application/json", **headers: str) -> None:
        """Sends a whole answer; `_` in a header's name stands for `-`."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        self.got()

    def do_HEAD(self) -> None:
        self.got()

    def do_PUT(self) -> None:
        self.put(self.rfile.read(int(self.headers["Content-Length"])))

    def do_POST(self) -> None:
        self.posted(self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextmanager
def http_server(handler: type[QuietHandler]) -> Iterator[str]:
    """Runs a server during a `with` block, and yields its URL without a final slash."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
