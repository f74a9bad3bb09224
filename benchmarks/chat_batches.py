"""OpenAI's Batch API on the test server: files of requests in, files of answers out, after some looks."""

import itertools
import json
from collections.abc import Callable
from typing import Any, Protocol

from aiohttp import web

Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]


class BatchBehaviour(Protocol):
    """What a `Behaviour` says of batches; they end completed, expired with half of the answers, or failed with none."""

    @property
    def n_looks(self) -> int:
        """How often a batch is looked at before it has ended."""

    @property
    def batch_status(self) -> str:
        """How it ends."""

    @property
    def n_bad_lines(self) -> int:
        """How many lines of output, the first ones, are no JSON."""


class BatchRoutes:
    """`/files` and `/batches`.

    Args:
        behaviour: how batches end.
        answer: status and body of the answer to one line's body.
    """

    def __init__(self, behaviour: BatchBehaviour, answer: Answer) -> None:
        self.files: dict[str, str] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self._n_looks = behaviour.n_looks
        self._status = behaviour.batch_status
        self._n_bad_lines = behaviour.n_bad_lines
        self._answer = answer
        self._numbers = itertools.count(1)

    def routes(self, prefix: str) -> list[web.RouteDef]:
        """The routes under a prefix."""
        return [
            web.post(f"{prefix}/files", self._upload),
            web.get(f"{prefix}/files/{{id}}/content", self._content),
            web.post(f"{prefix}/batches", self._make),
            web.get(f"{prefix}/batches", self._list),
            web.get(f"{prefix}/batches/{{id}}", self._look),
        ]

    async def _upload(self, request: web.Request) -> web.Response:
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
        batch = self.batches[request.match_info["id"]]
        batch["n_looks"] += 1
        if batch["n_looks"] >= self._n_looks and batch["status"] == "in_progress":
            self._end(batch)
        return web.json_response(batch)

    def _end(self, batch: dict[str, Any]) -> None:
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
        file_id = f"file-{next(self._numbers)}"
        self.files[file_id] = text
        return file_id
