"""A server of S3's protocol on this machine (moto's), behind a proxy that answers wrongly where a test says so."""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
from moto.server import ThreadedMotoServer

from tests.support.http_servers import QuietHandler, http_server

Fault = Literal["500", "503", "cut", "cut_after", "slow"]
"""An error of the server; a connection cut before the request was done, or after it and before its answer; an answer
that comes later than the client waits for it."""
Decide = Callable[[str, str], Fault | None]
"""Is given method and path of a request."""


class S3:
    """The server's address, and what goes wrong with it.

    Attributes:
        decide: chooses the fault of each request; replaced by tests.
        asked: method and path of each request, in order.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._writing = threading.Lock()  # moto looks at a condition and writes in two steps
        self.decide: Decide = lambda method, path: None
        self.asked: list[tuple[str, str]] = []

    def forward(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> http.client.HTTPResponse:
        """Sends a request to the server, and returns its answer; only one request that may write is sent at a time."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        if method == "GET" or method == "HEAD":
            connection.request(method, path, body or None, headers)
            return connection.getresponse()
        with self._writing:
            connection.request(method, path, body, headers)
            return connection.getresponse()


@contextmanager
def s3_server(bucket: str) -> Iterator[tuple[S3, str]]:
    """Runs a server with an empty bucket during a `with` block; yields it and the URL of the proxy in front of it."""
    moto = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    moto.start()
    _, port = moto.get_host_and_port()
    s3 = S3(port)

    class Proxy(QuietHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = s3.decide(self.command, self.path)
            s3.asked.append((self.command, self.path))
            if fault == "cut":
                self.close_connection = True
                return
            if fault in ("500", "503"):
                self.answer(int(fault), b"<Error><Code>InternalError</Code></Error>", "application/xml")
                return
            found = s3.forward(self.command, self.path, body, dict(self.headers))
            data = found.read()
            if fault == "slow":
                self.connection.recv(1)  # returns when the client has given up
            if fault in ("cut_after", "slow"):
                self.close_connection = True
                return
            self.send_response(found.status)
            for name, value in found.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            length = found.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = pass_on  # noqa: N815

    try:
        s3.forward("POST", "/moto-api/reset", b"", {}).read()  # all servers of a process share their buckets
        s3.forward("PUT", f"/{bucket}", b"", {}).read()
        with http_server(Proxy) as url:
            yield s3, url
    finally:
        moto.stop()


def use_s3(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a server the one that this process and its children find."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
