"""Many sessions on a simulated clock, good callers and bad ones, and whether anything of them is left.

The whole server but its network and its thread: both sockets as ASGI, a tiny real front-end and codec, doubles that
hear and answer. A step takes `STEP_S` on the clock, so that callers come and go in the middle of steps.
"""

import asyncio
import contextlib
import functools
import gc
import logging
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, get_args
from unittest.mock import patch

import looptime
import psutil  # type: ignore[import-untyped]
from starlette.types import ASGIApp

from backends.tts.double import DoubleTts
from data_schemas.config.serving import CascadeConfig
from data_schemas.units import FRAME_S
from kame_model.checkpoint.load import Checkpoint
from kame_model.frames.ids import PADDING_ID
from kame_model.serve.device.engine import FrameIn
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.oracle.routing import BackEnd
from kame_model.serve.parts import ServerParts
from kame_model.serve.server import KameServer
from kame_model.serve.session.session import Session
from kame_model.serve.voice.speaker import Speaker
from kame_model.serve.web.app import create_app
from tests.support.inline_threads import InlineThreads
from tests.support.serve_doubles import (
    N_PITCHES,
    N_WORDS,
    ON_PURPOSE,
    Fault,
    ToneRecogniser,
    WordChat,
    word_of,
    words_in,
)
from tests.support.serving import LoudnessDetector, inline, serve_config
from tests.support.soak_callers import UNHURT, SoakCaller, Told

STEP_S = 0.02
MOST_LATE_S = 2 * FRAME_S + 2 * STEP_S
"""A frame waits for a tick, its step and a second one of those who are behind; Opus holds back less than a frame."""
_MOST_MISSING = (2, 1)
"""Frames that are not answered: a reset takes what waits, and the last frame of all is on its way."""
_SETTLE_S = 150.0
FAULTS: tuple[Fault, ...] = get_args(Fault)
_T = TypeVar("_T")


@dataclass(slots=True)
class Left:
    """What a process holds."""

    n_tasks: int
    n_threads: int
    n_files: int
    n_sessions: int
    memory_mib: float
    objects: Counter[str] = field(repr=False)


@dataclass(slots=True)
class SoakReport:
    """What came of a soak.

    Attributes:
        broken: promises that were not kept, in words.
        n_callers: by fault.
        ended: sessions by why they ended.
        worst_late_s: of all frames of callers that did nothing wrong.
        grown: objects by class of which there are more than a caller's share after the soak.
    """

    n_callers: Counter[Fault] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    n_steps: int = 0
    n_oracles: int = 0
    n_fed: int = 0
    n_dropped: Counter[str] = field(default_factory=Counter)
    simulated_s: float = 0.0
    worst_late_s: float = 0.0
    memory_grown_mib: float = 0.0
    grown: dict[str, int] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Converts it to a dictionary for JSON."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: dict(value) if isinstance(value, Counter) else value for name, value in values.items()}


class Fed:
    """The words that the device's slots were fed as oracles, by session; wrong ones are those of another's."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._tokenizer = checkpoint.load_tokenizer()
        self._ids: dict[str, list[int]] = {}
        self.n_ids = 0

    def words(self, session_id: str) -> set[str]:
        """Returns the words that a session was fed, and forgets them."""
        parts: list[list[int]] = [[]]
        for each in self._ids.pop(session_id, []):
            if each == self._tokenizer.text_card:
                parts.append([])
            else:
                parts[-1].append(each)
        return {word for part in parts for word in words_in(self._tokenizer.decode(part))}

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Records what sessions are fed during a `with` block."""
        take = Session.take

        def watched(session: Session) -> FrameIn | None:
            given = take(session)
            if given is not None and given.oracle != PADDING_ID:
                self._ids.setdefault(session.id, []).append(given.oracle)
                self.n_ids += 1
            return given

        with patch.object(Session, "take", watched):
            yield


class Soak:
    """A server and its callers.

    Args:
        checkpoint: tiny, or there will be a long wait.
        n_at_once: callers at once, each followed by another at once.
        on_caller: told of each caller that has gone.
    """

    def __init__(self, checkpoint: Checkpoint, n_at_once: int, on_caller: Callable[[Told], None]) -> None:
        self.report = SoakReport()
        self._checkpoint, self._n_at_once, self._on_caller = checkpoint, n_at_once, on_caller
        self._fed = Fed(checkpoint)
        self._callers: dict[int, tuple[int, Fault]] = {}
        self._faults: dict[str, Fault] = {}
        self._chat = WordChat(self._faults)

    async def run(self, n_callers: int, n_first: int, faults: Sequence[Fault]) -> SoakReport:
        """Runs callers, of whom every second one is bad, and reports which promises were not kept.

        Args:
            n_first: number of callers of all kinds that come first, so that what is loaded late is no leak.
            faults: faults of the bad callers, in turn.
        """
        first = [(N_WORDS - 1 - at, FAULTS[at % len(FAULTS)]) for at in range(n_first)]
        planned = [(at, faults[at // 2 % len(faults)] if at % 2 else "none") for at in range(n_callers)]
        async with self._served() as (server, app):
            await self._lanes(app, first)
            held()  # the first time makes things of its own
            before = await self._settled(server)
            await self._lanes(app, planned)
            after = await self._settled(server)
            self._compare(before, after, n_callers)
            self._conclude(server)
        return self.report

    async def _settled(self, server: KameServer) -> Left:
        """Waits until late callbacks and the meter's window have gone, and returns what is held then."""
        clock = asyncio.get_running_loop()
        await asyncio.sleep(_SETTLE_S)
        server.meter.has_room(1.0, clock.time())
        return held()

    def _conclude(self, server: KameServer) -> None:
        """Adds the server's counts to the report, and the promises that it has not kept."""
        report = self.report
        report.n_steps, report.n_oracles = server.meter.n_steps, server.n_events["oracle_done"]
        report.n_dropped, report.n_fed = server.n_dropped, self._fed.n_ids
        report.simulated_s = round(asyncio.get_running_loop().time(), 1)
        self._expect(not server.sessions, f"sessions are left: {len(server.sessions)}")
        self._expect(not self._chat.n_open, f"requests are left open: {self._chat.n_open}")
        self._expect(not self._chat.n_mixed, f"requests with several callers' words: {self._chat.n_mixed}")
        self._expect(not server.meter.n_failed, f"steps failed: {server.meter.n_failed}")

    @contextlib.asynccontextmanager
    async def _served(self) -> AsyncIterator[tuple[KameServer, ASGIApp]]:
        """Runs the server during a `with` block, and yields it with its app."""
        config = serve_config(
            limits={"max_sessions": self._n_at_once, "idle_s": 5, "max_starts_per_minute": 999},
            cycle={"interval_s": 0.2, "first_token_timeout_s": 0.5},
        )
        back_ends = {"default": BackEnd("default", self._chat, load_prompt("tandem"))}
        speaker = Speaker(DoubleTts(), CascadeConfig(), InlineThreads())
        parts = ServerParts(ToneRecogniser(self._callers), LoudnessDetector, back_ends, speaker)
        with self._fed.watching(), self._logged():
            async with KameServer(self._checkpoint, config, parts, run=_taking_time) as server:
                yield server, create_app(server)

    @contextlib.contextmanager
    def _logged(self) -> Iterator[None]:
        """Within it every error in the log that nobody made on purpose is a broken promise."""
        soak = self

        class Errors(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                error = record.exc_info[1] if record.exc_info else None
                soak._expect(ON_PURPOSE in str(error), f"in the log: {record.getMessage()} {error!r}")

        root = logging.getLogger()
        others, root.handlers = root.handlers, [Errors(logging.ERROR)]  # others may keep tracebacks, and all in them
        try:
            yield
        finally:
            root.handlers = others

    async def _lanes(self, app: ASGIApp, planned: list[tuple[int, Fault]]) -> None:
        """Runs as many callers at a time as there are slots, until all of a plan (number and fault) have called."""
        waiting = iter(planned)

        async def lane() -> None:
            for number, fault in waiting:
                await self._call(app, number, fault)

        async with asyncio.TaskGroup() as lanes:
            for _ in range(self._n_at_once):
                lanes.create_task(lane())

    async def _call(self, app: ASGIApp, number: int, fault: Fault) -> None:
        """Runs one caller, and judges what it was told."""
        self._callers[number % N_PITCHES] = (number, fault)
        self._faults[word_of(number)] = fault
        told = await SoakCaller(app, number, fault).run()
        del self._faults[word_of(number)]
        self._judge(told, self._fed.words(told.session_id))
        self._on_caller(told)

    def _judge(self, told: Told, fed: set[str]) -> None:
        """Adds a caller to the report, and the promises that were not kept to it.

        Args:
            fed: words that its session was fed as oracles.
        """
        report, who = self.report, f"caller {told.number} ({told.fault}, {told.path})"
        report.n_callers[told.fault] += 1
        report.ended[told.ended] += 1
        own = {word_of(told.number)}
        self._expect(not told.status, f"{who} was refused: {told.status}")
        self._expect(told.words <= own, f"{who} was told {sorted(told.words - own)}")
        self._expect(fed <= own, f"{who}: the front-end was fed {sorted(fed - own)}")
        if told.fault not in UNHURT:
            return
        report.worst_late_s = max(report.worst_late_s, told.worst_late_s)
        self._expect(told.worst_late_s <= MOST_LATE_S, f"{who}: a frame came {1000 * told.worst_late_s:.0f} ms late")
        self._expect(not told.n_dropped, f"{who}: {told.n_dropped} frames were dropped")
        self._expect(len(told.missing) == 1 + (told.fault == "changes"), f"{who} began {len(told.missing)} times")
        for n_missing, most in zip(told.missing, _MOST_MISSING[-len(told.missing) :], strict=False):
            self._expect(n_missing <= most, f"{who}: {n_missing} frames were not answered")
        if told.fault == "ear-dies":
            self._expect("listening_failed" in told.kinds, f"{who} was not told that nobody heard it")
        if told.fault.startswith("llm"):
            self._expect("oracle_failed" in told.kinds, f"{who} was not told of the chat model's failure")

    def _compare(self, before: Left, after: Left, n_callers: int) -> None:
        """Adds to the report what is held after the soak and was not held before."""
        for name in ("n_tasks", "n_threads", "n_files", "n_sessions"):
            self._expect((now := getattr(after, name)) <= (was := getattr(before, name)), f"{name}: {was}, then {now}")
        self.report.memory_grown_mib = after.memory_mib - before.memory_mib
        grown = {name: n - before.objects[name] for name, n in after.objects.items()}
        self.report.grown = {name: n for name, n in sorted(grown.items()) if n >= max(2, n_callers / 2)}
        self._expect(not self.report.grown, f"objects are left: {self.report.grown}")

    def _expect(self, is_kept: bool, broken: str) -> None:
        if not is_kept:
            self.report.broken.append(broken)


def held() -> Left:
    """Clears caches and collects garbage, and returns what this process holds then."""
    for module in [each for name, each in sys.modules.items() if name.startswith("kame_model")]:
        for each in vars(module).values():  # caches of words and the like: bounded, and no leak
            if isinstance(each, functools._lru_cache_wrapper):
                each.cache_clear()
    gc.collect()
    every, process = gc.get_objects(), psutil.Process()
    return Left(
        n_tasks=len(asyncio.all_tasks()),
        n_threads=threading.active_count(),
        n_files=process.num_fds(),
        n_sessions=sum(type(each) is Session for each in every),
        memory_mib=process.memory_info().rss / 2**20,
        objects=Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in every),
    )


def soak(
    checkpoint: Checkpoint,
    n_callers: int,
    n_at_once: int = 4,
    n_first: int = len(FAULTS),
    on_caller: Callable[[Told], None] = lambda told: None,
    faults: Sequence[Fault] = FAULTS,
) -> SoakReport:
    """Runs a soak on a clock of its own and reports on it; `broken` of the report is empty if all went well.

    Args:
        faults: faults of every second caller, in turn.
    """
    gc.freeze()  # what is there already, in a long process millions of objects, is no leak
    with contextlib.ExitStack() as ended:
        ended.callback(gc.unfreeze)
        runner = ended.enter_context(asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(start=0.0)))
        return runner.run(Soak(checkpoint, n_at_once, on_caller).run(n_callers, n_first, faults))


async def _taking_time(work: Callable[[], _T]) -> _T:
    """Does the engine's work in the loop's own thread, and lets it take `STEP_S` on the loop's clock."""
    done = await inline(work)
    await asyncio.sleep(STEP_S)
    return done
