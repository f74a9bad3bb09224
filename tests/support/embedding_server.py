"""A real HTTP server with OpenAI's `/v1/embeddings`: a vector counts a text's words, so texts alike have one alike."""

import http.server
import json
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

N_DIMENSIONS = 64


class EmbeddingServer(http.server.ThreadingHTTPServer):
    """A server on a free port of this machine.

    Attributes:
        asked: bodies of the requests that were answered with vectors, in order.
        keys: the `Authorization` of each request.
        statuses: statuses of the next answers, instead of vectors; each is used once.
        answer: makes the body; replaced by tests.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.statuses: list[int] = []
        self.answer = counted
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """Its base URL, with /v1."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    @property
    def texts(self) -> list[str]:
        """All texts of the requests in `asked`, in order."""
        return [text for body in self.asked for text in body["input"]]


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    """A server for the time of a block."""
    with EmbeddingServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def counted(texts: list[str]) -> dict[str, Any]:
    """Returns an answer with a vector for each text, in reverse order; vectors are not normalised."""
    data = [{"object": "embedding", "index": at, "embedding": _counts(text)} for at, text in enumerate(texts)]
    return {"object": "list", "data": data[::-1], "model": "counts", "usage": {"prompt_tokens": 1, "total_tokens": 1}}


def _counts(text: str) -> list[float]:
    """Returns how often each of `N_DIMENSIONS` classes of words is in a text; all zeros for an empty text."""
    places = [zlib.crc32(word.strip(".,?!").lower().encode()) % N_DIMENSIONS for word in text.split()]
    return [float(places.count(place)) for place in range(N_DIMENSIONS)]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: EmbeddingServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.keys.append(self.headers.get("Authorization", ""))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        if self.path != "/v1/embeddings":
            status = 404
        if status == 200:
            self.server.asked.append(body)
        told = self.server.answer(body["input"]) if status == 200 else {"error": {"message": f"fault {status}"}}
        content = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: the base class writes each request to the terminal."""
