"""Error handling of chat requests: translates openai's errors into a retry, a failed request, or the end of the run."""

import email.utils
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from backends.chat.cache import StoredReply
from backends.chat.protocol import Endpoint
from data_schemas.errors import AnswerRefused, BackendError, RequestError

if TYPE_CHECKING:
    import openai

N_QUOTED = 300
"""Maximum characters of a server's own message in an error."""
WORTH_RETRYING = frozenset({408, 409, 425, 429})
"""HTTP status codes below 500 that may be temporary; all from 500 on may be."""
ENDPOINT_FAULTS = frozenset({402, 404, 405})
"""Status codes about the endpoint, not the request: unpaid, or no such model or path (the same for all requests)."""
ENDPOINT_GONE = frozenset({429, 502, 503, 504})
"""Status codes that, if they persist, mean that no request is answered: quota used up, or a gateway without server."""

NOT_TAKEN = frozenset({"ConnectTimeout", "PoolTimeout"})
"""Names of httpx's timeout errors before a request was sent."""
CUT_OFF = frozenset({"RemoteProtocolError", "ReadError", "WriteError", "DecodingError"})
"""Names of errors of httpx (and of httpx2, which newer openai uses) if the server closed the connection."""
NO_CONNECTION = "no connection"
TIMEOUT = "timeout"
OVERLOADED = frozenset({429, 503, 529})
"""Status codes of an overloaded server (529: Anthropic's)."""
REFUSED = "refused"
"""Status of an answer that the model, or its provider's filter, refused to give."""
_KEY_REFUSED: Final = frozenset({"API_KEY_INVALID", "API_KEY_SERVICE_BLOCKED"})
"""Google's reasons in a 400 or 403 response for an invalid API key."""
_USED_UP: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached", "enforced_spend_limit_reached"})
"""Codes of a 429 response if an account has reached its spending limit (OpenAI; Anthropic): waiting does not help."""


class TryAgainError(Exception):
    """An attempt failed in a way that may be temporary.

    Args:
        reason: what happened, for the final error if no attempt succeeds.
        status: its name in logs: an HTTP status, `timeout`, `no connection`, `cut off`, `malformed`, or the state of
            the batch that had no answer (`expired`, `cancelled`, `gone`, …).
        overloaded: whether the server is overloaded, so that fewer requests should be in flight.
        endpoint_gone: whether the final error stops the run if no other request is answered, or fails only this one.
        retry_after_s: how long the server asks to wait, seconds.
        may_be_paid: whether the server may charge for the request: it accepted it, and did not reject it.
    """

    def __init__(
        self,
        reason: str,
        status: str = "",
        *,
        overloaded: bool = False,
        endpoint_gone: bool = False,
        retry_after_s: float = 0.0,
        may_be_paid: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.overloaded = overloaded
        self.endpoint_gone = endpoint_gone
        self.retry_after_s = retry_after_s
        self.may_be_paid = may_be_paid


class UnusableAnswerError(TryAgainError):
    """An answer was received, and must be paid for, but has no text.

    Args:
        reason: what is wrong with it.
        paid: the tokens that it cost.
        is_final: whether a retry would fail in the same way.
        status: `malformed`, or `REFUSED`.
    """

    def __init__(self, reason: str, paid: StoredReply, *, is_final: bool, status: str = "malformed") -> None:
        super().__init__(reason, status)
        self.paid = paid
        self.is_final = is_final


def make_timeout_error(reason: str, *, was_taken: bool = True) -> TryAgainError:
    """Makes the error of an attempt that timed out: the server is overloaded, or hangs.

    Args:
        was_taken: whether the server may have received the request, which may then have to be paid for.
    """
    return TryAgainError(reason, TIMEOUT, overloaded=True, endpoint_gone=True, may_be_paid=was_taken)


@dataclass(frozen=True, slots=True)
class FaultTranslator:
    """Translates openai's errors into KAME's. The API key is known only to redact it in messages.

    `longest_wait_s`: a server that asks to wait longer than this stops the run, seconds.
    """

    endpoint: Endpoint
    api_key: str
    api_key_env: str
    longest_wait_s: float

    def translate(self, error: "openai.APIError", request: str) -> Exception:
        """Returns a `TryAgainError`, or a `RequestError` or `BackendError` if a retry does not help.

        A RequestError is about this request, which `request` names in messages, a BackendError about the endpoint.
        """
        import openai

        if isinstance(error, openai.APITimeoutError):
            return make_timeout_error("no answer in time", was_taken=not NOT_TAKEN & _get_class_names(error.__cause__))
        if isinstance(error, openai.APIConnectionError):
            return self._translate_connection(error)
        if isinstance(error, openai.APIStatusError):
            return self._translate_status(error, request)
        return TryAgainError(f"an answer that cannot be read ({self.redact(error.message)})", "malformed")

    def _translate_connection(self, error: "openai.APIConnectionError") -> TryAgainError:
        """Returns the error of a lost connection, which may be paid for, or of one that was not made."""
        cause = self.redact(str(error.__cause__ or error))
        if CUT_OFF & _get_class_names(error.__cause__):
            reason = f"cut off before the answer was whole ({cause})"
            return TryAgainError(reason, "cut off", endpoint_gone=True, may_be_paid=True)
        return TryAgainError(f"no connection ({cause})", NO_CONNECTION, endpoint_gone=True)

    def _translate_status(self, error: "openai.APIStatusError", request: str) -> Exception:
        """Returns the error of an HTTP status, as `translate`; BackendError also if it asks to wait too long."""
        status = error.status_code
        body = read_error(error.body)
        said = f"HTTP {status}: {self.redact(body.message or error.message)}"
        if status in (401, 403) or body.codes & _KEY_REFUSED:  # such messages quote parts of the key and are dropped
            return BackendError(
                f"The chat endpoint {self.endpoint.name!r} refuses our key (HTTP {status}).",
                f"Put a valid key into the variable {self.api_key_env} and run again: completed answers are cached.",
                str(status),
            )
        if status in ENDPOINT_FAULTS:
            return BackendError(
                f"The chat endpoint {self.endpoint.name!r} cannot serve model {self.endpoint.model!r} ({said}).",
                "Check chat.model and chat.base_url (it ends in /v1) and run again: completed answers are cached.",
                str(status),
            )
        if status < 500 and status not in WORTH_RETRYING:
            refusal = f"Request {request} was refused by {self.endpoint.name!r} ({said})."
            return RequestError(refusal, status=str(status))
        if body.codes & _USED_UP:
            return BackendError(
                f"The account at {self.endpoint.name!r} may spend no more ({said}).",
                "Raise its limit or pay for more, then run again: completed answers are cached.",
                str(status),
            )
        wait_s = read_wait_s(error.response.headers) or body.wait_s
        if wait_s > self.longest_wait_s:
            return BackendError(
                f"The chat endpoint {self.endpoint.name!r} asks to wait {wait_s:.0f} s ({said}).",
                "Run again after that time, or raise chat.max_wait_s: completed answers are cached.",
                str(status),
            )
        return TryAgainError(
            said,
            str(status),
            overloaded=status in OVERLOADED,
            endpoint_gone=status in ENDPOINT_GONE,
            retry_after_s=wait_s,
        )

    def make_final_error(
        self, last: TryAgainError, request: str, n_tries: int, *, nobody_is_answered: bool
    ) -> BackendError | RequestError:
        """Makes the error after the last attempt: BackendError if the endpoint seems gone, else RequestError.

        Args:
            nobody_is_answered: whether no other request is answered; else the endpoint is busy rather than gone.
        """
        if last.endpoint_gone and nobody_is_answered:
            return BackendError(
                f"The chat endpoint {self.endpoint.name!r} is not answering: {n_tries} tries, {last.reason}.",
                "Check that its server runs and that quota is left, then run again: completed answers are cached.",
            )
        return RequestError(f"Request {request} to {self.endpoint.name!r} failed {n_tries} times: {last.reason}.")

    def make_no_text_error(self, error: UnusableAnswerError, request: str) -> RequestError:
        """Makes the error of a request that will never be answered with text: `AnswerRefused` if the model refused."""
        what = f"Request {request} to {self.endpoint.name!r} got {error.reason}."
        if error.status == REFUSED:
            return AnswerRefused(what, "Rephrase it, or use another model.", REFUSED)
        return RequestError(what, "If it ended by 'length', raise max_tokens: the model thinks before it answers.")

    def redact(self, message: str) -> str:
        """Returns a server's message without the API key, and cut off after `N_QUOTED` characters."""
        return message.replace(self.api_key, "***")[:N_QUOTED] if self.api_key else message[:N_QUOTED]


def _get_class_names(error: BaseException | None) -> set[str]:
    """Returns the names of an error's classes, as openai may use httpx or httpx2."""
    return {each.__name__ for each in type(error).__mro__}


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """The content of an error response's body, of any provider.

    Attributes:
        message: text for people; empty if there is none.
        codes: all identifiers of its kind: code, type, status and the reasons in its details.
        wait_s: how long it asks to wait, seconds; 0: it does not.
    """

    message: str = ""
    codes: frozenset[str] = frozenset()
    wait_s: float = 0.0


def read_error(body: object) -> ErrorBody:
    """Parses an error response's body: of OpenAI or Anthropic (`{"error": {…}}`, or its inner part), or of Google,
    which has a list, and the time to wait in the details (`google.rpc.RetryInfo`: "45.8s") instead of a header. The
    result is empty if it is none of these."""
    if isinstance(body, list):
        body = next(iter(body), None)
    if isinstance(body, dict):
        body = body.get("error", body)
    if not isinstance(body, dict):
        return ErrorBody()
    details = body.get("details")
    parts = [each for each in (details if isinstance(details, list) else [details]) if isinstance(each, dict)]
    codes = [body.get(name) for name in ("code", "type", "status")]
    codes += [part.get(name) for part in parts for name in ("reason", "error_code")]
    waits_s = [_parse_duration_s(part.get("retryDelay")) for part in parts]
    message = body.get("message")
    return ErrorBody(
        message if isinstance(message, str) else "",
        frozenset(each for each in codes if isinstance(each, str)),
        max(waits_s, default=0.0),
    )


def _parse_duration_s(written: Any) -> float:
    """Parses a duration in the JSON form of Protocol Buffers ("3.5s"), seconds; 0 if it is none."""
    if not isinstance(written, str) or not written.endswith("s"):
        return 0.0
    return parse_retry_after_s(written.removesuffix("s"))


def read_wait_s(headers: Mapping[str, str]) -> float:
    """Returns the seconds to wait by a response's headers `retry-after-ms` (OpenAI, Azure) or `retry-after`; else 0."""
    return parse_retry_after_s(headers.get("retry-after-ms", "")) / 1000 or parse_retry_after_s(
        headers.get("retry-after", "")
    )


def parse_retry_after_s(header: str) -> float:
    """Parses a Retry-After header (seconds or a date) as seconds to wait; 0 if it is neither."""
    try:
        return max(0.0, float(header))
    except ValueError:
        parsed = email.utils.parsedate_tz(header)
    try:
        return max(0.0, email.utils.mktime_tz(parsed) - time.time()) if parsed else 0.0
    except (ValueError, OverflowError):  # not a valid date
        return 0.0
