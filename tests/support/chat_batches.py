"""OpenAI's Batch API on the test server: files of requests in, files of answers out, after some looks."""

import itertools
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]


class BatchBehaviour(Protocol):
    """What a `Behaviour` says of batches; they end completed, expired with half of the answers, or failed with none.

    `full`: each one fails because too much is enqueued already.
    """

    @property
    def n_looks(self) -> int:
        """How often a batch is looked at before it has ended."""

    @property
    def batch_status(self) -> str:
        """How it ends."""

    @property
    def n_bad_lines(self) -> int:
        """How many lines of output, the first ones, are no JSON."""

    @property
    def batch_faults(self) -> dict[str, list[str]]:
        """What the first requests meet, by call: a status, "lost" or "gone"."""

    @property
    def max_enqueued(self) -> int:
        """Requests in batches under way, beyond which one fails; 0: no bound."""

    @property
    def retry_after_s(self) -> float:
        """What a 429 asks to wait, seconds."""


class BatchRoutes:
    """The routes `/files` and `/batches` of OpenAI's Batch API.

    Args:
        behaviour: how batches end.
        answer: status and body of the answer to one line's body.

    Attributes:
        files, batches: what there is, by id.
        calls: what was asked and when, seconds of `time.monotonic`, in order.
    """

    def __init__(self, behaviour: BatchBehaviour, answer: Answer) -> None:
        self.files: dict[str, str] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, float]] = []
        self._faults = {call: list(faults) for call, faults in behaviour.batch_faults.items()}
        self._max_enqueued = behaviour.max_enqueued
        self._retry_after_s = behaviour.retry_after_s
        self._n_looks = behaviour.n_looks
        self._status = behaviour.batch_status
        self._n_bad_lines = behaviour.n_bad_lines
        self._answer = answer
        self._numbers = itertools.count(1)

    def routes(self, prefix: str) -> list[web.RouteDef]:
        """The routes under a prefix."""
        return [
            web.post(f"{prefix}/files", self._faulty("upload", self._upload)),
            web.get(f"{prefix}/files/{{id}}/content", self._faulty("content", self._content)),
            web.post(f"{prefix}/batches", self._faulty("make", self._make)),
            web.get(f"{prefix}/batches", self._faulty("list", self._list)),
            web.get(f"{prefix}/batches/{{id}}", self._faulty("look", self._look)),
        ]

    def _faulty(self, call: str, handler: Handler) -> Handler:
        """Returns a handler that counts the call, and whose first requests meet the faults of `call`, one each.

        "lost" handles the request and cuts the connection, "gone" answers 404, and a status is answered with an error.
        """

        async def handle(request: web.Request) -> web.StreamResponse:
            self.calls.append((call, time.monotonic()))
            fault = self._faults[call].pop(0) if self._faults.get(call) else ""
            if fault == "lost":
                await handler(request)
                assert request.transport is not None
                request.transport.close()
            if fault == "gone":
                return web.json_response({"error": {"message": "No such thing.", "param": "id"}}, status=404)
            if fault.isdigit():
                headers = {"Retry-After": str(self._retry_after_s)} if fault == "429" else {}
                return web.json_response({"error": {"message": "not now"}}, status=int(fault), headers=headers)
            return await handler(request) if fault != "lost" else web.Response()

        return handle

    async def _upload(self, request: web.Request) -> web.Response:
        """Stores the text of an uploaded file, and answers its id."""
        form = await request.post()
        upload = form["file"]
        assert isinstance(upload, web.FileField)
        file_id = self._store(upload.file.read().decode())
        return web.json_response(
            {"id": file_id, "object": "file", "bytes": 1, "created_at": 0, "filename": "x", "purpose": "batch"}
        )

    async def _content(self, request: web.Request) -> web.Response:
        return web.Response(text=self.files[request.match_info["id"]])

    async def _make(self, request: web.Request) -> web.Response:
        """Stores a new batch, which is in progress, and answers it."""
        asked = await request.json()
        batch = {
            "id": f"batch-{next(self._numbers)}",
            "object": "batch",
            "created_at": 0,
            "status": "in_progress",
            "n_looks": 0,
            **asked,
        }
        self.batches[batch["id"]] = batch
        return web.json_response(batch)

    async def _list(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": list(self.batches.values()), "has_more": False})

    async def _look(self, request: web.Request) -> web.Response:
        """Counts a look at a batch, ends the batch if that is due, and answers its state."""
        batch = self.batches[request.match_info["id"]]
        batch["n_looks"] += 1
        if batch["status"] == "in_progress" and (self._status == "full" or self._is_over(batch)):
            batch["status"] = "failed"
            error = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached.", "line": None}
            batch["errors"] = {"object": "list", "data": [error]}
        if batch["n_looks"] >= self._n_looks and batch["status"] == "in_progress":
            self._end(batch)
        return web.json_response(batch)

    def _is_over(self, batch: dict[str, Any]) -> bool:
        """Whether a batch, with those made before it that have not ended, has more requests than may be enqueued."""
        made = list(self.batches.values())
        under_way = [each for each in made[: made.index(batch) + 1] if each["status"] == "in_progress"]
        n_enqueued = sum(self.files[each["input_file_id"]].count("\n") for each in under_way)
        return 0 < self._max_enqueued < n_enqueued

    def _end(self, batch: dict[str, Any]) -> None:
        """Ends a batch as the behaviour says, and stores the files of its answers and errors.

        A batch that failed has no answers, and one that expired has those to the first half of its lines. They are in
        reverse order; the first of them are cut in half while `n_bad_lines` are left.
        """
        batch["status"] = self._status
        if self._status == "failed":
            batch["errors"] = {"object": "list", "data": [{"message": "the model does not exist", "line": 1}]}
            return
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        if self._status == "expired":
            lines = lines[: len(lines) // 2]
        done: dict[bool, list[str]] = {True: [], False: []}
        for line in reversed(lines):  # the order of a batch's output is nobody's promise
            status, body = self._answer(line["body"])
            response = {"status_code": status, "request_id": "r", "body": body}
            told = json.dumps({"custom_id": line["custom_id"], "response": response}, ensure_ascii=False)
            if self._n_bad_lines:
                self._n_bad_lines -= 1
                told = told[: len(told) // 2]
            done[status == 200].append(told)
        for succeeded, name in ((True, "output_file_id"), (False, "error_file_id")):
            if done[succeeded]:
                batch[name] = self._store("\n".join(done[succeeded]) + "\n")

    def _store(self, text: str) -> str:
        """Stores a text as a file with a new id, and returns the id."""
        file_id = f"file-{next(self._numbers)}"
        self.files[file_id] = text
        return file_id
