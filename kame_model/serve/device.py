"""The engine in the one thread it belongs to, and how many slots it has."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Protocol, TypeVar

import torch

from data_schemas.config.serving import ServeConfig
from data_schemas.units import FRAME_S
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.engine import Engine

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

_MOST_SLOTS = 8
"""Where the configuration leaves their number open."""

_N_PROBED = 10
"""Steps; a server starts later by twice so many."""


class RunInThread(Protocol):
    """Starts work in the engine's thread; awaiting it gives its result."""

    def __call__(self, work: Callable[[], _T], /) -> Awaitable[_T]:
        """Starts it at once, or when awaited."""


def open_engine(checkpoint: Checkpoint, config: ServeConfig) -> Engine:
    """An engine, begun, with as many slots as are configured, or as a frame has time for; `close_engine` ends it.

    Raises:
        ConfigError: the checkpoint has no codec or vocabulary, or they are not those of its model.
        BackendError: the codec does not load.
        StoreError: a file is another one than the checkpoint says.
        torch.OutOfMemoryError: not even one slot finds room on the device.
    """
    tokenizer = checkpoint.tokenizer()
    codec = checkpoint.codec(str(checkpoint.front_end.lm.device))
    budget_s = config.limits.budget_share * FRAME_S

    def new(n_slots: int) -> Engine:
        return Engine(checkpoint.front_end, codec, tokenizer, n_slots, config.sampling, config.cuda_graphs)

    def fits(n_slots: int) -> bool:
        try:
            with new(n_slots) as tried:
                found_s[n_slots] = tried.measure()
        except torch.OutOfMemoryError:
            return False
        return found_s[n_slots] <= budget_s

    found_s: dict[int, float] = {}
    n_slots = config.limits.max_sessions or most_that_fit(fits, _MOST_SLOTS)
    with ExitStack() as stack:
        engine = stack.enter_context(new(n_slots))
        step_s = found_s.get(n_slots) or engine.measure()
        stack.pop_all()  # it stays open
    _LOG.info("A step of %d slots takes %.1f ms.", n_slots, 1000 * step_s)
    if step_s > budget_s:
        _LOG.warning(
            "A step of %d slots takes %.0f ms, and a frame's budget is %.0f ms: there will be gaps in what is said.",
            n_slots,
            1000 * step_s,
            1000 * budget_s,
        )
    return engine


def probe(engine: Engine) -> dict[int, float]:
    """What a step takes with one caller and with all slots taken, seconds, by the number of callers."""
    return {n_callers: engine.measure(_N_PROBED, n_callers) for n_callers in sorted({1, engine.n_slots})}


def close_engine(engine: Engine) -> None:
    """Gives back what `open_engine` took."""
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
