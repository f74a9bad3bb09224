"""Requests handed in as files and answered within a day at a lower price: OpenAI's `/v1/files` and `/v1/batches`.

Payloads asked for within `Delays.gather_s` of each other go into one file of JSON lines, each named by its cache key.
A batch's id stands on disk before anybody waits for it, and its answers go into the cache under the same keys as single
ones, all of them, also those nobody waits for any more. So a run that is killed goes on waiting for its batches.
"""

import asyncio
import json
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Literal

from backends.chat.answers import UNBOUNDED_ANSWER, estimated_tokens, read_answer
from backends.chat.batch_store import BatchStore, OpenBatch
from backends.chat.budget import Spending
from backends.chat.cache import ReplyCache, StoredReply, request_id
from backends.chat.connection import open_async
from backends.chat.faults import FaultTranslator, TryAgainError, UnusableAnswerError
from backends.chat.limits import Delays
from backends.chat.log import log_try
from backends.chat.providers import Provider, full_url
from backends.protocols import Endpoint
from data_schemas.config import ChatConfig
from data_schemas.errors import BackendError, ConfigError, RequestError

if TYPE_CHECKING:
    from openai.types import Batch

MAX_REQUESTS = 50_000
"""Most requests of one batch, by OpenAI's documentation of the Batch API; so are the bytes below."""
MAX_BYTES = 190_000_000
WINDOW: Literal["24h"] = "24h"
_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_URL: Literal["/v1/chat/completions"] = "/v1/chat/completions"


class BatchTransport:
    """Asks an endpoint by batches. An answer may take a day; a request that a batch left unanswered goes into the next.

    Args:
        endpoint, config, provider: whom, how, and with which habits.
        faults: knows the key.
        spending: asked before each request.
        cache: where all answers of a batch go, and which batches there are.
        delays: before a batch is handed in, and between looks at it.

    Raises:
        ConfigError: the provider has no batches.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        config: ChatConfig,
        provider: Provider,
        faults: FaultTranslator,
        spending: Spending,
        cache: ReplyCache,
        delays: Delays,
    ) -> None:
        if provider.batch_price_share is None:
            raise ConfigError(
                f"The provider of {endpoint.name!r} is not known to take batches.",
                "Set chat.transport to direct, or chat.provider to one that does (batch_price_share in its file).",
            )
        self._endpoint = endpoint
        self._config = config
        self._provider = provider
        self._faults = faults
        self._spending = spending
        self._cache = cache
        self._store = BatchStore(cache, endpoint.name)
        self._delays = delays
        self._waiting: dict[str, asyncio.Future[StoredReply]] = {}
        self._estimates: dict[str, tuple[int, int]] = {}
        self._to_hand_in: dict[str, dict[str, Any]] = {}
        self._gathering: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: dict[str, OpenBatch] | None = None
        self._followed: set[str] = set()
        self._uploaded_here: set[str] = set()
        url = full_url(endpoint.base_url, provider, endpoint.model)
        self._openai = open_async(url, faults.api_key, config.timeout_s, provider)

    async def fetch(self, key: str, payload: dict[str, Any]) -> StoredReply:
        """The answer to a payload that is not in the cache, from a batch.

        Raises:
            RequestError, BackendError: see `OpenAIChatClient.ask`.
            BudgetError: the run may not pay for it.
        """
        for number in range(1, self._config.max_attempts + 1):
            try:
                async with self._spending.reserved(payload):
                    return await self._from_a_batch(key, payload)
            except TryAgainError as error:
                self._spending.usage.n_retries += number < self._config.max_attempts
                last = error
        raise self._faults.give_up(last, request_id(key), self._config.max_attempts, nobody_is_answered=True)

    async def aclose(self) -> None:
        """Stops waiting and closes the connections; batches under way go on at the endpoint."""
        if self._gathering is not None:
            self._gathering.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._openai.close()

    async def _from_a_batch(self, key: str, payload: dict[str, Any]) -> StoredReply:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[StoredReply] = loop.create_future()
        self._waiting[key] = answer
        self._estimates[key] = estimated_tokens(payload)
        if self._held is None:
            self._held = {each: batch for batch in self._store.open_batches() for each in batch.keys}
        if key in self._held:
            self._follow(self._held[key])
        else:
            self._to_hand_in[key] = payload
            if self._gathering is not None:
                self._gathering.cancel()
            full = len(self._to_hand_in) >= MAX_REQUESTS
            self._gathering = loop.call_later(0 if full else self._delays.gather_s, self._start_handing_in)
        try:
            return await answer
        finally:
            self._waiting.pop(key, None)

    def _start_handing_in(self) -> None:
        lines = {key: self._line(key, payload) for key, payload in self._to_hand_in.items()}
        self._to_hand_in.clear()
        while lines:
            chosen: dict[str, bytes] = {}
            n_bytes = 0
            for key in list(lines)[:MAX_REQUESTS]:
                n_bytes += len(lines[key])
                if chosen and n_bytes > MAX_BYTES:
                    break
                chosen[key] = lines.pop(key)
            self._spawn(self._hand_in(chosen), list(chosen))

    def _line(self, key: str, payload: dict[str, Any]) -> bytes:
        body = {"model": self._endpoint.model, **self._provider.body(payload)}
        line = {"custom_id": key, "method": "POST", "url": _URL, "body": body}
        return json.dumps(line, ensure_ascii=False).encode() + b"\n"

    async def _hand_in(self, lines: dict[str, bytes]) -> None:
        with self._faults.translated("for a batch"):
            file = await self._openai.files.create(file=("requests.jsonl", b"".join(lines.values())), purpose="batch")
        batch = self._store.uploaded(file.id, list(lines))
        self._uploaded_here.add(file.id)
        assert self._held is not None
        self._held |= dict.fromkeys(lines, batch)
        self._follow(batch)

    def _follow(self, batch: OpenBatch) -> None:
        if batch.file_id not in self._followed:
            self._followed.add(batch.file_id)
            self._spawn(self._bring_in(batch), batch.keys)

    def _spawn(self, work: Coroutine[Any, Any, None], keys: Iterable[str]) -> None:
        """Runs a coroutine beside; its failure is that of all who wait for its keys."""

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                for key in keys:
                    self._settle(key, error)

        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(ended)

    def _settle(self, key: str, outcome: StoredReply | BaseException) -> None:
        waiting = self._waiting.get(key)
        if waiting is None or waiting.done():
            return
        if isinstance(outcome, BaseException):
            waiting.set_exception(outcome)
        else:
            waiting.set_result(outcome)

    async def _bring_in(self, batch: OpenBatch) -> None:
        """Makes the batch where that is still to be done, waits for its end and stores its answers."""
        try:
            with self._faults.translated("for a batch"):
                if batch.batch_id is None:
                    batch = self._store.made(batch, await self._make(batch))
                state = await self._wait_for_end(str(batch.batch_id))
                files = [each for each in (state.output_file_id, state.error_file_id) if each]
                bodies = [(await self._openai.files.content(file_id)).content for file_id in files]
        finally:
            self._followed.discard(batch.file_id)
        unanswered: set[str | None] = set(batch.keys)
        for line in (each for body in bodies for each in body.split(b"\n")):  # not splitlines: answers hold U+2028
            if line.strip():
                unanswered.discard(self._take(line))  # an unreadable line leaves its request unanswered
        self._store.closed(batch)
        for key in batch.keys:
            (self._held or {}).pop(key, None)
        if state.status == "failed" and len(unanswered) == len(batch.keys):
            raise self._refused(state)
        for key in filter(None, unanswered):
            self._settle(key, TryAgainError(f"left unanswered by a batch that is {state.status}", state.status))

    async def _make(self, batch: OpenBatch) -> str:
        """The id of the file's batch: of one made just before a kill, or of a new one."""
        if batch.file_id not in self._uploaded_here:
            async for made in self._openai.batches.list(limit=100):
                if made.input_file_id == batch.file_id:
                    return made.id
        new = await self._openai.batches.create(input_file_id=batch.file_id, endpoint=_URL, completion_window=WINDOW)
        return new.id

    async def _wait_for_end(self, batch_id: str) -> "Batch":
        wait_s = self._delays.first_look_s
        while True:
            state = await self._look(batch_id)
            log_try("batch", batch_id=batch_id, endpoint=self._endpoint.name, status=state.status)
            if state.status in _ENDED:
                return state
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, self._delays.longest_look_s)

    async def _look(self, batch_id: str) -> "Batch":
        """A batch's state. A look that fails in a way that may pass is simply the next one's business, for a while."""
        import openai

        for number in range(self._config.max_attempts):
            try:
                return await self._openai.batches.retrieve(batch_id)
            except openai.APIError as error:
                fault = self._faults.translate(error, "for a batch")
                if not isinstance(fault, TryAgainError) or number + 1 == self._config.max_attempts:
                    raise
                await asyncio.sleep(max(self._delays.first_look_s, fault.retry_after_s))
        raise AssertionError("max_attempts is at least one")

    def _take(self, text: bytes) -> str | None:
        """Stores or settles one line of a batch's output, and returns its key; None where it cannot be read."""
        try:
            line = json.loads(text)
            key = str(line["custom_id"])
            body, fault = self._read_response(key, line)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            log_try("batch line", endpoint=self._endpoint.name, status="malformed", reason=type(error).__name__)
            return None
        try:
            if fault is not None:
                raise fault
            reply = read_answer(json.dumps(body), self._estimates.get(key, (0, UNBOUNDED_ANSWER)))
        except UnusableAnswerError as error:
            self._spending.add(error.paid, is_usable=False)
            self._settle(key, self._faults.without_text(error, request_id(key)) if error.is_final else error)
        except (TryAgainError, RequestError) as error:
            self._settle(key, error)
        else:
            self._spending.add(reply)
            self._settle(key, self._cache.put(key, reply, self._endpoint))
        return key

    def _read_response(self, key: str, line: dict[str, Any]) -> tuple[Any, TryAgainError | RequestError | None]:
        """The body of a line's response, and what is wrong with it, if something is."""
        response = line.get("response") or {}
        status = int(response.get("status_code") or 500)
        body = response.get("body") or {}
        if status == 200:
            return body, None
        said = body.get("error") or line.get("error") or {}
        reason = self._faults.redact(f"HTTP {status}: {said.get('message') if isinstance(said, dict) else said}")
        if status >= 500 or status in (408, 409, 429):
            return None, TryAgainError(reason, str(status))
        return None, RequestError(f"Request {request_id(key)} was refused by {self._endpoint.name!r} ({reason}).")

    def _refused(self, state: "Batch") -> BackendError:
        errors = state.errors.data if state.errors and state.errors.data else []
        reason = self._faults.redact("; ".join(str(each.message) for each in errors) or "no reason given")
        return BackendError(
            f"The chat endpoint {self._endpoint.name!r} refused batch {state.id}: {reason}.",
            "Mend what it names (see chat.model), or set chat.transport to direct, and run again: answers are kept.",
        )
