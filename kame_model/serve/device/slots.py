"""Slots: sizes the engine's batch by what a frame has time for, measured again while the server is idle."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property, partial
from statistics import median
from typing import Final

import torch

from backends.codec.protocol import Codec
from data_schemas.config.serving import ServeConfig
from data_schemas.units import FRAME_S
from kame_model.checkpoint.kame_json import choose_voice
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.device.admission import Admission
from kame_model.serve.device.engine import N_WARM_UP, FrontEndEngine, RunInThread
from kame_model.serve.device.frame_meter import FrameMeter
from kame_model.serve.device.stepper import Stepper
from kame_model.text.tokenizer import Tokenizer

_LOG = logging.getLogger(__name__)

MEASURE_EVERY_S: Final = 60.0
"""Interval of the measurements of an idle server: two dozen steps, which take a second or two at most."""
MEASURE_AGAIN_S: Final = 5.0
"""First interval if steps were late or one caller has no real time; it doubles until a caller comes, so that measuring
does not keep a slow machine busy.
"""

MOST_SLOTS: Final = 8
"""The maximum if the configuration sets no number."""

_CHANGED: Final = 0.15
"""Relative change of a step's time after which the number of slots is searched again: two measurements of one machine
differ by a few per cent, and recreating slots refuses callers for seconds. A step that filled the default budget and
takes this much longer fits its frame.
"""

_N_PROBED: Final = 10
"""Steps that are measured with each number of callers, after the warm-up."""


class Slots:
    """A server's engine, opened with the configured number of slots, or as many as a frame has time for.

    Codec and tokenizer are loaded with the first engine and kept for the next ones: a running server needs neither its
    checkpoint's folder nor the Hub.

    Args:
        checkpoint: with its codec and tokenizer.
        config: of the server.
        run: starts work in the engine's thread, the only one that touches it.
        meter: receives the measurements.
        admission: admits nobody while slots are recreated.
        is_idle: whether there is no session.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        config: ServeConfig,
        run: RunInThread,
        meter: FrameMeter,
        admission: Admission,
        is_idle: Callable[[], bool],
    ) -> None:
        self._checkpoint, self._config, self._run = checkpoint, config, run
        self._meter, self._admission, self._is_idle = meter, admission, is_idle
        self._budget_s = config.limits.budget_share * FRAME_S
        self._engine: FrontEndEngine | None = None
        self._most = MOST_SLOTS  # the maximum that is known to fit in memory
        self._found_s = 0.0  # step time when the number of slots was last searched
        self._measured_s, self._again_s = 0.0, MEASURE_AGAIN_S
        self._n_late_known, self._has_failed = 0, False

    async def start(self) -> Stepper:
        """Opens and measures the engine; returns its stepper.

        Raises:
            ConfigError: the checkpoint has no codec or tokenizer, or they do not fit its model.
            BackendError: the codec does not load.
            StoreError: a file differs from the one that the checkpoint names.
            torch.OutOfMemoryError: not even one slot fits on the device.
        """
        engine = await self._run(self._open)
        stepper = Stepper(engine, engine.n_slots, self._run, self._meter, self._config.limits.budget_share)
        await self._measure(engine, stepper)
        return stepper

    async def remeasure_if_idle(self, stepper: Stepper) -> None:
        """Measures the device again if the server is idle and the last measurement may be outdated.

        The slots are recreated if another number fits now. After an error, which is logged, their number stays as it
        was until the next try; if they could not be recreated, nobody is admitted until then.
        """
        if not self._is_idle():
            self._again_s = MEASURE_AGAIN_S
            return
        now_s = asyncio.get_running_loop().time()
        has_been_late = self._meter.n_late > self._n_late_known
        wait_s = self._again_s if has_been_late or self._is_doubtful(now_s) else MEASURE_EVERY_S
        if now_s - self._measured_s < wait_s:
            return
        later_s = min(2 * self._again_s, MEASURE_EVERY_S) if self._is_doubtful(now_s) else MEASURE_AGAIN_S
        try:
            step_s = None if self._engine is None else await self._measure(self._engine, stepper)
            if self._engine is None or (step_s is not None and self._needs_another_size(self._engine.n_slots, step_s)):
                await self._resize(stepper)
            self._has_failed = False
        except Exception:  # noqa: BLE001  an idle server must survive any error here
            self._has_failed, self._measured_s = True, asyncio.get_running_loop().time()
            _LOG.exception(
                "How many callers the device can serve could not be measured. The server %s and tries again in %g s. "
                "If this message is repeated, check the device and its memory, and restart the server.",
                f"continues with {stepper.n_slots} slots" if self._engine else "has no engine, admits nobody",
                later_s,
            )
        self._again_s = later_s if self._is_doubtful(asyncio.get_running_loop().time()) else MEASURE_AGAIN_S

    def close(self) -> None:
        """Releases the device; runs in the engine's thread."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.__exit__(None, None, None)

    def _is_doubtful(self, now_s: float) -> bool:
        """Returns whether the last measurement failed, or even one caller cannot be served in real time."""
        return self._has_failed or not self._meter.can_serve_alone(now_s)

    async def _measure(self, engine: FrontEndEngine, stepper: Stepper) -> float | None:
        """Measures an idle device, and stores the times in the meter.

        All slots are reset before their next step.

        Returns:
            The time of a step of all slots, seconds; None, and nothing is stored, if a caller came.
        """
        stepper.reset_all()  # now, for callers who arrive during the measurement
        self._measured_s, self._n_late_known = asyncio.get_running_loop().time(), self._meter.n_late
        probed_s = await measure_idle_device(engine, self._run, self._is_idle)
        if not (self._is_idle() and probed_s):
            return None
        self._meter.set_idle_times(probed_s)
        return probed_s[engine.n_slots]

    def _needs_another_size(self, n_slots: int, step_s: float) -> bool:
        """Returns whether another number of slots is likely to fit better, given the time of a step of all slots.

        False if the number is configured, or if a step takes about as long as at the last search. More are likely to
        fit if one more would, in proportion, which overestimates the time, as part of a step does not grow with its
        slots.
        """
        if self._config.limits.max_sessions or abs(step_s - self._found_s) < _CHANGED * self._found_s:
            return False
        if step_s > self._budget_s:
            return n_slots > 1
        return n_slots < self._most and step_s * (n_slots + 1) / n_slots <= self._budget_s

    async def _resize(self, stepper: Stepper) -> None:
        """Searches the number of slots again and replaces the engine; nobody is admitted until there is one again.

        Raises:
            Exception: the search failed. There are as many slots as before, or no engine at all.
        """
        n_before, self._admission.is_measuring = stepper.n_slots, True
        try:
            engine = await self._run(self._open)
        except Exception:
            self._switch_engine(await self._run(partial(self._open, n_before)), stepper)
            raise
        self._switch_engine(engine, stepper)
        _LOG.info("The number of slots is now %d; it was %d.", stepper.n_slots, n_before)
        await self._measure(engine, stepper)

    def _switch_engine(self, engine: FrontEndEngine, stepper: Stepper) -> None:
        """Lets the stepper use a new engine, and admits callers again."""
        stepper.use(engine, engine.n_slots)
        self._meter.forget_steps()  # they were those of another engine
        self._admission.is_measuring = False

    def _open(self, n_slots: int = 0) -> FrontEndEngine:
        """Closes the engine, and returns a new one that is opened. Runs in the engine's thread.

        Args:
            n_slots: the number of slots; 0: as configured, or as many as a frame has time for.
        """
        self.close()
        found_s: dict[int, float] = {}
        is_search = not n_slots
        n_slots = (
            n_slots
            or self._config.limits.max_sessions
            or find_most_that_fit(partial(self._measure_fits, found_s), self._most)
        )
        with ExitStack() as stack:
            engine = stack.enter_context(self._create_engine(n_slots))
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
        self._engine = engine
        return engine

    def _measure_fits(self, found_s: dict[int, float], n_slots: int) -> bool:
        """Returns whether a step of so many slots stays within the budget; its time is stored in `found_s`.

        If there is not enough memory for so many slots, they do not fit, and are not tried again.
        """
        try:
            with self._create_engine(n_slots) as tried:
                found_s[n_slots] = tried.measure()
        except torch.OutOfMemoryError:
            self._most = min(self._most, n_slots - 1)
            return False
        return found_s[n_slots] <= self._budget_s

    def _create_engine(self, n_slots: int) -> FrontEndEngine:
        """Returns a new engine of the checkpoint's model, which is not opened yet."""
        config = self._config
        front_end = self._checkpoint.front_end
        sampling = self._checkpoint.choose_sampling(config.sampling)
        is_heard = choose_voice(self._checkpoint.facts, config.voice) == "decoded"
        return FrontEndEngine(front_end, self._codec, self._tokenizer, n_slots, sampling, config.cuda_graphs, is_heard)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        """The tokenizer, loaded at the first use."""
        return self._checkpoint.load_tokenizer()

    @cached_property
    def _codec(self) -> Codec:
        """The codec on the front-end's device, loaded at the first use."""
        return self._checkpoint.load_codec(str(self._checkpoint.front_end.lm.device))


async def measure_idle_device(
    engine: FrontEndEngine, run: RunInThread, goes_on: Callable[[], bool]
) -> dict[int, float]:
    """Returns the time of a step with one caller and with all slots taken, seconds, by the number of callers.

    It measures step by step, so that a caller who arrives then waits for one step. All slots must be reset before
    they are used.

    Args:
        engine: an idle one.
        run: starts work in its thread.
        goes_on: called before each step; if it returns False, the result is empty.
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


def find_most_that_fit(fits: Callable[[int], bool], most: int) -> int:
    """Returns the greatest number up to `most` that fits, given that all smaller ones fit, too; at least 1.

    Args:
        fits: called at most once per number, and never for 1: first the greatest, then by halves down to one that fits,
            then between that one and the last that did not.
    """
    n_fit, n_too_many = most, most + 1
    while n_fit > 1 and not fits(n_fit):
        n_fit, n_too_many = n_fit // 2, n_fit
    while n_too_many - n_fit > 1:
        middle = (n_fit + n_too_many) // 2
        n_fit, n_too_many = (middle, n_too_many) if fits(middle) else (n_fit, middle)
    return n_fit
