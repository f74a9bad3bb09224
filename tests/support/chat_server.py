"""A chat server to test and measure clients with: real HTTP, as slow, busy, limited and faulty as it is told to be.

    python -m tests.support.chat_server '{"n_slots": 64, "first_token_s": 0.2, "tokens_per_s": 50}'

writes `{"base_url": …}` and serves until its standard input is closed. Its answers are those of `backends.chat.double`:
a pure function of the request. `GET /counts` tells what it has seen. Tests run it in a thread (`served`), benchmarks in
a process (`served_apart`), so that it does not take the client's processor time.
"""

import asyncio
import dataclasses
import json
import random
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from backends.chat.double import make_answer
from data_schemas import ids
from tests.support.chat_batches import BatchRoutes
from tests.support.chat_counts import Counts

MODEL = "test-model"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
FAULTS = ("429", "500", "503", "malformed", "empty", "cut", "hang-up", "stall")


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How a server is.

    Args:
        n_slots: answers written at once; further requests wait.
        n_queue: how many may wait; those beyond get a 429.
        first_token_s: until the first token of an answer, seconds.
        tokens_per_s: of one answer; a word is a token.
        fault_share: share of tries that meet a fault, evenly of `faults`, drawn by `seed`, request and try.
        retry_after_s: what a 429 asks to wait, seconds.
        stall_s: how long a stalled request is held, seconds.
        key, key_header: what a request must carry; no key: nothing.
        refused_fields: fields of a payload that are answered with 400.
        prefix: path before `/chat/completions`, as it appears in the URL.
        query: what the URL's query must hold.
        n_looks: how often a batch is looked at before it has ended.
        batch_status: how batches end.
        batch_faults: what the first requests meet by call (`upload`, `make`, `list`, `look`, `content`): a status,
            "lost" (it is done, and nobody hears of it) or "gone" (there is no such thing any more).
        max_enqueued: requests in batches that have not ended, beyond which one fails as token_limit_exceeded; 0: none.
        n_bad_lines: how many lines of batches' output, the first ones, are no JSON.
        ending: what the text of each answer ends with.
        tells_usage: whether an answer tells its tokens.
        tells_cached: whether it tells, with them, how many came from its prefix cache; else null stands there.
        thinks: whether each answer begins with its thoughts, which count against the bound on its tokens (as the
            templates of Qwen3 have it), unless the request says enable_thinking: false.
        thought: what those are.
        answers_as: the model that its answers name, with a fingerprint; empty: the one asked for, without.
        list_faults: statuses that the first requests for the list of models get.
    """

    n_slots: int = 64
    n_queue: int = 10_000
    first_token_s: float = 0.0
    tokens_per_s: float = 1e6
    fault_share: float = 0.0
    faults: tuple[str, ...] = FAULTS
    seed: int = 0
    retry_after_s: float = 0.0
    stall_s: float = 3600.0
    key: str = ""
    key_header: str = "Authorization"
    refused_fields: tuple[str, ...] = ()
    prefix: str = "/v1"
    query: dict[str, str] = field(default_factory=dict)
    n_looks: int = 2
    batch_status: str = "completed"
    batch_faults: dict[str, list[str]] = field(default_factory=dict)
    max_enqueued: int = 0
    n_bad_lines: int = 0
    ending: str = ""
    tells_usage: bool = True
    tells_cached: bool = False
    thinks: bool = False
    thought: str = "Okay, the user has asked for something. I should think about it."
    answers_as: str = ""
    list_faults: tuple[int, ...] = ()


class ChatServer:
    """The routes of one server."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.counts = Counts()
        self._slots = asyncio.Semaphore(behaviour.n_slots)
        self._n_waiting = 0
        self._list_faults = list(behaviour.list_faults)

    def app(self) -> web.Application:
        """Makes the application; it is called once."""
        app = web.Application(client_max_size=2**28, middlewares=[self._only_with_key_and_query])
        prefix = self.behaviour.prefix
        batches = self.batches = BatchRoutes(self.behaviour, self._line_answer)
        app.add_routes(
            [
                web.post(f"{prefix}/chat/completions", self._complete),
                web.get(f"{prefix}/models", self._models),
                web.get("/counts", self._tell_counts),
                web.get("/health", self._healthy),
                *batches.routes(prefix),
            ]
        )
        return app

    async def _tell_counts(self, request: web.Request) -> web.Response:
        return web.json_response(self.counts.as_json())

    async def _healthy(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _models(self, request: web.Request) -> web.Response:
        if self._list_faults:
            return _error(self._list_faults.pop(0), "not now")
        return web.json_response({"object": "list", "data": [{"id": MODEL}]})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        """Answers a request for a completion: refused, with a fault, too many waiting, or with an answer."""
        body = await request.json()
        self.counts.bodies.append(body)
        refusal = self._refusal(body)
        if refusal is not None:
            return refusal
        fault = self._fault(body)
        if fault is not None:
            self.counts.n_faults[fault] += 1
            return await self._misbehave(request, fault)
        if self._n_waiting >= self.behaviour.n_queue:
            self.counts.n_faults["queue full"] += 1
            return self._slow_down()
        return await self._answer(body)

    @web.middleware
    async def _only_with_key_and_query(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answers 401 without the right key, and 404 without the right query."""
        like = self.behaviour
        bearer = "Bearer " if like.key_header == "Authorization" else ""
        given = request.headers.get(like.key_header, "")
        if like.key and request.path.startswith(like.prefix):
            self.counts.n_keys[given] += 1
            if given != bearer + like.key:
                return _error(401, f"Incorrect API key provided: {given}")
        if any(request.query.get(name) != value for name, value in like.query.items()):
            return _error(404, "no such api-version")
        return await handler(request)

    def _refusal(self, body: dict[str, Any]) -> web.Response | None:
        """Returns the error for another model or a refused field; None if the request is allowed."""
        if body["model"] != MODEL:
            return _error(404, f"The model {body['model']!r} does not exist")
        refused = [name for name in self.behaviour.refused_fields if name in body]
        return _error(400, f'Unknown name "{refused[0]}": Cannot find field.') if refused else None

    def _fault(self, body: dict[str, Any]) -> str | None:
        """Counts a try of a request, and returns the fault that it meets; None for no fault."""
        key = ids.digest(body)
        self.counts.n_tries[key] += 1
        drawn = random.Random(ids.derive_seed("fault", self.behaviour.seed, key, self.counts.n_tries[key]))
        return drawn.choice(self.behaviour.faults) if drawn.random() < self.behaviour.fault_share else None

    def _slow_down(self) -> web.Response:
        response = _error(429, "slow down")
        response.headers["Retry-After"] = str(self.behaviour.retry_after_s)
        return response

    async def _misbehave(self, request: web.Request, fault: str) -> web.StreamResponse:
        """Answers with a fault."""
        if fault == "429":
            return self._slow_down()
        if fault.isdigit():
            return _error(int(fault), f"fault {fault}")
        if fault == "malformed":
            return web.Response(text='{"choices": [{"message"', content_type="application/json")
        if fault == "empty":
            return web.json_response({"choices": []})
        response = web.StreamResponse(headers={"Content-Length": "1000", "Content-Type": "application/json"})
        if fault == "stall":
            await asyncio.sleep(self.behaviour.stall_s)
        if fault != "hang-up":
            await response.prepare(request)
            await response.write(b'{"choices": [{"message": {"role"')
        if request.transport is not None:
            request.transport.close()
        return response

    async def _answer(self, body: dict[str, Any]) -> web.Response:
        """Waits for a slot, and then as long as the answer takes, and answers."""
        self._n_waiting += 1
        async with self._slots:
            self._n_waiting -= 1
            self.counts.busy(1)
            try:
                completion = self._completion(body)
                n_out = len(completion["choices"][0]["message"]["content"].split())
                await asyncio.sleep(self.behaviour.first_token_s + n_out / self.behaviour.tokens_per_s)
            finally:
                self.counts.busy(-1)
        return web.json_response(completion)

    def _completion(self, body: dict[str, Any]) -> dict[str, Any]:
        """Makes the body of an answer, and counts it."""
        self.counts.n_answers[ids.digest(body)] += 1
        text, reason = make_answer(body) + self.behaviour.ending, "stop"
        if self.behaviour.thinks and body.get("chat_template_kwargs", {}).get("enable_thinking", True):
            text, reason = self._with_thought(text, body)
        n_in = sum(len(str(message["content"]).split()) for message in body["messages"])
        details = {"cached_tokens": 0} if self.behaviour.tells_cached else None
        usage = {"prompt_tokens": n_in, "completion_tokens": len(text.split()), "prompt_tokens_details": details}
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
        told: dict[str, Any] = {"usage": usage} if self.behaviour.tells_usage else {}
        if self.behaviour.answers_as:
            told |= {"system_fingerprint": "fp_1"}
        model = self.behaviour.answers_as or body["model"]
        return {"object": "chat.completion", "model": model, "choices": [choice], **told}

    def _with_thought(self, text: str, body: dict[str, Any]) -> tuple[str, str]:
        """Returns an answer behind its thoughts, cut at the maximum number of tokens, and the reason of its end."""
        words = f"<think>\n{self.behaviour.thought}\n</think>\n\n{text}".split(" ")
        n_most = body.get("max_tokens") or body.get("max_completion_tokens") or len(words)
        return " ".join(words[:n_most]), "length" if len(words) > n_most else "stop"

    def _line_answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and body of one line of a batch."""
        self.counts.bodies.append(body)
        fault = self._fault(body)
        if fault is not None:
            self.counts.n_faults[fault] += 1
            return 500, {"error": {"message": f"fault {fault}"}}
        return 200, self._completion(body)


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message}}, status=status)


async def _start(server: ChatServer, port: int = 0) -> tuple[web.AppRunner, str]:
    runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=0.05, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, backlog=1024)
    await site.start()
    host, port = runner.addresses[0][:2]
    return runner, f"http://{host}:{port}"


@contextmanager
def served(behaviour: Behaviour) -> Iterator[tuple[str, ChatServer]]:
    """Runs a server in a thread of this process during a `with` block, and yields its root URL and the server."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        server = ChatServer(behaviour)
        runner, root = asyncio.run_coroutine_threadsafe(_start(server), loop).result()
        try:
            yield root, server
        finally:
            asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def served_apart(behaviour: Behaviour) -> Iterator[str]:
    """Runs a server in a process of its own during a `with` block, and yields its root URL."""
    command = [sys.executable, "-m", "tests.support.chat_server", json.dumps(dataclasses.asdict(behaviour))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["root"]


async def _serve_until_stdin_closes(behaviour: Behaviour) -> None:
    runner, root = await _start(ChatServer(behaviour))
    print(json.dumps({"root": root}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(_serve_until_stdin_closes(Behaviour(**json.loads(sys.argv[1]))))
