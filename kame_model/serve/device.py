"""The engine in the one thread it belongs to, and how many slots it has."""

import logging
from collections.abc import Awaitable, Callable
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
    limits = config.limits
    budget_s = limits.budget_share * FRAME_S
    n_slots = limits.max_sessions or _MOST_SLOTS
    while True:
        engine = Engine(checkpoint.front_end, codec, tokenizer, n_slots, config.sampling, config.cuda_graphs)
        step_s = _measured(engine, may_fail=limits.max_sessions == 0 and n_slots > 1)
        if step_s is not None and (step_s <= budget_s or limits.max_sessions or n_slots == 1):
            break
        if step_s is not None:
            close_engine(engine)
        n_slots //= 2
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


def _measured(engine: Engine, may_fail: bool) -> float | None:
    """Begins an engine and measures its step, seconds; None: the device has no memory for so many slots."""
    try:
        engine.__enter__()
        return engine.measure()
    except torch.OutOfMemoryError:
        close_engine(engine)
        if not may_fail:
            raise
        return None
