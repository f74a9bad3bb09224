"""The engine in the one thread it belongs to: how many slots it has, and what its steps take."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import cached_property, partial
from statistics import median
from typing import Protocol, TypeVar

import torch

from backends.codec.protocol import Codec
from data_schemas.config.serving import ServeConfig
from data_schemas.units import FRAME_S
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.device.engine import N_WARM_UP, Engine
from kame_model.text.tokenizer import Tokenizer

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

_MOST_SLOTS = 8
"""Where the configuration leaves their number open."""

_CHANGED = 0.15
"""By what share a step's time must have changed since slots were looked for before they are again: two measurements of
one machine differ by a few per cent, and to make slots anew keeps callers out for seconds. A step that filled the
default budget and takes so much longer is still over within its frame."""

_N_PROBED = 10
"""Steps that are measured with each number of callers, after those of the warm-up."""


class RunInThread(Protocol):
    """Starts work in the engine's thread; awaiting it gives its result."""

    def __call__(self, work: Callable[[], _T], /) -> Awaitable[_T]:
        """Starts it at once, or when awaited."""


class EngineOpener:
    """Opens a server's engine with as many slots as are configured, or as a frame has time for.

    All is done in the engine's thread. Codec and vocabulary are read when the first engine is opened, and kept for the
    next ones: a server that runs needs neither its checkpoint's folder nor the Hub.

    Args:
        checkpoint: with its codec and vocabulary.
        config: of the server.
    """

    def __init__(self, checkpoint: Checkpoint, config: ServeConfig) -> None:
        self._checkpoint, self._config = checkpoint, config
        self._budget_s = config.limits.budget_share * FRAME_S
        self._most = _MOST_SLOTS  # as far as memory is known to reach
        self._found_s = 0.0  # what a step took when the number of slots was last looked for

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return self._checkpoint.tokenizer()

    @cached_property
    def _codec(self) -> Codec:
        return self._checkpoint.codec(str(self._checkpoint.front_end.lm.device))

    def open(self, n_slots: int = 0) -> Engine:
        """An engine, begun; `close_engine` ends it. There is one at a time: the one before must have been closed.

        Args:
            n_slots: how many it has; 0: as many as are configured, or as a frame has time for.

        Raises:
            ConfigError: the checkpoint has no codec or vocabulary, or they are not those of its model.
            BackendError: the codec does not load.
            StoreError: a file is another one than the checkpoint says.
            torch.OutOfMemoryError: not even one slot finds room on the device.
        """
        front_end, config = self._checkpoint.front_end, self._config

        def new(n_slots: int) -> Engine:
            return Engine(front_end, self._codec, self._tokenizer, n_slots, config.sampling, config.cuda_graphs)

        def fits(n_slots: int) -> bool:
            try:
                with new(n_slots) as tried:
                    found_s[n_slots] = tried.measure()
            except torch.OutOfMemoryError:
                self._most = min(self._most, n_slots - 1)
                return False
            return found_s[n_slots] <= self._budget_s

        found_s: dict[int, float] = {}
        is_search = not n_slots
        n_slots = n_slots or config.limits.max_sessions or most_that_fit(fits, self._most)
        with ExitStack() as stack:
            engine = stack.enter_context(new(n_slots))
            step_s = found_s.get(n_slots) or engine.measure()
            stack.pop_all()  # it stays open
        if is_search:
            self._found_s = step_s
        _LOG.info("A step of %d slots takes %.1f ms.", n_slots, 1000 * step_s)
        if step_s > self._budget_s:
            _LOG.warning(
                "A step of %d slots takes %.0f ms, and a frame's budget is %.0f ms: there will be gaps.",
                n_slots,
                1000 * step_s,
                1000 * self._budget_s,
            )
        return engine

    def wants_another(self, n_slots: int, step_s: float) -> bool:
        """Whether another number of slots is likely to fit better, where a step of all these now takes so long.

        Never where the number is configured, nor where a step takes about as long as when it was last looked for. More
        are likely to fit if one more would, in proportion: as a step has a part that does not grow with its slots, the
        time of one more is overestimated.
        """
        if self._config.limits.max_sessions or abs(step_s - self._found_s) < _CHANGED * self._found_s:
            return False
        if step_s > self._budget_s:
            return n_slots > 1
        return n_slots < self._most and step_s * (n_slots + 1) / n_slots <= self._budget_s


async def probe(engine: Engine, run: RunInThread, goes_on: Callable[[], bool] = lambda: True) -> dict[int, float]:
    """What a step takes with one caller and with all slots taken, seconds, by the number of callers.

    Step by step, so that a caller who comes meanwhile waits for one step. All slots must be reset before they are
    anybody's.

    Args:
        engine: on which nobody is.
        run: starts work in its thread.
        goes_on: asked before each step; where it is False nothing is found out.
    """
    found_s = {}
    for n_callers in sorted({1, engine.n_slots}):
        times_s = []
        for _ in range(N_WARM_UP + _N_PROBED):
            if not goes_on():
                return {}
            times_s.append(await run(partial(engine.time_step, n_callers)))
        found_s[n_callers] = median(times_s[N_WARM_UP:])
    return found_s


def close_engine(engine: Engine) -> None:
    """Gives back what `EngineOpener.open` took."""
    engine.__exit__(None, None, None)


def most_that_fit(fits: Callable[[int], bool], most: int) -> int:
    """The greatest number, `most` at most, that fits, where each below one that fits does too; 1 if none above it does.

    Args:
        fits: asked about a number once, and never about 1: first the greatest, then by halves down to one that fits,
            then between that one and the last that did not.
    """
    n_fit, n_too_many = most, most + 1
    while n_fit > 1 and not fits(n_fit):
        n_fit, n_too_many = n_fit // 2, n_fit
    while n_too_many - n_fit > 1:
        middle = (n_fit + n_too_many) // 2
        n_fit, n_too_many = (middle, n_too_many) if fits(middle) else (n_fit, middle)
    return n_fit
