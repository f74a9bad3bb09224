"""Chat server for tests: a real HTTP server whose answer is a pure function of the request, with faults on demand."""

import http.server
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from backends.chat.protocol import Endpoint
from data_schemas import ids
from data_schemas.config import ChatConfig

MODEL = "double"
Fault = int | Literal["retry-after", "retry-later", "stall", "hang-up", "malformed", "empty"]
"""What happens instead of an answer: an HTTP status; 429 with a Retry-After of 10 ms or one hour; no response while the
server runs; a closed connection; a body that is not JSON; no choices."""
RETRY_AFTER: dict[Fault | None, str] = {"retry-after": "0.01", "retry-later": "3600"}
MOST_REMEMBERED = 4096
"""Maximum number of requests that the server remembers, so that its memory does not grow in runs of a whole corpus."""
_SENTENCE = """maybe the answer comes from what you said so far and I would look at each part in turn before I say
how many there are because that often helps us find out which one it should be when we know more about it"""
WORDS = tuple(_SENTENCE.split())


def make_answer(payload: dict[str, Any]) -> str:
    """Makes 12 to 20 plain words, fewer if `max_tokens` is smaller; the same for the same payload."""
    seed = int(ids.digest("double", payload), 16)
    n_words = min(12 + seed % 9, int(payload.get("max_tokens") or 20))
    return " ".join(WORDS[(seed >> (2 * place)) % len(WORDS)] for place in range(n_words))


class DoubleEngine:
    """Serves `make_answer` on a free local port, from threads of this process.

    Args:
        config: only `endpoint` is used, as the endpoint's name.
        faults: outcomes of the first requests, in the order of arrival; `None` is an answer.
        faults_for_ever: outcome of every later request; None: an answer.

    `requests` holds the payloads of the last `MOST_REMEMBERED` requests, including failed ones.
    """

    def __init__(
        self, config: ChatConfig, faults: Sequence[Fault | None] = (), faults_for_ever: Fault | None = None
    ) -> None:
        self.requests: list[dict[str, Any]] = []
        self._name = config.endpoint or "double"
        self._faults = list(faults)
        self._faults_for_ever = faults_for_ever
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    def describe(self) -> Endpoint:
        """Returns the endpoint without its base URL."""
        return Endpoint(self._name, base_url="", model=MODEL, model_digest="double-1")

    @contextmanager
    def serve(self) -> Iterator[Endpoint]:
        """Runs the server for the duration of the block and yields its endpoint."""
        self._stopping.clear()
        with _Server(self) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
                yield Endpoint(self._name, base_url, MODEL, self.describe().model_digest)
            finally:
                self._stopping.set()
                server.shutdown()
                thread.join()

    def take(self, payload: dict[str, Any]) -> Fault | None:
        """Records a request and returns the fault that it gets; None if it is to be answered."""
        with self._lock:
            self.requests.append(payload)
            del self.requests[:-MOST_REMEMBERED]
            return self._faults.pop(0) if self._faults else self._faults_for_ever

    def wait_until_stopping(self) -> None:
        """Blocks for as long as the server runs."""
        self._stopping.wait()


class _Server(http.server.ThreadingHTTPServer):
    """Threaded server of a `DoubleEngine` on a free local port."""

    daemon_threads = True
    request_queue_size = 128  # backlog of connections; with socketserver's five, clients with many in flight retry
    block_on_close = False  # keep-alive connections of clients would block it

    def __init__(self, engine: DoubleEngine) -> None:
        self.engine = engine
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Prints nothing: a client that hangs up is no fault of the server, and other errors fail the client's test."""


class _Handler(http.server.BaseHTTPRequestHandler):
    """Handles the requests of one connection by the engine of its server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # header and body are two writes; the second would wait 40 ms for an ACK
    server: _Server

    def do_GET(self) -> None:
        """Sends the list of models, whatever the path is."""
        self._send(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def do_POST(self) -> None:
        """Answers the request, or does instead what the engine's next fault says."""
        payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fault = self.server.engine.take(payload)
        if isinstance(fault, int):
            key = self.headers.get("Authorization", "")
            self._send(fault, {"error": {"message": f"fault {fault}, asked with {key}"}})  # the worst that servers do
        elif fault in RETRY_AFTER:
            self._send(429, {"error": {"message": "slow down"}}, {"Retry-After": RETRY_AFTER[fault]})
        elif fault == "malformed":
            self._send(200, b'{"choices": [{"message"')
        elif fault == "empty":
            self._send(200, {"choices": []})
        elif fault is None:
            self._answer(payload)
        else:
            if fault == "stall":
                self.server.engine.wait_until_stopping()
            self.close_connection = True

    def _answer(self, payload: dict[str, Any]) -> None:
        """Sends the answer to a payload, as server-sent events if the payload asks for a stream."""
        completion = _make_completion(payload)
        if payload.get("stream"):
            self._send(200, _make_events(completion), {"Content-Type": "text/event-stream"})
        else:
            self._send(200, completion)

    def _send(self, status: int, body: dict[str, Any] | bytes, headers: dict[str, str] | None = None) -> None:
        """Sends a response with a body of bytes, or of an object as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        default_headers = {"Content-Type": "application/json", "Content-Length": str(len(content))}
        for name, value in (default_headers | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Prints nothing; the base class prints each request."""


def _make_completion(payload: dict[str, Any]) -> dict[str, Any]:
    """Makes the response to a payload, with words counted as tokens."""
    text = make_answer(payload)
    n_in = sum(len(str(message["content"]).split()) for message in payload["messages"])
    usage = {
        "prompt_tokens": n_in,
        "completion_tokens": len(text.split()),
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    return {
        "object": "chat.completion",
        "model": MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": usage,
    }


def _make_events(completion: dict[str, Any]) -> bytes:
    """Makes the same answer as server-sent events, one for each word."""
    words = completion["choices"][0]["message"]["content"].split(" ")
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": {"content": f" {word}" if at else word}, "finish_reason": None}
        for at, word in enumerate(words)
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    chunk = {"object": "chat.completion.chunk", "model": MODEL}
    events = [{**chunk, "choices": [choice]} for choice in choices]
    events.append({**chunk, "choices": [], "usage": completion["usage"]})
    return "".join(f"data: {event}\n\n" for event in (*map(json.dumps, events), "[DONE]")).encode()
