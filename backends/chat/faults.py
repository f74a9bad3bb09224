"""What a failed request means: ask again, give this request up, or stop the run. The one border to openai's errors."""

import email.utils
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backends.protocols import Endpoint
from data_schemas.errors import BackendError, RequestError

if TYPE_CHECKING:
    import openai

N_QUOTED = 300
"""Characters of a server's own message that an error quotes."""
WORTH_RETRYING = frozenset({408, 409, 425, 429})
"""Statuses below 500 that may pass; all from 500 on may."""
ENDPOINT_FAULTS = frozenset({402, 404, 405})
"""Statuses about the endpoint, not the request: unpaid, or no such model or path (all requests have the same)."""
ENDPOINT_GONE = frozenset({429, 502, 503, 504})
"""Statuses that, when they last, mean that nobody gets an answer: quota used up, or nothing behind the gateway."""


class TryAgainError(Exception):
    """A try failed in a way that may pass.

    Args:
        reason: what happened, for the final error when no try succeeds.
        endpoint_gone: whether that error stops the run, or fails this request only.
        retry_after_s: how long the server asks to wait, seconds.
    """

    def __init__(self, reason: str, *, endpoint_gone: bool = False, retry_after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.endpoint_gone = endpoint_gone
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class FaultTranslator:
    """Turns openai's errors into ours. Knows the key only to blot it out of messages."""

    endpoint: Endpoint
    api_key: str
    api_key_env: str
    longest_wait_s: float

    def translate(self, error: "openai.APIError", request: str) -> Exception:
        """`TryAgainError`, or a `RequestError` or `BackendError` where asking again is no use."""
        import openai

        if isinstance(error, openai.APITimeoutError):
            return TryAgainError("no answer in time")
        if isinstance(error, openai.APIConnectionError):
            cause = self.redact(str(error.__cause__ or error))
            return TryAgainError(f"no connection ({cause})", endpoint_gone=True)
        if isinstance(error, openai.APIStatusError):
            return self._translate_status(error, request)
        return TryAgainError(f"an answer that cannot be read ({self.redact(error.message)})")

    def _translate_status(self, error: "openai.APIStatusError", request: str) -> Exception:
        status = error.status_code
        said = f"HTTP {status}: {self.redact(error.message)}"
        if status in (401, 403):  # such messages quote parts of the key, so theirs is left out
            return BackendError(
                f"The chat endpoint {self.endpoint.name!r} refuses our key (HTTP {status}).",
                f"Put a valid key into the environment variable {self.api_key_env} and run again: answers are kept.",
            )
        if status in ENDPOINT_FAULTS:
            return BackendError(
                f"The chat endpoint {self.endpoint.name!r} cannot serve model {self.endpoint.model!r} ({said}).",
                "Check chat.model and chat.base_url (it ends in /v1) and run again: answers are kept.",
            )
        if status < 500 and status not in WORTH_RETRYING:
            return RequestError(f"Request {request} was refused by {self.endpoint.name!r} ({said}).")
        wait_s = retry_after_s(error.response.headers.get("retry-after", ""))
        if wait_s > self.longest_wait_s:
            return BackendError(
                f"The chat endpoint {self.endpoint.name!r} asks to wait {wait_s:.0f} s ({said}).",
                "Run again after that time: answers are kept.",
            )
        return TryAgainError(said, endpoint_gone=status in ENDPOINT_GONE, retry_after_s=wait_s)

    def give_up(self, last: TryAgainError, request: str, n_tries: int) -> BackendError | RequestError:
        """The error after the last try."""
        if last.endpoint_gone:
            return BackendError(
                f"The chat endpoint {self.endpoint.name!r} is not answering: {n_tries} tries, {last.reason}.",
                "See that its server runs and that the quota is not used up, then run again: answers are kept.",
            )
        return RequestError(f"Request {request} to {self.endpoint.name!r} failed {n_tries} times: {last.reason}.")

    def redact(self, message: str) -> str:
        """A server's message, short and without the key."""
        return message.replace(self.api_key, "***")[:N_QUOTED] if self.api_key else message[:N_QUOTED]


def retry_after_s(header: str) -> float:
    """Seconds to wait by a Retry-After header, which holds seconds or a date; 0 when it holds neither."""
    try:
        return max(0.0, float(header))
    except ValueError:
        parsed = email.utils.parsedate_tz(header)
        return max(0.0, email.utils.mktime_tz(parsed) - time.time()) if parsed else 0.0
