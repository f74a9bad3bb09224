"""Client for OpenAI's `/v1/files` and `/v1/batches`: API calls with retries, and the JSON lines of the files."""

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from backends.chat.cache import make_request_id
from backends.chat.faults import WORTH_RETRYING, FaultTranslator, TryAgainError, read_error
from backends.chat.limits import Delays, make_retry_options
from backends.chat.log import log_try
from data_schemas.errors import BackendError, RequestError

if TYPE_CHECKING:
    import openai
    from openai.types import Batch, BatchError
    from tenacity import RetryCallState

Answer = TypeVar("Answer")
WINDOW: Literal["24h"] = "24h"
QUEUE_FULL = "token_limit_exceeded"
"""Error code of OpenAI and Azure for a batch that fails because too many tokens are enqueued in total."""
_REQUEST = "for a batch"
"""How error messages name such a call."""
_REMEDY = "Run the same command again: open batches continue there, and completed answers are cached."


class GoneError(Exception):
    """The provider no longer has a file or batch: it was deleted or has expired."""


class BatchApi:
    """The API calls for batches. A final failure is a fault of the endpoint, as it concerns no single request.

    Args:
        server: a client that does not retry by itself.
        faults: translates errors; knows the endpoint and the API key.
        max_attempts, delays: attempts per call and the waits between them.
    """

    def __init__(
        self, server: "openai.AsyncOpenAI", faults: FaultTranslator, max_attempts: int, delays: Delays
    ) -> None:
        self._server = server
        self._faults = faults
        self._max_attempts = max_attempts
        self._delays = delays

    async def upload(self, content: bytes) -> str:
        """Uploads a file of requests and returns its id.

        Raises:
            BackendError: the endpoint rejects it (all methods: or does not answer).
        """
        named = ("requests.jsonl", content)
        return (await self._call_with_retries(lambda: self._server.files.create(file=named, purpose="batch"))).id

    async def make(self, file_id: str, *, may_be_made: bool) -> str:
        """Creates the batch of a file and returns its id.

        A call that failed may have created it all the same, so every attempt except the first one for a new file looks
        for an existing batch before.

        Args:
            may_be_made: whether a batch of the file may exist already, because the file is not new.

        Raises:
            GoneError: the file no longer exists.
        """

        async def find_or_make() -> str:
            """Returns the id of the file's batch: an existing one if there may be one, else a new one."""
            nonlocal may_be_made
            if may_be_made:
                async for made in self._server.batches.list(limit=100):
                    if made.input_file_id == file_id:
                        return made.id
            may_be_made = True
            create = self._server.batches.create
            return (await create(input_file_id=file_id, endpoint=URL, completion_window=WINDOW)).id

        return await self._call_with_retries(find_or_make, may_be_gone=True)

    async def retrieve(self, batch_id: str) -> "Batch":
        """Returns the state of a batch.

        Raises:
            GoneError: it no longer exists.
        """
        return await self._call_with_retries(lambda: self._server.batches.retrieve(batch_id), may_be_gone=True)

    async def read(self, file_id: str) -> bytes:
        """Downloads a file and returns its content.

        Raises:
            GoneError: it no longer exists.
        """
        return (await self._call_with_retries(lambda: self._server.files.content(file_id), may_be_gone=True)).content

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._server.close()

    async def _call_with_retries(self, call: Callable[[], Awaitable[Answer]], *, may_be_gone: bool = False) -> Answer:
        """Makes an API call, repeats it after errors that may be temporary, and returns its result.

        Args:
            may_be_gone: whether HTTP 404 means that the file or batch is gone; else batches are not supported.

        Raises:
            GoneError: it is gone, and other calls for batches succeed.
            BackendError: all other failures.
        """
        from tenacity import AsyncRetrying

        retrying = AsyncRetrying(**make_retry_options(self._max_attempts, self._delays, self._log_retry))
        try:
            return await retrying(self._call_once, call)
        except GoneError:
            if may_be_gone:  # or the server has no batches at all, or at another URL
                await self._call_with_retries(lambda: self._server.batches.list(limit=1))
                raise
            raise BackendError(
                f"The chat endpoint {self._faults.endpoint.name!r} does not support batches (HTTP 404).",
                "Check chat.base_url (it ends in /v1), or set chat.transport to direct.",
            ) from None
        except TryAgainError as last:
            who, n_tries = self._faults.endpoint.name, self._max_attempts
            what = f"The chat endpoint {who!r} does not answer requests about batches: {n_tries} tries, {last.reason}."
            raise BackendError(what, _REMEDY) from last
        except RequestError as error:
            raise BackendError(error.what, "Fix the cause, or set chat.transport to direct.") from None

    async def _call_once(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Makes one attempt of an API call.

        Raises:
            GoneError: HTTP 404, or the file is unknown.
            TryAgainError, RequestError, BackendError: as `FaultTranslator.translate` returns.
        """
        import openai

        try:
            return await call()
        except openai.APIError as error:
            if isinstance(error, openai.NotFoundError) or getattr(error, "param", None) == "input_file_id":
                raise GoneError from None
            raise self._faults.translate(error, _REQUEST) from None  # its text may quote the key

    def _log_retry(self, state: "RetryCallState") -> None:
        fault = state.outcome.exception() if state.outcome else None
        status = fault.status if isinstance(fault, TryAgainError) else ""
        log_try("batch call", endpoint=self._faults.endpoint.name, attempt=state.attempt_number, status=status)


def get_batch_errors(batch: "Batch") -> "list[BatchError]":
    """Returns the errors of a batch that failed as a whole."""
    return (batch.errors.data if batch.errors else None) or []


URL: Literal["/v1/chat/completions"] = "/v1/chat/completions"
_NO_RESPONSE = 500


@dataclass(frozen=True, slots=True)
class BatchOutputLine:
    """A line of a batch's output: the request's key, and its response's body as JSON or its error."""

    key: str
    body: str
    fault: TryAgainError | RequestError | None


def make_request_line(key: str, body: dict[str, Any]) -> bytes:
    """Makes the line of a request for the file of a batch: JSON with its key and body, and a line break."""
    line = {"custom_id": key, "method": "POST", "url": URL, "body": body}
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"


def split_portions(lines: Iterable[tuple[str, int]], max_lines: int, max_bytes: int) -> Iterator[list[str]]:
    """Yields the keys of the requests of each file, from pairs of key and line size in bytes, within both limits.

    A line that is larger than `max_bytes` gets a file of its own.
    """
    chosen: list[str] = []
    n_bytes = 0
    for key, n_more in lines:
        if chosen and (len(chosen) == max_lines or n_bytes + n_more > max_bytes):
            yield chosen
            chosen, n_bytes = [], 0
        chosen.append(key)
        n_bytes += n_more
    if chosen:
        yield chosen


def parse_output_line(text: bytes, faults: FaultTranslator) -> BatchOutputLine | None:
    """Parses a line of a batch's output; returns None if it cannot be parsed."""
    try:
        line = json.loads(text)
        key = str(line["custom_id"])
        response = line.get("response") or {}
        status = int(response.get("status_code") or _NO_RESPONSE)
        body = response.get("body") or {}
        fault = (
            None if status == 200 else _make_fault(key, status, body.get("error") or line.get("error") or {}, faults)
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return BatchOutputLine(key, json.dumps(body), fault)


def _make_fault(key: str, status: int, said: Any, faults: FaultTranslator) -> TryAgainError | RequestError:
    """Returns the error of a line with this HTTP status: `TryAgainError` if a retry may help, else `RequestError`."""
    reason = faults.redact(f"HTTP {status}: {read_error(said).message or said}")
    if status >= 500 or status in WORTH_RETRYING:
        return TryAgainError(reason, str(status))
    return RequestError(f"Request {make_request_id(key)} was refused by {faults.endpoint.name!r} ({reason}).")
