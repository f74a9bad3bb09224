"""HTTP of a server of several processes: the process that gets a request answers for all of them.

Each process also serves its app at a private Unix socket for the others. They forward the caller's own request with the
caller's address, so that it is handled exactly as if it had arrived there first.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import httpx
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kame_model.serve.processes.shared_counts import SharedCounts

ANSWER_WITHIN_S = 1.0
"""Timeout for the other processes, seconds; those that do not answer are ignored."""
MAX_BODY_BYTES = 65_536
COUNT_IF_UNKNOWN = "kame.count_if_unknown"
"""Key of an ASGI scope: a list of what counts a denial by status 404, called if no other process knows the session."""
_CALLER = b"kame-caller"
"""Header with the caller's address, of forwarded requests."""
_OF_SESSIONS = ("/v1/sessions/", "/v1/recordings/")
_SHARED = ("/readyz", "/metrics", "/v1/about", *_OF_SESSIONS)
_LOG = logging.getLogger(__name__)


class ForwardedRequestApp:
    """ASGI app at a process's private socket: handles forwarded requests as if their callers had connected here."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request to the app with its caller's address, marked as forwarded."""
        if scope["type"] == "http":
            address = dict(scope["headers"]).get(_CALLER, b"unknown").decode()
            headers = [(name, value) for name, value in scope["headers"] if name != _CALLER]
            scope = {**scope, "client": (address, 0), "headers": headers, "kame.is_passed_on": True}
            scope[COUNT_IF_UNKNOWN] = []  # the process that passed it on counts it
        await self._app(scope, receive, send)


class AllProcessesMiddleware:
    """ASGI middleware that answers for all processes of a server where one alone cannot.

    `/readyz` and `/v1/about` report that a caller would be admitted if any process would admit it; `/metrics` has the
    metrics of all, each with the label `process`; requests for `/v1/sessions/ID` and `/v1/recordings/ID` are answered
    by the process that has the session. The caller's access is checked first, here.

    Args:
        number: of this process.
        others: returns a connection to each other process, by number; called for each request.
        counts: of all processes.
    """

    def __init__(
        self,
        app: ASGIApp,
        number: int,
        others: Callable[[], Mapping[int, httpx.AsyncBaseTransport]],
        counts: SharedCounts,
    ) -> None:
        self._app, self._number, self._others, self._counts = app, number, others, counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, by this process alone if its path needs no other."""
        is_alone = scope["type"] != "http" or "kame.is_passed_on" in scope or not scope["path"].startswith(_SHARED)
        if is_alone or scope["method"] == "OPTIONS":  # a browser's preflight request: the same for all processes
            await self._app(scope, receive, send)
            return
        body = await _read_body(receive)
        counts: list[Callable[[], None]] = []
        own = await self._answer_here({**scope, COUNT_IF_UNKNOWN: counts}, body)
        answer = await self._combine(own, scope, body)
        if answer is own:
            for count in counts:
                count()
        for message in answer:
            await send(message)

    async def _answer_here(self, scope: Scope, body: bytes) -> list[Message]:
        """Returns the messages with which this process's own app answers a request."""
        answer: list[Message] = []
        given: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            """Returns the body once, and then that the client has left."""
            return given.pop() if given else {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            answer.append(message)

        await self._app(scope, receive, send)
        return answer

    async def _combine(self, own: list[Message], scope: Scope, body: bytes) -> list[Message]:
        """Returns the answer for all processes, given this one's; the others are asked only if it does not suffice.

        Metrics of all are joined; else it is the first better answer, or this one's if no other process has one.
        """
        path, status = scope["path"], own[0]["status"]
        if path == "/metrics" and status == 200:
            texts = {self._number: _join_body(own).decode()}
            texts |= {number: answer.text for number, answer in await self._ask(scope, body) if answer.is_success}
            return _replace_body(own, join_metrics(texts, self._counts))
        if path == "/readyz" and status != 200:
            return next((_convert_answer(each) for _, each in await self._ask(scope, body) if each.is_success), own)
        if path == "/v1/about" and status == 200 and json.loads(_join_body(own))["refusal"] is not None:
            answers = [each for _, each in await self._ask(scope, body) if each.is_success]
            return next((_convert_answer(each) for each in answers if each.json()["refusal"] is None), own)
        if path.startswith(_OF_SESSIONS) and status == 404:
            return next(
                (_convert_answer(each) for _, each in await self._ask(scope, body) if each.status_code != 404), own
            )
        return own

    async def _ask(self, scope: Scope, body: bytes) -> list[tuple[int, httpx.Response]]:
        """Returns the answers of the other processes, without those that fail."""
        others = dict(self._others())
        answers = await asyncio.gather(*(self._ask_one(*each, scope, body) for each in others.items()))
        return [(number, answer) for number, answer in zip(others, answers, strict=True) if answer is not None]

    async def _ask_one(
        self, number: int, transport: httpx.AsyncBaseTransport, scope: Scope, body: bytes
    ) -> httpx.Response | None:
        """Forwards a request to another process; returns its answer, or None if it fails or takes too long."""
        caller = scope["client"][0] if scope.get("client") else "unknown"
        left_out = (_CALLER, b"content-length", b"transfer-encoding", b"connection", b"accept-encoding")
        headers = [(name, value) for name, value in scope["headers"] if name not in left_out]
        raw_path = scope.get("raw_path") or scope["path"].encode()
        url = httpx.URL("http://process", raw_path=raw_path + (b"?" + scope["query_string"]).rstrip(b"?"))
        try:
            async with (
                asyncio.timeout(ANSWER_WITHIN_S),
                httpx.AsyncClient(transport=transport, timeout=ANSWER_WITHIN_S) as client,
            ):
                return await client.request(
                    scope["method"], url, headers=[*headers, (_CALLER, caller.encode())], content=body
                )
        except (httpx.HTTPError, TimeoutError, OSError) as error:
            _LOG.warning("Process %d does not answer, and is ignored: %s", number, type(error).__name__)
            return None


def get_socket_path(folder: Path, number: int) -> Path:
    """Returns the path of a process's private socket."""
    return folder / f"process-{number}.sock"


def connect_others(folder: Path, number: int) -> dict[int, httpx.AsyncBaseTransport]:
    """Returns, by number, a connection to each process with a private socket in a folder, except this number."""
    numbers = sorted(int(path.stem.removeprefix("process-")) for path in folder.glob("process-*.sock"))
    return {
        each: httpx.AsyncHTTPTransport(uds=str(get_socket_path(folder, each))) for each in numbers if each != number
    }


def join_metrics(texts: Mapping[int, str], counts: SharedCounts) -> bytes:
    """Joins the metrics of several processes to one text for Prometheus, each with the label `process`.

    Counters are not added up: a restart of one process would look like a restart of all.

    Args:
        texts: the `/metrics` of each process, by its number.
        counts: the states of the processes.
    """
    registry = CollectorRegistry()
    registry.register(_JoinedMetrics(texts, counts))
    return generate_latest(registry)


class _JoinedMetrics(Collector):
    """Prometheus collector of the metrics of several processes, with the states and deaths of the processes."""

    def __init__(self, texts: Mapping[int, str], counts: SharedCounts) -> None:
        self._texts, self._counts = texts, counts

    def describe(self) -> list[Metric]:
        """Describes nothing: the registry is used once."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yields each metric once, with the samples of all processes."""
        joined: dict[str, Metric] = {}
        for number, text in sorted(self._texts.items()):
            for family in text_string_to_metric_families(text):
                metric = joined.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for name, labels, value, *_ in family.samples:
                    metric.add_sample(name, {"process": str(number), **labels}, value)
        yield from joined.values()
        states = GaugeMetricFamily(
            "kame_process_serving", "1 if a process takes callers; 0: loading, draining or dead.", labels=["process"]
        )
        deaths = CounterMetricFamily(
            "kame_process_deaths", "How often a process ended unexpectedly.", labels=["process"]
        )
        for number, (state, n_deaths) in self._counts.read_states().items():
            states.add_metric([str(number)], float(state == "serving"))
            deaths.add_metric([str(number)], n_deaths)
        yield states
        yield deaths


async def _read_body(receive: Receive) -> bytes:
    """Reads a request's body, at most a little more than the limit, so that the app then rejects it."""
    body = b""
    while len(body) <= MAX_BODY_BYTES:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] != "http.request" or not message.get("more_body", False):
            break
    return body


def _join_body(messages: list[Message]) -> bytes:
    """Returns the whole body of an answer in ASGI messages."""
    return b"".join(each.get("body", b"") for each in messages[1:])


def _replace_body(own: list[Message], body: bytes) -> list[Message]:
    """Returns an answer with another body, and the content length of that."""
    headers = [(name, value) for name, value in own[0]["headers"] if name.lower() != b"content-length"]
    start = {**own[0], "headers": [*headers, (b"content-length", str(len(body)).encode())]}
    return [start, {"type": "http.response.body", "body": body}]


def _convert_answer(answer: httpx.Response) -> list[Message]:
    """Returns another process's answer as ASGI messages, without the headers that uvicorn adds itself."""
    headers = [(name.lower(), value) for name, value in answer.headers.raw if name.lower() not in (b"date", b"server")]
    return [
        {"type": "http.response.start", "status": answer.status_code, "headers": headers},
        {"type": "http.response.body", "body": answer.content},
    ]
