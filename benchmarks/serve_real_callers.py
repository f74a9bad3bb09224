"""Callers of a running server over the network: normal ones, over either socket, and misbehaving ones."""

import asyncio
import base64
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Literal, get_args

import numpy as np
import sphn
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from backends.engine import Samples
from benchmarks.serve_realtime import RealtimeCall, collect_texts
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S, SAMPLE_RATE_HZ
from kame_model.serve.client.client import Call, play_in_real_time, talk
from kame_model.serve.client.talk_record import TalkRecord
from kame_model.serve.web.moshi_protocol import Kind as MessageKind
from kame_model.serve.web.realtime_events import encode_pcm16
from tests.support.arrivals import n_gaps
from tests.support.soak_verdict import MODES, PATHS, Talk

Kind = Literal["talks", "vanishes", "garbage", "silent", "fast"]
KINDS: tuple[Kind, ...] = get_args(Kind)
CHAT, REALTIME = PATHS
SILENCE_S = 6.0
"""Silence after the sentence, in seconds, for the answer."""


async def talk_once(url: str, talked: Talk, sound: Samples) -> None:
    """Calls the server, says a sentence in real time, listens to the answer, and records the result in `talked`.

    Raises:
        BackendError, InvalidStatus: the server refused it; the caller may try again.
    """
    clock = asyncio.get_running_loop().time
    talked.began_s = clock()
    if talked.path == CHAT:
        call = Call(url=url, mode=talked.mode)
        _record_chat_call(talked, await talk(call, play_in_real_time(sound, SILENCE_S)))
        talked.n_sent = -(-(len(sound) + round(SILENCE_S * SAMPLE_RATE_HZ)) // FRAME_N_SAMPLES)
        talked.ended_s = clock()
        return
    async with RealtimeCall(url, f"mode={talked.mode}") as realtime:
        await realtime.say(play_in_real_time(sound, SILENCE_S))
        talked.ended_s = clock()
        await realtime.wait_until_answered()
    _record_realtime_call(talked, realtime)


def _record_chat_call(talked: Talk, came: TalkRecord) -> None:
    """Copies the figures of a finished call over `/api/chat` to its record `talked`."""
    talked.n_answered, talked.n_gaps = came.player.n_samples // FRAME_N_SAMPLES, came.player.n_gaps
    talked.n_dropped.update(came.count_dropped_frames())
    _record_events(talked, came.events)
    talked.ended = came.ended


def _record_realtime_call(talked: Talk, call: RealtimeCall) -> None:
    """Copies the figures of a finished call over `/v1/realtime` to its record `talked`."""
    talked.n_sent = call.n_sent
    talked.n_answered = min(call.n_answered, call.n_sent - call.side.n_missing_in_responses)
    talked.n_gaps = sum(n_gaps(run) for run in call.side.runs())
    talked.n_dropped.update(_count_dropped(call.side.events))
    _record_events(talked, call.side.events)
    talked.ended = call.ended


def _record_events(talked: Talk, events: list[dict[str, Any]]) -> None:
    """Stores the texts of a call's events, joined by kind, in its record `talked`, and adds their numbers by kind.

    Earlier texts of the record are replaced.
    """
    talked.texts = collect_texts(events)
    talked.n_events.update(event["kind"] for event in events)


def _count_dropped(events: list[dict[str, Any]]) -> Counter[str]:
    """Returns the number of dropped frames that events report, by direction."""
    counted: Counter[str] = Counter()
    for event in events:
        if event["kind"] == "dropped":
            counted[event["data"]["direction"]] += event["data"]["n_frames"]
    return counted


class BadCaller:
    """A misbehaving caller.

    Args:
        chance: random generator for its socket, its mode and what it sends.
        most_idle_s: time without data after which it must be disconnected, in seconds.
    """

    def __init__(self, url: str, chance: random.Random, most_idle_s: float) -> None:
        self._random, self._most_idle_s = chance, most_idle_s
        self._path = chance.choice(PATHS)
        self._address = f"{url.replace('http', 'ws', 1)}{self._path}?mode={chance.choice(MODES)}"
        self._opus = sphn.OpusStreamWriter(SAMPLE_RATE_HZ)

    async def run(self, kind: Kind, sound: Samples) -> str:
        """Makes a call that misbehaves in the way that `kind` names; returns a failed check, or an empty text.

        Raises:
            InvalidStatus: it was refused.
        """
        socket = await connect(self._address, proxy=None, open_timeout=60)
        hearing = asyncio.create_task(_discard_messages(socket))
        try:
            with suppress(ConnectionClosed):
                return await self._behave(socket, kind, sound)
        finally:
            if kind == "vanishes":
                socket.transport.abort()
            await socket.close()
            await asyncio.gather(hearing, return_exceptions=True)
        return ""

    async def _behave(self, socket: Any, kind: Kind, sound: Samples) -> str:
        """Misbehaves until the audio ends or the caller leaves; returns a failed check, or an empty text."""
        if kind == "silent":
            try:
                await asyncio.wait_for(socket.wait_closed(), self._most_idle_s)
            except TimeoutError:
                return f"a caller who sends nothing is not let go within {self._most_idle_s:g} s"
            return ""
        async for frame in _play_at_rate(sound, 10.0 if kind == "fast" else 1.0):
            await socket.send(self._make_message(frame))
            if kind in ("vanishes", "garbage") and self._random.random() < 0.1:
                break
        for _ in range(50 if kind == "garbage" else 0):
            garbage = self._random.randbytes(self._random.randint(1, 400))
            await socket.send(self._random.choice((garbage, garbage.decode(errors="replace"))))
            await asyncio.sleep(0.01)
        return ""

    def _make_message(self, frame: Samples) -> bytes | str:
        """Returns a frame of audio as a message of the protocol of this caller's socket."""
        if self._path == CHAT:
            packet: bytes = self._opus.append_pcm(frame)
            return bytes([MessageKind.AUDIO]) + packet
        return json.dumps(
            {"type": "input_audio_buffer.append", "audio": base64.b64encode(encode_pcm16(frame)).decode()}
        )


async def _play_at_rate(sound: Samples, times_as_fast: float) -> AsyncIterator[Samples]:
    """Yields the frames of audio at a multiple of real time; the last one is padded."""
    for start in range(0, len(sound), FRAME_N_SAMPLES):
        piece = sound[start : start + FRAME_N_SAMPLES]
        yield np.pad(piece, (0, FRAME_N_SAMPLES - len(piece)))
        await asyncio.sleep(FRAME_S / times_as_fast)


async def _discard_messages(socket: Any) -> None:
    """Reads and discards all messages until the connection is closed."""
    with suppress(ConnectionClosed):
        async for _ in socket:
            pass
