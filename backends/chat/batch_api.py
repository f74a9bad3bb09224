"""OpenAI's `/v1/files` and `/v1/batches`: each call tried again like any request, and none paid for twice."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeVar

from backends.chat.batch_lines import URL
from backends.chat.faults import FaultTranslator, TryAgainError
from backends.chat.limits import Delays
from backends.chat.log import log_try
from backends.chat.retries import retry_options
from data_schemas.errors import BackendError, RequestError

if TYPE_CHECKING:
    import openai
    from openai.types import Batch, BatchError
    from tenacity import RetryCallState

Answer = TypeVar("Answer")
WINDOW: Literal["24h"] = "24h"
QUEUE_FULL = "token_limit_exceeded"
"""OpenAI's and Azure's code of a batch that fails because the tokens of all enqueued ones are too many."""
_REQUEST = "for a batch"
"""What errors call a call."""
_REMEDY = "Run the same command again: batches under way go on there and are waited for, and answers are kept."


class GoneError(Exception):
    """A file or batch that the provider does not have any more: deleted, or kept no longer."""


class BatchApi:
    """The calls that batches need. What fails for good is a fault of the endpoint: it is about no single request.

    Args:
        server: not trying again by itself.
        faults: knows endpoint and key.
        max_attempts, delays: how often each call is tried, and after which waits.
    """

    def __init__(
        self, server: "openai.AsyncOpenAI", faults: FaultTranslator, max_attempts: int, delays: Delays
    ) -> None:
        self._server = server
        self._faults = faults
        self._max_attempts = max_attempts
        self._delays = delays

    async def upload(self, content: bytes) -> str:
        """The id of a new file of requests.

        Raises:
            BackendError: the endpoint does not take it (all methods: or does not answer).
        """
        named = ("requests.jsonl", content)
        return (await self._tried(lambda: self._server.files.create(file=named, purpose="batch"))).id

    async def make(self, file_id: str, *, may_be_made: bool) -> str:
        """The id of a file's batch.

        A call that failed may have made it all the same, so every try but a new file's first one looks for it before.

        Raises:
            GoneError: the file is not there any more.
        """

        async def find_or_make() -> str:
            nonlocal may_be_made
            if may_be_made:
                async for made in self._server.batches.list(limit=100):
                    if made.input_file_id == file_id:
                        return made.id
            may_be_made = True
            create = self._server.batches.create
            return (await create(input_file_id=file_id, endpoint=URL, completion_window=WINDOW)).id

        return await self._tried(find_or_make, may_be_gone=True)

    async def look(self, batch_id: str) -> "Batch":
        """How a batch stands.

        Raises:
            GoneError: it is not there any more.
        """
        return await self._tried(lambda: self._server.batches.retrieve(batch_id), may_be_gone=True)

    async def read(self, file_id: str) -> bytes:
        """What a file holds.

        Raises:
            GoneError: it is not there any more.
        """
        return (await self._tried(lambda: self._server.files.content(file_id), may_be_gone=True)).content

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._server.close()

    async def _tried(self, call: Callable[[], Awaitable[Answer]], *, may_be_gone: bool = False) -> Answer:
        from tenacity import AsyncRetrying

        retrying = AsyncRetrying(**retry_options(self._max_attempts, self._delays, self._log_retry))
        try:
            return await retrying(self._once, call)
        except GoneError:
            if may_be_gone:  # unless the server has no batches at all, or they are under another URL
                await self._tried(lambda: self._server.batches.list(limit=1))
                raise
            raise BackendError(
                f"The chat endpoint {self._faults.endpoint.name!r} knows of no batches (HTTP 404).",
                "Check chat.base_url (it ends in /v1), or set chat.transport to direct.",
            ) from None
        except TryAgainError as last:
            who, n_tries = self._faults.endpoint.name, self._max_attempts
            what = f"The chat endpoint {who!r} is not answering about batches: {n_tries} tries, {last.reason}."
            raise BackendError(what, _REMEDY) from last
        except RequestError as error:
            raise BackendError(error.what, "Mend what it names, or set chat.transport to direct.") from None

    async def _once(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
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


def errors_of(batch: "Batch") -> "list[BatchError]":
    """Why a batch as a whole failed."""
    return (batch.errors.data if batch.errors else None) or []
