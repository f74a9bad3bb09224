"""Minutes of the real `kame serve` over the network, with callers that talk and callers that misbehave.

Recogniser, chat model and voice are real; callers say sentences of Kokoro's. Now and then the chat model's process is
stopped for some seconds. What the server's process holds is looked at whenever nobody is connected.
"""

import asyncio
import itertools
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import httpx
import numpy as np
import psutil  # type: ignore[import-untyped]
import sphn
from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from backends.protocols import Samples
from backends.tts.kokoro import Kokoro
from benchmarks.listen import SENTENCES
from benchmarks.serve_process import Running, running
from benchmarks.serve_questions import words_of
from data_schemas.errors import BackendError
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S, SAMPLE_RATE_HZ
from kame_model.serve.talk import SOUND, Call, in_real_time, talk

Kind = Literal["talks", "vanishes", "garbage", "silent", "fast"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MODES = ("tandem", "direct", "cascade")
MARKS = (("france",), ("cell", "energy"), ("apples",), ("chairs",), ("captain", "coins"))
"""Words of each of the sentences that are in no other."""
_IDLE_S = 5
_ROUND_S = 45.0
_STOPPED_S = 8.0
_LOADED = 2
"""Rounds after which all parts have been used by several callers: what is held then is the measure of the rest."""
_MOST_TRIES, _AGAIN_S = 12, 5.0
_MOST_GROWN_MIB = 64.0


@dataclass(frozen=True, slots=True)
class Held:
    """What the server's process holds while nobody is connected."""

    n_files: int
    n_threads: int
    memory_mib: float


@dataclass(slots=True)
class RealReport:
    """What came of it; `broken` are promises that were not kept, in words.

    Attributes:
        n_callers: by kind.
        n_refused, refused: how often one was not let in and came again, and why the last one was not.
        n_sent, n_answered: frames of those that talked.
        n_gaps: how often one of them heard nothing because a frame was late.
        held: after each round.
    """

    n_callers: Counter[str] = field(default_factory=Counter)
    n_refused: int = 0
    refused: str = ""
    n_events: Counter[str] = field(default_factory=Counter)
    n_sent: int = 0
    n_answered: int = 0
    n_gaps: int = 0
    n_dropped: Counter[str] = field(default_factory=Counter)
    held: list[Held] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


class RealSoak:
    """Callers of a running server.

    Args:
        on_round: told of what is held after each round.
    """

    def __init__(self, server: Running, n_at_once: int, seed: int, on_round: Callable[[Held], None]) -> None:
        self.report = RealReport()
        self._server, self._n_at_once, self._on_round = server, n_at_once, on_round
        self._random = random.Random(seed)
        self._modes = itertools.cycle(MODES)
        kokoro = Kokoro()
        voice = kokoro.voices()[0].name
        self._sentences: list[Samples] = [kokoro.synthesise(each, voice, 1.0).samples for each in SENTENCES]

    async def run(self, minutes: float) -> RealReport:
        """Rounds of callers until the time is over; after each the server has to be as empty as once all is loaded."""
        end_s = time.monotonic() + 60 * minutes
        while time.monotonic() < end_s or len(self.report.held) < _LOADED + 1:
            await self._round()
            self.report.held.append(await self._empty())
            self._on_round(self.report.held[-1])
        self._compare()
        return self.report

    async def _round(self) -> None:
        """Callers at once, one after another in each place; every other one talks, the others misbehave in turn."""
        kinds = iter([kind for bad in KINDS[1:] for kind in (KINDS[0], bad)])
        numbers = iter(range(1000))
        end_s = time.monotonic() + _ROUND_S

        async def lane() -> None:
            for kind in kinds:
                await self._call(kind, next(numbers) % len(SENTENCES))
                if time.monotonic() > end_s and len(self.report.held) > 0:
                    return

        async with asyncio.TaskGroup() as lanes:
            for _ in range(self._n_at_once):
                lanes.create_task(lane())
            lanes.create_task(self._stall_chat())

    async def _call(self, kind: Kind, sentence: int) -> None:
        """One caller, who comes again when it is refused: a busy server may do so."""
        for _ in range(_MOST_TRIES):
            try:
                if kind == "talks":
                    await self._talk(sentence)
                else:
                    await self._misbehave(kind, self._sentences[sentence])
            except (BackendError, InvalidStatus) as error:
                self.report.n_refused += 1
                self.report.refused = str(error)
                await asyncio.sleep(_AGAIN_S)
            else:
                self.report.n_callers[kind] += 1
                return
        self.report.broken.append(f"a caller was refused {_MOST_TRIES} times: {self.report.refused}")

    async def _talk(self, sentence: int) -> None:
        report = self.report
        call = Call(url=self._server.url, mode=next(self._modes))
        talked = await talk(call, in_real_time(self._sentences[sentence], 6.0))
        n_sent = -(-(len(self._sentences[sentence]) + 6 * SAMPLE_RATE_HZ) // FRAME_N_SAMPLES)
        report.n_sent += n_sent
        report.n_answered += talked.player.n_samples // FRAME_N_SAMPLES
        report.n_gaps += talked.player.n_gaps
        report.n_dropped.update(talked.dropped())
        report.n_events.update(event["kind"] for event in talked.events)
        heard = {
            word for event in talked.events if event["kind"] == "heard" for word in words_of(event["data"]["text"])
        }
        strange = heard & {mark for other, marks in enumerate(MARKS) if other != sentence for mark in marks}
        if strange:
            report.broken.append(f"a caller who said {SENTENCES[sentence]!r} was heard to say {sorted(strange)}")
        if talked.ended:
            report.broken.append(f"a caller was let go: {talked.ended}")

    async def _misbehave(self, kind: Kind, sound: Samples) -> None:
        address = f"{self._server.url.replace('http', 'ws', 1)}/api/chat?mode={self._random.choice(MODES)}"
        opus = sphn.OpusStreamWriter(SAMPLE_RATE_HZ)
        socket = await connect(address, proxy=None, open_timeout=60)
        hearing = asyncio.create_task(_drain(socket))
        try:
            with suppress(ConnectionClosed):
                async for frame in _paced(sound, 10.0 if kind == "fast" else 1.0):
                    if kind == "silent":
                        await asyncio.wait_for(socket.wait_closed(), 10 * _IDLE_S)
                        return
                    await socket.send(bytes([SOUND]) + opus.append_pcm(frame))
                    if kind in ("vanishes", "garbage") and self._random.random() < 0.1:
                        break
                for _ in range(50 if kind == "garbage" else 0):
                    await socket.send(self._random.randbytes(self._random.randint(1, 400)))
                    await asyncio.sleep(0.01)
        except TimeoutError:
            self.report.broken.append(f"a caller who sends nothing is not let go within {10 * _IDLE_S} s")
        finally:
            if kind == "vanishes":
                socket.transport.abort()
            await socket.close()
            await asyncio.gather(hearing, return_exceptions=True)

    async def _stall_chat(self) -> None:
        """Stops the chat model's process for a while; callers talk on."""
        await asyncio.sleep(5)
        children = psutil.Process(self._server.process_id).children(recursive=True)
        for child in children:
            with suppress(psutil.Error):
                if "llama" in " ".join(child.cmdline()):
                    self.report.n_callers["the chat model was stopped"] += 1
                    os.kill(child.pid, signal.SIGSTOP)
                    try:
                        await asyncio.sleep(_STOPPED_S)
                    finally:
                        os.kill(child.pid, signal.SIGCONT)

    async def _empty(self) -> Held:
        """What the server holds once it has let everybody go."""
        async with httpx.AsyncClient(timeout=60) as client:
            for _ in range(60):
                if not n_sessions((await client.get(f"{self._server.url}/metrics")).text):
                    break
                await asyncio.sleep(1)
            else:
                self.report.broken.append("sessions are left a minute after the last caller has gone")
            ready = (await client.get(f"{self._server.url}/readyz")).status_code
        if ready != httpx.codes.OK:
            self.report.broken.append(f"the server lets nobody in any more: /readyz is {ready}")
        await asyncio.sleep(3)
        process = psutil.Process(self._server.process_id)
        return Held(process.num_fds(), process.num_threads(), process.memory_info().rss / 2**20)

    def _compare(self) -> None:
        first, last = self.report.held[_LOADED - 1], self.report.held[-1]
        for what, was, now, more in (
            ("file handles", first.n_files, last.n_files, 2),
            ("threads", first.n_threads, last.n_threads, 2),
            ("MiB", first.memory_mib, last.memory_mib, _MOST_GROWN_MIB),
        ):
            if now > was + more:
                self.report.broken.append(f"{what}: {was:.0f} once all was loaded, {now:.0f} after the last round")
        log = self._server.log.read_text(encoding="utf-8")
        if "Traceback" in log:
            self.report.broken.append(f"the log has a traceback: {log[log.index('Traceback') :][:2000]}")


def real_soak(
    checkpoint: str, minutes: float, n_at_once: int, settings: Sequence[str], on_round: Callable[[Held], None]
) -> RealReport:
    """The soak, on a server started for it.

    Raises:
        RunError: the server does not start, or does not end.
    """
    # A share of 1: on a machine with just enough time callers are to come all the same.
    options = [
        "limits.budget_share=1",
        f"limits.max_sessions={n_at_once}",
        f"limits.idle_s={_IDLE_S}",
        "limits.max_starts_per_minute=1000",
    ]
    with running(checkpoint, [*options, f"limits.max_sessions_per_address={n_at_once + 1}", *settings]) as server:
        return asyncio.run(RealSoak(server, n_at_once, 0, on_round).run(minutes))


def n_sessions(metrics: str) -> int:
    """Sessions that a server has, by its `/metrics`."""
    families = text_string_to_metric_families(metrics)
    return round(sum(each.value for family in families if family.name == "kame_sessions" for each in family.samples))


async def _paced(sound: Samples, times_as_fast: float) -> AsyncIterator[Samples]:
    """A sound's frames at a multiple of their own speed."""
    for start in range(0, len(sound), FRAME_N_SAMPLES):
        piece = sound[start : start + FRAME_N_SAMPLES]
        yield np.pad(piece, (0, FRAME_N_SAMPLES - len(piece)))
        await asyncio.sleep(FRAME_S / times_as_fast)


async def _drain(socket: Any) -> None:
    with suppress(ConnectionClosed):
        async for _ in socket:
            pass
