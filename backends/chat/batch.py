"""Batch transport: sends requests as files and gets answers within a day at a lower price (`/v1/files`, `/v1/batches`).

Payloads requested within `Delays.gather_s` of each other are written to files of JSON lines, as large as the provider
accepts; each line is named by its cache key. The id of a batch is stored on disk before anything waits for it. All its
answers are cached under the same keys as single ones, even those that nobody waits for any more. A run that was killed
therefore resumes waiting for its batches.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backends.chat.answers import UNBOUNDED_ANSWER, estimate_tokens, read_answer
from backends.chat.batch_api import (
    QUEUE_FULL,
    BatchApi,
    GoneError,
    get_batch_errors,
    make_request_line,
    parse_output_line,
    split_portions,
)
from backends.chat.budget import Spending
from backends.chat.cache import ReplyCache, StoredReply, make_request_id
from backends.chat.connection import open_async
from backends.chat.faults import FaultTranslator, TryAgainError, UnusableAnswerError
from backends.chat.limits import Delays, make_retry_options
from backends.chat.log import log_try
from backends.chat.protocol import Endpoint
from backends.chat.providers import Provider, make_full_url
from data_schemas.config import ChatConfig
from data_schemas.errors import BackendError, ConfigError

if TYPE_CHECKING:
    from openai.types import Batch


class BatchCapacity:
    """The size limit of batches, learned from batches that a provider rejects because too many tokens are enqueued.

    A rejected batch waits until another batch of this client ends. If none is running, it was too large by itself or
    others fill the queue: after a wait, the next batches are half as large until one succeeds; then sizes grow again.

    Args:
        n_bound: maximum requests per batch.
        max_attempts: consecutive rejections with no other batch running, after which the rejection of a batch of one
            request stops the run.
        delays: waits between two attempts.
    """

    def __init__(self, n_bound: int, max_attempts: int, delays: Delays) -> None:
        self.n_most = n_bound
        self._n_bound = n_bound
        self._max_attempts = max_attempts
        self._delays = delays
        self._n_ended = self._n_refused = 0
        self._change = asyncio.Event()

    def notify_change(self) -> None:
        """Wakes up waiters because a batch is no longer running, for whatever reason."""
        self._change.set()
        self._change = asyncio.Event()

    def record_success(self) -> None:
        """Records that a batch was accepted and ended: doubles the size limit up to its bound, and wakes up waiters."""
        self.n_most = min(self._n_bound, 2 * self.n_most)
        self._n_ended += 1
        self._n_refused = 0
        self.notify_change()

    async def wait(self, n_requests: int, under_way: Collection[str], endpoint_name: str) -> None:
        """Waits until a rejected batch of this many requests may be retried, in portions of at most `n_most`.

        If other batches of this client are running, it waits until one has succeeded or none is running; else it waits
        for a time and lowers `n_most` to half of `n_requests`.

        Args:
            under_way: other batches of this client that are running, as a live view.

        Raises:
            BackendError: single requests are rejected too, with no other batch running.
        """
        n_ended = self._n_ended
        if under_way:
            while under_way and self._n_ended == n_ended:
                await self._change.wait()
            return
        self._n_refused += 1
        if n_requests == 1 and self._n_refused >= self._max_attempts:
            raise BackendError(
                f"The chat endpoint {endpoint_name!r} accepts no batch, not even of one request: too many tokens are "
                "enqueued for this account.",
                "When its other batches have ended, run again: completed answers are cached.",
            )
        self.n_most = max(1, n_requests // 2)
        await asyncio.sleep(min(self._delays.first_look_s * 2**self._n_refused, self._delays.longest_look_s))


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """An uploaded file of requests and the batch created from it; `batch_id` is None until that is known to exist."""

    file_id: str
    batch_id: str | None
    keys: tuple[str, ...]


class BatchStore:
    """The open batches of one endpoint and model, stored in the cache file.

    Raises:
        StoreError: the file cannot be read or written (all methods).
    """

    def __init__(self, cache: ReplyCache, endpoint: Endpoint) -> None:
        self._cache = cache
        self._endpoint = endpoint
        self._has_claimed = False

    def claim(self) -> None:
        """Locks the batches of all endpoints for this process until `release` or the end of the process.

        Raises:
            BackendError: another process holds the lock; both would create a batch from the same file.
        """
        self._has_claimed = self._cache.try_lock()
        if not self._has_claimed:
            raise BackendError(
                f"Another process waits for batches whose answers go into {self._cache.place}.",
                "Wait for it or end it, then run again: its batches and completed answers are stored.",
            )

    def release(self) -> None:
        """Releases the lock if this object holds it."""
        if self._has_claimed:
            self._has_claimed = False
            self._cache.unlock()

    def list_open_batches(self) -> list[OpenBatch]:
        """Lists the batches that this or an earlier run left open, also those of older files, which name no model."""
        rows = self._cache.run(
            "SELECT file_id, batch_id, keys FROM batches WHERE endpoint = ? AND model IN (?, '') ORDER BY file_id",
            (self._endpoint.name, self._endpoint.model),
        )
        return [OpenBatch(file_id, batch_id, tuple(json.loads(keys))) for file_id, batch_id, keys in rows]

    def record_upload(self, file_id: str, keys: list[str]) -> OpenBatch:
        """Records an uploaded file as an open batch, whose batch id is not known yet, and returns that.

        This is done before the batch is created, so that a kill between the two does not lead to two batches.
        """
        self._cache.run(
            "INSERT INTO batches (file_id, endpoint, model, keys) VALUES (?, ?, ?, ?)",
            (file_id, self._endpoint.name, self._endpoint.model, json.dumps(keys)),
        )
        return OpenBatch(file_id, None, tuple(keys))

    def record_batch(self, batch: OpenBatch, batch_id: str) -> OpenBatch:
        """Records the id of the batch created from a file, and returns the open batch with it."""
        self._cache.run("UPDATE batches SET batch_id = ? WHERE file_id = ?", (batch_id, batch.file_id))
        return OpenBatch(batch.file_id, batch_id, batch.keys)

    def remove(self, batch: OpenBatch) -> None:
        """Deletes the record of a batch that is no longer open."""
        self._cache.run("DELETE FROM batches WHERE file_id = ?", (batch.file_id,))


_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A caller that waits for an answer from a batch."""

    body: dict[str, Any]
    answer: asyncio.Future[StoredReply]


class BatchTransport:
    """Sends requests to an endpoint in batches. Requests that a batch left unanswered are retried in the next one.

    Args:
        endpoint, config, provider: the endpoint, the client's settings and the provider.
        faults: translates errors; knows the API key.
        spending: the budget, which is checked before each request.
        cache: stores all answers of a batch and the open batches.
        delays: waits before a batch is created, between checks of its status, and between attempts.

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
                f"The provider of {endpoint.name!r} is not known to accept batches.",
                "Set chat.transport to direct, or chat.provider to one that does (batch_price_share in its file).",
            )
        self._endpoint = endpoint
        self._config = config
        self._provider = provider
        self._faults = faults
        self._spending = spending
        self._cache = cache
        self._store = BatchStore(cache, endpoint)
        self._delays = delays
        self._capacity = BatchCapacity(provider.batch_max_requests, config.max_attempts, delays)
        self._waiting: dict[str, _Waiting] = {}
        self._to_submit: dict[str, None] = {}
        self._gathering: asyncio.TimerHandle | None = None
        self._submitting = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open_batches: dict[str, OpenBatch] | None = None
        self._followed: set[str] = set()
        self._uploaded_here: set[str] = set()
        url = make_full_url(endpoint.base_url, provider, endpoint.model)
        server = open_async(url, faults.api_key, config.timeout_s, provider)
        self._api = BatchApi(server, faults, config.max_attempts, delays)

    async def fetch(self, key: str, payload: dict[str, Any]) -> StoredReply:
        """Returns the answer to a payload, from the open batch that contains it or else the next one: within a day.

        The answer is then in the cache, and its cost is counted.

        Raises:
            RequestError, BackendError: see `OpenAIChatClient.ask`; or another process holds the lock of the batches.
            BudgetError: the budget does not allow the request.
        """
        from tenacity import AsyncRetrying

        body = self._provider.make_body(payload, self._endpoint.model, self._config.extra)

        async def send() -> StoredReply:
            async with self._spending.reserve_cost(body):
                return await self._fetch_from_batch(key, body)

        n_tries = self._config.max_attempts
        try:
            return await AsyncRetrying(**make_retry_options(n_tries, self._delays, self._spending.count_retry))(send)
        except TryAgainError as last:
            raise self._faults.make_final_error(last, make_request_id(key), n_tries, nobody_is_answered=True) from last

    def is_sent(self, key: str) -> bool:
        """Returns whether the request is in a batch that is open or being made, which cannot be cancelled."""
        return key in self._waiting and key not in self._to_submit

    async def aclose(self) -> None:
        """Stops waiting, releases the lock and closes the connections; open batches continue at the endpoint.

        Calls of `fetch` must have ended or been cancelled before, as none is answered afterwards.
        """
        if self._gathering is not None:
            self._gathering.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._store.release()
        await self._api.aclose()

    async def _fetch_from_batch(self, key: str, body: dict[str, Any]) -> StoredReply:
        """Waits for a request's answer and returns it: from the open batch that contains it, or else the next batch."""
        held = self._get_open_batches()
        answer: asyncio.Future[StoredReply] = asyncio.get_running_loop().create_future()
        self._waiting[key] = _Waiting(body, answer)
        if key in held:
            self._follow(held[key])
        else:
            self._gather([key])
        try:
            return await answer
        finally:
            self._waiting.pop(key, None)

    def _get_open_batches(self) -> dict[str, OpenBatch]:
        """Returns the open batches by key of each request; the first call resumes earlier runs' batches of this model.

        Raises:
            BackendError: another process holds the lock of the batches (first call only).
        """
        if self._open_batches is None:
            self._store.claim()
            batches = self._store.list_open_batches()
            self._open_batches = {each: batch for batch in batches for each in batch.keys}
            for batch in batches:
                self._follow(batch)
        return self._open_batches

    def _gather(self, keys: Iterable[str]) -> None:
        """Adds requests to the next batch; it is submitted when it is full, or after a while without new ones."""
        self._to_submit |= dict.fromkeys(keys)
        if self._gathering is not None:
            self._gathering.cancel()
        is_full = len(self._to_submit) >= self._capacity.n_most
        wait_s = 0.0 if is_full else self._delays.gather_s
        self._gathering = asyncio.get_running_loop().call_later(wait_s, self._submit_gathered)

    def _submit_gathered(self) -> None:
        """Submits the gathered requests that are still wanted, in as many batches as the size limits require."""
        keys = [key for key in self._to_submit if key in self._waiting]
        self._to_submit.clear()
        sizes = ((key, len(self._make_line(key))) for key in keys)
        for chosen in split_portions(sizes, self._capacity.n_most, self._provider.batch_max_bytes):
            self._spawn(self._submit_batch(chosen), chosen)

    def _make_line(self, key: str) -> bytes:
        """Returns the JSON line of the waiting request with this key."""
        return make_request_line(key, self._waiting[key].body)

    async def _submit_batch(self, keys: list[str]) -> None:
        """Uploads requests as one file, records it, and starts a task that collects the answers of its batch.

        Requests that an open batch contains, or that nobody waits for, are skipped.
        """
        held = self._get_open_batches()
        async with self._submitting:  # one at a time: each may be hundreds of megabytes
            lines = {key: self._make_line(key) for key in keys if key in self._waiting and key not in held}
            if not lines:
                return
            file_id = await self._api.upload(b"".join(lines.values()))
            batch = self._store.record_upload(file_id, list(lines))
        self._uploaded_here.add(file_id)
        held |= dict.fromkeys(lines, batch)
        self._follow(batch)

    def _follow(self, batch: OpenBatch) -> None:
        """Starts a task that collects the answers of an open batch, unless there is one already."""
        if batch.file_id not in self._followed:
            self._followed.add(batch.file_id)
            self._spawn(self._collect_answers(batch), batch.keys)

    def _spawn(self, work: Coroutine[Any, Any, None], keys: Iterable[str]) -> None:
        """Runs a coroutine as a task; if it fails, everyone who waits for its keys gets the error."""

        def finish(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                for key in keys:
                    self._settle(key, error)

        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(finish)

    def _settle(self, key: str, outcome: StoredReply | BaseException) -> None:
        """Gives a request's outcome to the caller who waits for it, if there is one."""
        waiting = self._waiting.get(key)
        if waiting is None or waiting.answer.done():
            return
        if isinstance(outcome, BaseException):
            waiting.answer.set_exception(outcome)
        else:
            waiting.answer.set_result(outcome)

    async def _collect_answers(self, batch: OpenBatch) -> None:
        """Creates the batch if necessary, waits until it ends and stores its answers.

        Requests that it left unanswered may be retried. If it was rejected because too much is enqueued, they are
        gathered for the next batch.

        Raises:
            BackendError: the endpoint rejected the whole batch for another reason.
        """
        try:
            state = await self._wait_for_end(batch)
            bodies = [body async for body in self._read_bodies(state)]
        except GoneError:
            self._close(batch, batch.keys, TryAgainError("left unanswered by a batch that was deleted", "gone"))
            return
        finally:
            self._followed.discard(batch.file_id)
            self._capacity.notify_change()
        unanswered: set[str | None] = set(batch.keys)
        for line in (each for body in bodies for each in body.split(b"\n")):  # not splitlines: answers hold U+2028
            if line.strip():
                unanswered.discard(self._process_line(line))  # an unreadable line leaves its request unanswered
        has_failed = state.status == "failed" and len(unanswered) == len(batch.keys)
        fault = TryAgainError(f"left unanswered by a batch that is {state.status}", state.status)
        self._close(batch, [] if has_failed else filter(None, unanswered), fault)
        if not has_failed:
            self._capacity.record_success()
        elif QUEUE_FULL in [error.code for error in get_batch_errors(state)]:
            await self._capacity.wait(len(batch.keys), self._followed, self._faults.endpoint.name)
            self._gather(key for key in batch.keys if key in self._waiting)
        else:
            raise self._make_refusal_error(state)

    async def _wait_for_end(self, batch: OpenBatch) -> "Batch":
        """Creates the batch of a file if it has none, and returns its state once it has ended.

        Raises:
            GoneError: the file or the batch no longer exists.
        """
        batch_id = batch.batch_id
        if batch_id is None:
            is_new = batch.file_id in self._uploaded_here
            self._uploaded_here.discard(batch.file_id)
            batch_id = await self._api.make(batch.file_id, may_be_made=not is_new)
            self._store.record_batch(batch, batch_id)
        wait_s = self._delays.first_look_s
        while True:
            state = await self._api.retrieve(batch_id)
            log_try("batch", batch_id=batch_id, endpoint=self._endpoint.name, status=state.status)
            if state.status in _ENDED:
                return state
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, self._delays.longest_look_s)

    async def _read_bodies(self, state: "Batch") -> AsyncIterator[bytes]:
        """Yields the contents of a batch's output and error files, of those that still exist."""
        for file_id in filter(None, (state.output_file_id, state.error_file_id)):
            try:
                yield await self._api.read(file_id)
            except GoneError:
                log_try("batch file", endpoint=self._endpoint.name, batch_id=state.id, status="gone")

    def _close(self, batch: OpenBatch, unanswered: Iterable[str], fault: TryAgainError) -> None:
        """Deletes a batch from the store; requests that it left unanswered get `fault` and may go into the next one."""
        self._store.remove(batch)
        for key in batch.keys:
            self._get_open_batches().pop(key, None)
        for key in unanswered:
            self._settle(key, fault)

    def _process_line(self, text: bytes) -> str | None:
        """Stores the answer in a line of a batch's output, or translates its error; the waiting request gets either.

        The cost is counted, unless the cache has the answer already.

        Returns:
            The request's key, or None if the line cannot be parsed.
        """
        line = parse_output_line(text, self._faults)
        if line is None:
            log_try("batch line", endpoint=self._endpoint.name, status="malformed")
            return None
        outcome: StoredReply | Exception | None = line.fault or self._cache.get(line.key)  # of a killed run
        if outcome is None:
            waiting = self._waiting.get(line.key)
            estimate = estimate_tokens(waiting.body) if waiting else (0, UNBOUNDED_ANSWER)
            try:
                reply = read_answer(line.body, estimate)
            except UnusableAnswerError as error:
                self._spending.add(error.paid, is_usable=False)
                outcome = self._faults.make_no_text_error(error, make_request_id(line.key)) if error.is_final else error
            else:
                self._spending.add(reply)
                outcome = self._cache.put(line.key, reply, self._endpoint)
        self._settle(line.key, outcome)
        return line.key

    def _make_refusal_error(self, state: "Batch") -> BackendError:
        """Makes the error for a batch that the endpoint rejected as a whole, with its reasons."""
        reason = self._faults.redact(
            "; ".join(str(each.message) for each in get_batch_errors(state)) or "no reason given"
        )
        return BackendError(
            f"The chat endpoint {self._endpoint.name!r} refused batch {state.id}: {reason}.",
            "Fix the cause (chat.model), or set chat.transport to direct, and run again: completed answers are cached.",
        )
