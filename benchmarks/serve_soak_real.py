"""Soak test of the real `kame serve` over the network, with normal and misbehaving callers.

    python -m benchmarks.serve soak --real [CHECKPOINT] [--minutes 10] [--at-once 2] [--json FILE]

Recogniser, chat model and text-to-speech are real; callers say sentences of Kokoro. In each round, the chat model's
process is suspended for some seconds. In the first half, the recogniser is in the server's process, as by default; in
the second half it is another process, which is killed and restarted in each round. The server's resources are checked
whenever nobody is connected. `tests/support/soak_verdict.py` has the checks.
"""

import asyncio
import itertools
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import InvalidStatus

from backends.engine import Samples
from backends.tts.kokoro import Kokoro
from benchmarks.serve_process import Running, run_server
from benchmarks.serve_real_callers import KINDS, BadCaller, Kind, talk_once
from data_schemas.errors import BackendError
from tests.support.recogniser_process import RecogniserProcess, recogniser_process
from tests.support.soak_verdict import LOADED, SENTENCES, WAYS, Held, Outage, Talk, broken_promises, grown

_IDLE_S = 5
_ROUND_S = 45.0
_STOPPED_S, _AWAY_S = 8.0, 6.0
_MOST_TRIES, _AGAIN_S = 12, 5.0
_BUSY = ("429", "503")
"""Status codes by which a server refuses callers for the moment."""


@dataclass(slots=True)
class RealReport:
    """Result of the soak test; `broken` describes failed checks.

    Attributes:
        n_callers: callers by kind, and number of times that a component was stopped.
        n_refused, refused: number of refusals, and reason of the last one.
        talks: calls of normal callers.
        outages: outages of the recogniser.
        held: resources after each round, of one server after the other.
    """

    n_callers: Counter[str] = field(default_factory=Counter)
    n_refused: int = 0
    refused: str = ""
    talks: list[Talk] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    held: list[list[Held]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Returns the report as JSON values, with sums over the calls."""
        talks = self.talks
        return {
            "n_callers": dict(self.n_callers),
            "n_talks": dict(Counter(f"{talk.mode} {talk.path}" for talk in talks)),
            "n_refused": self.n_refused,
            "refused": self.refused,
            "n_events": dict(sum((talk.n_events for talk in talks), Counter())),
            "n_sent": sum(talk.n_sent for talk in talks),
            "n_unanswered": sum(talk.n_unanswered for talk in talks),
            "n_gaps": sum(talk.n_gaps for talk in talks),
            "n_dropped": dict(sum((talk.n_dropped for talk in talks), Counter())),
            "n_outages": len(self.outages),
            "held": [[asdict(each) for each in server] for server in self.held],
            "broken": self.broken,
        }


class RealSoak:
    """Callers of a running server.

    Args:
        report: result that is filled in.
        on_round: called with the held resources after each round.
        recogniser: process of the recogniser, which is killed and restarted in each round.
    """

    def __init__(
        self,
        server: Running,
        report: RealReport,
        n_at_once: int,
        on_round: Callable[[Held], None],
        recogniser: RecogniserProcess | None = None,
    ) -> None:
        self._server, self._report, self._n_at_once, self._on_round = server, report, n_at_once, on_round
        self._recogniser = recogniser
        self._held: list[Held] = []
        report.held.append(self._held)
        self._random = random.Random(len(report.held))
        self._numbers = itertools.count()
        self._n_talking = 0
        kokoro = Kokoro()
        voice = kokoro.voices()[0].name
        self._sounds: list[Samples] = [kokoro.synthesise(each.text, voice, 1.0).samples for each in SENTENCES]

    async def run(self, minutes: float) -> None:
        """Runs rounds of callers until the time is over; after each, the server must be as empty as after loading.

        Failed checks are added to `broken` of the report.
        """
        end_s = time.monotonic() + 60 * minutes
        while time.monotonic() < end_s or len(self._held) < LOADED + 1:
            await self._run_measured_round()
        if self._recogniser is not None:
            await self._run_measured_round(is_killed=False)  # who comes after its last return must be heard
        self._report.broken += grown(self._held)
        log = self._server.log.read_text(encoding="utf-8")
        if "Traceback" in log:
            self._report.broken.append(f"the log has a traceback: {log[log.index('Traceback') :][:2000]}")

    async def _run_measured_round(self, is_killed: bool = True) -> None:
        """Runs a round, and records the resources of the empty server after it."""
        await self._run_round(is_killed)
        self._held.append(await self._wait_until_empty())
        self._on_round(self._held[-1])

    async def _run_round(self, is_killed: bool) -> None:
        """Runs several callers at a time for about 45 s, every other one normal; the chat model is suspended once.

        Args:
            is_killed: whether the recogniser's process is killed.
        """
        kinds = iter([kind for bad in KINDS[1:] for kind in (KINDS[0], bad)])
        end_s = time.monotonic() + _ROUND_S

        async def lane() -> None:
            for kind in kinds:
                await self._run_caller(kind)
                if time.monotonic() > end_s and self._held:
                    return

        async with asyncio.TaskGroup() as lanes:
            for _ in range(self._n_at_once):
                lanes.create_task(lane())
            lanes.create_task(self._stall_chat())
            if self._recogniser is not None and is_killed:
                lanes.create_task(self._kill_recogniser(self._recogniser))

    async def _run_caller(self, kind: Kind) -> None:
        """Runs one caller of a kind, which tries again if the server is too busy.

        Other refusals, and twelve in a row, are reported as failed checks.
        """
        number = next(self._numbers)
        for _ in range(_MOST_TRIES):
            try:
                await (self._talk_once(number) if kind == "talks" else self._misbehave(kind, number))
            except (BackendError, InvalidStatus) as error:
                if _get_status(error) not in _BUSY:
                    self._report.broken.append(f"a caller could not talk: {error}")
                    return
                self._report.n_refused += 1
                self._report.refused = str(error)
                await asyncio.sleep(_AGAIN_S)
            else:
                self._report.n_callers[kind] += 1
                return
        self._report.broken.append(f"a caller was refused {_MOST_TRIES} times: {self._report.refused}")

    async def _talk_once(self, number: int) -> None:
        """Makes one normal call; successive calls take all sockets and modes in turn."""
        n_talks = len(self._report.talks) + self._n_talking
        path, mode = WAYS[n_talks % len(WAYS)]
        talk = Talk(number % len(SENTENCES), path, mode)
        self._n_talking += 1
        try:
            await talk_once(self._server.url, talk, self._sounds[talk.sentence])
        finally:
            self._n_talking -= 1
        self._report.talks.append(talk)

    async def _misbehave(self, kind: Kind, number: int) -> None:
        """Runs a misbehaving caller, and reports its failed check."""
        caller = BadCaller(self._server.url, self._random, 10 * _IDLE_S)
        broken = await caller.run(kind, self._sounds[number % len(SENTENCES)])
        if broken:
            self._report.broken.append(broken)

    async def _stall_chat(self) -> None:
        """Suspends each process of the chat model in turn for 8 s, while callers continue."""
        await asyncio.sleep(5)
        for child in psutil.Process(self._server.process_id).children(recursive=True):
            with suppress(psutil.Error):
                if "llama" in " ".join(child.cmdline()):
                    self._report.n_callers["the chat model was stopped"] += 1
                    os.kill(child.pid, signal.SIGSTOP)
                    try:
                        await asyncio.sleep(_STOPPED_S)
                    finally:
                        os.kill(child.pid, signal.SIGCONT)

    async def _kill_recogniser(self, recogniser: RecogniserProcess) -> None:
        """Kills the recogniser's process during a call, or after 45 s without one, and restarts it after 6 s."""
        until_s = time.monotonic() + _ROUND_S
        while not self._n_talking and time.monotonic() < until_s:
            await asyncio.sleep(0.1)
        await asyncio.sleep(2)
        clock = asyncio.get_running_loop().time
        began_s = clock()
        recogniser.kill()
        self._report.n_callers["the recogniser was killed"] += 1
        await asyncio.sleep(_AWAY_S)
        await asyncio.to_thread(recogniser.start)
        self._report.outages.append(Outage(began_s, clock()))

    async def _wait_until_empty(self) -> Held:
        """Waits until the server has no session, and returns the resources that it still holds.

        If sessions are left after a minute, or the server lets nobody in, the report says so.
        """
        async with httpx.AsyncClient(timeout=60) as client:
            for _ in range(60):
                metrics = await client.get(f"{self._server.url}/metrics")
                if metrics.status_code == httpx.codes.OK and not count_sessions(metrics.text):
                    break
                await asyncio.sleep(1)
            else:
                self._report.broken.append(
                    f"sessions are left a minute after the last caller has gone (/metrics: {metrics.status_code})"
                )
            ready = await client.get(f"{self._server.url}/readyz")
        if ready.status_code != httpx.codes.OK and ready.json()["error"]["code"] != "too_slow":  # that keeps nobody out
            self._report.broken.append(f"the server lets nobody in any more: {ready.text}")
        await asyncio.sleep(3)
        process = psutil.Process(self._server.process_id)
        return Held(process.num_fds(), process.num_threads(), process.memory_info().rss / 2**20)


def run_real_soak(
    checkpoint: str, minutes: float, n_at_once: int, settings: Sequence[str], on_round: Callable[[Held], None]
) -> RealReport:
    """Runs the soak test on two servers, one after the other, and returns the report.

    The first has the recogniser in its own process, the second in another one, which is killed and restarted.

    Raises:
        RunError: a server or the recogniser does not start, or does not end.
    """
    report = RealReport()
    options = [
        f"limits.max_sessions={n_at_once}",
        f"limits.idle_s={_IDLE_S}",
        "limits.max_starts_per_minute=1000",
        f"limits.max_sessions_per_address={n_at_once + 1}",
        *settings,
    ]
    for is_apart in (False, True):
        with ExitStack() as stack:
            recogniser = stack.enter_context(recogniser_process()) if is_apart else None
            listening = [] if recogniser is None else recogniser.settings
            server = stack.enter_context(run_server(checkpoint, [*options, *listening]))
            asyncio.run(RealSoak(server, report, n_at_once, on_round, recogniser).run(minutes / 2))
    report.broken += broken_promises(report.talks, report.outages)
    if not report.outages:
        report.broken.append("the recogniser was never killed")
    return report


def _get_status(error: BackendError | InvalidStatus) -> str:
    """Returns the HTTP status of a refusal as text; empty for an error without one."""
    return error.status if isinstance(error, BackendError) else str(error.response.status_code)


def count_sessions(metrics: str) -> int:
    """Returns the number of sessions of a server, from its `/metrics`."""
    families = text_string_to_metric_families(metrics)
    return round(sum(each.value for family in families if family.name == "kame_sessions" for each in family.samples))
