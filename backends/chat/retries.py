"""Another try of what may pass: how often, and after which wait. The same for every question to an endpoint."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from backends.chat.faults import TryAgainError
from backends.chat.limits import Delays

if TYPE_CHECKING:
    from tenacity import RetryCallState


def retry_options(
    max_attempts: int, delays: Delays, on_retry: Callable[["RetryCallState"], None] | None = None
) -> dict[str, Any]:
    """Arguments of tenacity's `Retrying` and `AsyncRetrying`: what raises `TryAgainError` is tried again.

    The wait is random and grows, so that those refused together do not come back together; what the server asks for
    (Retry-After) is waited first. The last try's error is raised as it is.

    Args:
        on_retry: called before each wait.
    """
    from tenacity import retry_if_exception_type, stop_after_attempt

    return {
        "stop": stop_after_attempt(max_attempts),
        "wait": partial(_wait_s, delays),
        "before_sleep": on_retry,
        "retry": retry_if_exception_type(TryAgainError),
        "reraise": True,
    }


def _wait_s(delays: Delays, state: "RetryCallState") -> float:
    from tenacity import wait_random_exponential

    backoff_s = wait_random_exponential(multiplier=delays.first_backoff_s, max=delays.longest_backoff_s)(state)
    error = state.outcome.exception() if state.outcome else None
    return backoff_s + (error.retry_after_s if isinstance(error, TryAgainError) else 0.0)
