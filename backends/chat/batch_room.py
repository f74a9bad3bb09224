"""How many requests a batch may have: the provider's bound, and less while its queue is full."""

import asyncio
from collections.abc import Collection

from backends.chat.limits import Delays
from data_schemas.errors import BackendError


class BatchRoom:
    """The size of batches, learned from those that a provider refuses because too many tokens are enqueued there.

    Such a batch waits for one of ours to end. Where none is under way it was too large by itself, or others fill the
    queue: the next ones are half as large, after a wait, until one passes; then sizes grow again.

    Args:
        n_bound: most requests of a batch.
        max_attempts: refusals of single requests, with nothing of ours under way, after which the run stops.
        delays: between two tries.
    """

    def __init__(self, n_bound: int, max_attempts: int, delays: Delays) -> None:
        self.n_most = n_bound
        self._n_bound = n_bound
        self._max_attempts = max_attempts
        self._delays = delays
        self._n_ended = self._n_refused = 0
        self._change = asyncio.Event()

    def changed(self) -> None:
        """Notes that a batch is no longer under way, for whatever reason."""
        self._change.set()
        self._change = asyncio.Event()

    def ended(self) -> None:
        """Notes a batch that the queue had room for."""
        self.n_most = min(self._n_bound, 2 * self.n_most)
        self._n_ended += 1
        self._n_refused = 0
        self.changed()

    async def wait(self, n_requests: int, under_way: Collection[str], endpoint_name: str) -> None:
        """Waits until a refused batch of so many requests may be tried again, in portions of `n_most`.

        Args:
            under_way: other batches of ours, a living view.

        Raises:
            BackendError: single requests are refused too, with nothing of ours under way.
        """
        n_ended = self._n_ended
        if under_way:
            while under_way and self._n_ended == n_ended:
                await self._change.wait()
            return
        self._n_refused += 1
        if n_requests == 1 and self._n_refused >= self._max_attempts:
            raise BackendError(
                f"The chat endpoint {endpoint_name!r} takes no batch, not even of one request: too many tokens are "
                "enqueued for this account.",
                "When its other batches have ended, run again: answers are kept.",
            )
        self.n_most = max(1, n_requests // 2)
        await asyncio.sleep(min(self._delays.first_look_s * 2**self._n_refused, self._delays.longest_look_s))
