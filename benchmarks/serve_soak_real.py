"""Soak test of the real `kame serve` over the network, with normal and misbehaving callers.

    python -m benchmarks.serve soak --real [CHECKPOINT] [--minutes 10] [--at-once 2] [--json FILE]

Recogniser, chat model and text-to-speech are real; callers say sentences of Kokoro. In each round, the chat model's
process is suspended for some seconds. In the first half, the recogniser is in the server's process, as by default; in
the second half it is another process, which is killed and restarted in each round. The server's resources are checked
whenever nobody is connected. `tests/support/soak_verdict.py` has the checks.
"""

import asyncio
import itertools
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import httpx
import numpy as np
import psutil  # type: ignore[import-untyped]
import sphn
from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from backends.engine import Samples
from benchmarks.command import measure_mib
from benchmarks.serve_process import RunningServer, run_server, speak_sentences
from data_schemas.errors import BackendError
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S, SAMPLE_RATE_HZ
from kame_model.serve.client.client import ServerCall, play_in_real_time, talk
from kame_model.serve.client.talk_record import TalkRecord
from kame_model.serve.web.moshi_protocol import Kind as MessageKind
from tests.support.arrivals import n_gaps
from tests.support.realtime_call import RealtimeCall
from tests.support.realtime_protocol import append
from tests.support.recogniser_process import RecogniserProcess, recogniser_process
from tests.support.soak_verdict import LOADED, MODES, PATHS, WAYS, Held, Outage, Talk, broken_promises, grown

KINDS = ("talks", "vanishes", "garbage", "silent", "fast")
CHAT, _ = PATHS
_SILENCE_S = 6.0
"""Silence after the sentence, in seconds, for the answer."""
_IDLE_S = 5
_ROUND_S = 45.0
_STOPPED_S, _AWAY_S = 8.0, 6.0
_MOST_TRIES, _AGAIN_S = 12, 5.0
_BUSY = ("429", "503")
"""Status codes by which a server refuses callers for the moment."""


async def talk_once(url: str, talked: Talk, sound: Samples) -> None:
    """Calls the server, says a sentence in real time, listens to the answer, and records the result in `talked`.

    Raises:
        BackendError, InvalidStatus: the server refused it; the caller may try again.
    """
    clock = asyncio.get_running_loop().time
    talked.began_s = clock()
    if talked.path == CHAT:
        record = await talk(ServerCall(url=url, mode=talked.mode), play_in_real_time(sound, _SILENCE_S))
        talked.ended_s, talked.ended = clock(), record.ended
        talked.n_sent = -(-(len(sound) + round(_SILENCE_S * SAMPLE_RATE_HZ)) // FRAME_N_SAMPLES)
        talked.n_answered, talked.n_gaps = record.player.n_samples // FRAME_N_SAMPLES, record.player.n_gaps
    else:
        async with RealtimeCall(url, f"mode={talked.mode}") as call:
            await call.say(play_in_real_time(sound, _SILENCE_S))
            talked.ended_s = clock()
            await call.wait_until_answered()
        record = TalkRecord(events=call.side.events)
        talked.ended, talked.n_sent = call.ended, call.n_sent
        talked.n_answered = min(call.n_answered, call.n_sent - call.side.n_missing_in_responses)
        talked.n_gaps = sum(n_gaps(run) for run in call.side.runs())
    talked.n_dropped.update(record.count_dropped_frames())
    talked.n_events.update(event["kind"] for event in record.events)
    for kind in ("heard", "oracle", "said"):
        pieces = [event["data"]["text"] for event in record.events if event["kind"] == kind]
        talked.texts[kind] = ("" if kind == "said" else " ").join(pieces)


async def misbehave(url: str, kind: str, sound: Samples, chance: random.Random) -> str:
    """Makes a call that misbehaves in the way that `kind` names; returns a failed check, or an empty text.

    Its socket, its mode and what it sends are random. If it is refused, it raises an InvalidStatus.
    """
    path = chance.choice(PATHS)
    address = f"{url.replace('http', 'ws', 1)}{path}?mode={chance.choice(MODES)}"
    socket = await connect(address, proxy=None, open_timeout=60)
    hearing = asyncio.create_task(_discard_messages(socket))
    try:
        if kind == "silent":
            await asyncio.wait_for(socket.wait_closed(), 10 * _IDLE_S)
        with suppress(ConnectionClosed):
            await _send_badly(socket, path, kind, sound, chance)
    except TimeoutError:
        return f"a caller who sends nothing is not let go within {10 * _IDLE_S} s"
    finally:
        if kind == "vanishes":
            socket.transport.abort()
        await socket.close()
        await asyncio.gather(hearing, return_exceptions=True)
    return ""


async def _send_badly(socket: ClientConnection, path: str, kind: str, sound: Samples, chance: random.Random) -> None:
    """Sends audio, ten times too fast or only the beginning of it, or then garbage; see `misbehave`."""
    opus = sphn.OpusStreamWriter(SAMPLE_RATE_HZ)
    async for frame in _play_at_rate(sound, 10.0 if kind == "fast" else 1.0):
        if path == CHAT:
            await socket.send(bytes([MessageKind.AUDIO]) + opus.append_pcm(frame))
        else:
            await socket.send(json.dumps(append(frame)))
        if kind in ("vanishes", "garbage") and chance.random() < 0.1:
            break
    for _ in range(50 if kind == "garbage" else 0):
        garbage = chance.randbytes(chance.randint(1, 400))
        await socket.send(chance.choice((garbage, garbage.decode(errors="replace"))))
        await asyncio.sleep(0.01)


async def _play_at_rate(sound: Samples, times_as_fast: float) -> AsyncIterator[Samples]:
    """Yields the frames of audio at a multiple of real time; the last one is padded."""
    for start in range(0, len(sound), FRAME_N_SAMPLES):
        piece = sound[start : start + FRAME_N_SAMPLES]
        yield np.pad(piece, (0, FRAME_N_SAMPLES - len(piece)))
        await asyncio.sleep(FRAME_S / times_as_fast)


async def _discard_messages(socket: ClientConnection) -> None:
    """Reads and discards all messages until the connection is closed."""
    with suppress(ConnectionClosed):
        async for _ in socket:
            pass


class RealSoak:
    """Callers of running servers, one after the other, and what came of them.

    Attributes:
        n_callers: callers by kind, and number of times that a component was stopped.
        refused: reasons of refusals.
        talks: calls of normal callers.
        outages: outages of the recogniser.
        held: resources after each round, of one server after the other.
        broken: failed checks.
    """

    def __init__(self, n_at_once: int) -> None:
        self.n_callers: Counter[str] = Counter()
        self.refused: list[str] = []
        self.talks: list[Talk] = []
        self.outages: list[Outage] = []
        self.held: list[list[Held]] = []
        self.broken: list[str] = []
        self._n_at_once, self._n_talking = n_at_once, 0
        self._random, self._numbers = random.Random(0), itertools.count()
        self._sounds = speak_sentences()

    async def run(self, server: RunningServer, recogniser: RecogniserProcess | None, minutes: float) -> None:
        """Runs rounds of callers until the time is over; after each, the server must be as empty as after loading.

        The process of the recogniser, if there is one, is killed and restarted in each round.
        """
        held: list[Held] = []
        self.held.append(held)
        end_s = time.monotonic() + 60 * minutes
        while time.monotonic() < end_s or len(held) < LOADED + 1:
            await self._run_round(server, recogniser)
        if recogniser is not None:
            await self._run_round(server, None)  # who comes after its last return must be heard
        self.broken += grown(held)
        log = server.log.read_text(encoding="utf-8")
        if "Traceback" in log:
            self.broken.append(f"the log has a traceback: {log[log.index('Traceback') :][:2000]}")

    def conclude(self) -> dict[str, Any]:
        """Checks all calls together, and returns the report as JSON values, with sums over the calls."""
        talks = self.talks
        broken = [*self.broken, *broken_promises(talks, self.outages)]
        return {
            "n_callers": dict(self.n_callers),
            "n_talks": dict(Counter(f"{talk.mode} {talk.path}" for talk in talks)),
            "n_refused": len(self.refused),
            "refused": self.refused[-1:],
            "n_events": dict(sum((talk.n_events for talk in talks), Counter())),
            "n_sent": sum(talk.n_sent for talk in talks),
            "n_unanswered": sum(talk.n_unanswered for talk in talks),
            "n_gaps": sum(talk.n_gaps for talk in talks),
            "n_dropped": dict(sum((talk.n_dropped for talk in talks), Counter())),
            "n_outages": len(self.outages),
            "held": [[asdict(each) for each in server] for server in self.held],
            "broken": broken if self.outages else [*broken, "the recogniser was never killed"],
        }

    async def _run_round(self, server: RunningServer, recogniser: RecogniserProcess | None) -> None:
        """Runs several callers at a time for about 45 s, half of them normal, and records what the server then holds.

        In each round the chat model is suspended once, and the process of the recogniser is killed if there is one.
        """
        kinds = iter([kind for bad in KINDS[1:] for kind in (KINDS[0], bad)])
        end_s = time.monotonic() + _ROUND_S

        async def run_callers() -> None:
            for kind in kinds:
                await self._run_caller(server, kind)
                if time.monotonic() > end_s and self.held[-1]:
                    return

        async with asyncio.TaskGroup() as lanes:
            for _ in range(self._n_at_once):
                lanes.create_task(run_callers())
            lanes.create_task(self._stall_chat(server))
            if recogniser is not None:
                lanes.create_task(self._kill_recogniser(recogniser))
        self.held[-1].append(await self._wait_until_empty(server))
        print(self.held[-1][-1], file=sys.stderr, flush=True)

    async def _run_caller(self, server: RunningServer, kind: str) -> None:
        """Runs one caller of a kind, which tries again, at most twelve times, if the server is too busy."""
        number = next(self._numbers)
        sound = self._sounds[number % len(self._sounds)]
        for _ in range(_MOST_TRIES):
            try:
                if kind == "talks":
                    await self._talk_once(server, number, sound)
                elif broken := await misbehave(server.url, kind, sound, self._random):
                    self.broken.append(broken)
            except (BackendError, InvalidStatus) as error:
                status = error.status if isinstance(error, BackendError) else str(error.response.status_code)
                if status not in _BUSY:
                    self.broken.append(f"a caller could not talk: {error}")
                    return
                self.refused.append(str(error))
                await asyncio.sleep(_AGAIN_S)
            else:
                self.n_callers[kind] += 1
                return
        self.broken.append(f"a caller was refused {_MOST_TRIES} times: {self.refused[-1]}")

    async def _talk_once(self, server: RunningServer, number: int, sound: Samples) -> None:
        """Makes one normal call; successive calls take all sockets and modes in turn."""
        path, mode = WAYS[(len(self.talks) + self._n_talking) % len(WAYS)]
        talked = Talk(number % len(self._sounds), path, mode)
        self._n_talking += 1
        try:
            await talk_once(server.url, talked, sound)
        finally:
            self._n_talking -= 1
        self.talks.append(talked)

    async def _stall_chat(self, server: RunningServer) -> None:
        """Suspends each process of the chat model in turn for 8 s, while callers continue."""
        await asyncio.sleep(5)
        for child in psutil.Process(server.process_id).children(recursive=True):
            with suppress(psutil.Error):
                if "llama" in " ".join(child.cmdline()):
                    self.n_callers["the chat model was stopped"] += 1
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
        self.n_callers["the recogniser was killed"] += 1
        await asyncio.sleep(_AWAY_S)
        await asyncio.to_thread(recogniser.start)
        self.outages.append(Outage(began_s, clock()))

    async def _wait_until_empty(self, server: RunningServer) -> Held:
        """Waits until the server has no session, at most a minute, and returns the resources that it still holds."""
        async with httpx.AsyncClient(timeout=60) as client:
            for _ in range(60):
                metrics = await client.get(f"{server.url}/metrics")
                if metrics.status_code == httpx.codes.OK and not count_sessions(metrics.text):
                    break
                await asyncio.sleep(1)
            else:
                self.broken.append(
                    f"sessions are left a minute after the last caller has gone (/metrics: {metrics.status_code})"
                )
            ready = await client.get(f"{server.url}/readyz")
        if ready.status_code != httpx.codes.OK and ready.json()["error"]["code"] != "too_slow":  # that keeps nobody out
            self.broken.append(f"the server lets nobody in any more: {ready.text}")
        await asyncio.sleep(3)
        process = psutil.Process(server.process_id)
        return Held(process.num_fds(), process.num_threads(), measure_mib(process))


def run_real_soak(checkpoint: str, minutes: float, n_at_once: int) -> dict[str, Any]:
    """Runs the soak test on two servers, one after the other, and returns the report as JSON values.

    The first has the recogniser in its own process, the second in another one, which is killed and restarted.

    Raises:
        RunError: a server or the recogniser does not start, or does not end.
    """
    soak = RealSoak(n_at_once)
    options = [
        f"limits.max_sessions={n_at_once}",
        f"limits.idle_s={_IDLE_S}",
        "limits.max_starts_per_minute=1000",
        f"limits.max_sessions_per_address={n_at_once + 1}",
    ]
    with run_server(checkpoint, options) as server:
        asyncio.run(soak.run(server, None, minutes / 2))
    with recogniser_process() as recogniser, run_server(checkpoint, [*options, *recogniser.settings]) as server:
        asyncio.run(soak.run(server, recogniser, minutes / 2))
    return soak.conclude()


def count_sessions(metrics: str) -> int:
    """Returns the number of sessions of a server, from its `/metrics`."""
    families = text_string_to_metric_families(metrics)
    return round(sum(each.value for family in families if family.name == "kame_sessions" for each in family.samples))
