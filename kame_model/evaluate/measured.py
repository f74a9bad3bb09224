"""A server's parts on a simulated clock: what they do is done at once, and charged the time that it really took.

While a request, a recognition or a synthesis is made the simulated clock stands still; what it took is measured, kept,
and then waited for on that clock. The same request, sound or sentence is charged the same from then on, so that an
evaluation that is repeated or resumed gives the same figures.
"""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from backends.chat.live import LiveUsage
from backends.chat.protocol import LiveChat
from backends.engine import Samples
from backends.listener.background import BackgroundLoop
from backends.listener.protocol import Heard, ListenerStream, StreamingRecogniser, Window
from backends.listener.rehearing import Ear, Rehearing
from data_schemas import ids
from data_schemas.config.serving import BackEndConfig, BackendName, Mode
from data_schemas.errors import AnswerCut, BackendError, UnexpectedThought
from data_schemas.store import Store
from data_schemas.units import FRAME_S
from kame_model.evaluate.report import append_line, read_lines
from kame_model.serve.oracle.routing import BackEnd
from kame_model.serve.voice.speaker import SentenceSpeaker, Speaker, SpokenSentence

TIMES: Final = "times.jsonl"

_MOST_FINAL_S: Final = 30.0
"""So long a recogniser that tells by itself is waited for after a turn's end, seconds of the real clock."""

_T = TypeVar("_T")


def round_ms(time_s: float) -> float:
    """Seconds in whole milliseconds, as all times of a call are.

    The simulated clock has ticks of a microsecond; into which of two a time falls depends on when the call began.
    """
    return round(time_s, 3)


class MeasuredTimes:
    """What requests, recognitions and syntheses took, by their content; kept in `times.jsonl` as they are made.

    Args:
        folder: where the file is; it is made.

    Raises:
        StoreError: the file is damaged or cannot be read.
    """

    def __init__(self, folder: str) -> None:
        self._path = Path(Store(folder).at(TIMES))
        lines = read_lines(self._path, "Remove it; times are measured anew.")
        self._records = {line["key"]: line for line in lines}

    def find(self, key: str) -> dict[str, Any] | None:
        """What was kept of this; None: nothing."""
        return self._records.get(key)

    def keep(self, key: str, record: Mapping[str, Any]) -> dict[str, Any]:
        """Keeps what came of this; returns it as it will be found.

        Raises:
            StoreError: it cannot be written.
        """
        self._records[key] = append_line(self._path, {"key": key, **record}, is_synced=False)
        return self._records[key]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """What was kept of all requests (`back_end`, `pieces`, `usage`), recognitions, syntheses, hearings, or steps.

        Each has `took_s`; its `kind` is `request`, `recognition`, `synthesis`, `hearing` or `step`.
        """
        return [record for record in self._records.values() if record["kind"] == kind]

    def synthesis(self, key: str, work: Callable[[], _T]) -> tuple[_T, float]:
        """Does some work whose result is not kept; what it took the first time, seconds."""
        began_s = time.perf_counter()
        result = work()
        took_s = time.perf_counter() - began_s
        record = self.find(key) or self.keep(key, {"kind": "synthesis", "took_s": round_ms(took_s)})
        return result, float(record["took_s"])


def count_steps(charged_s: float, steps_s: Iterable[float]) -> dict[str, Any]:
    """What is kept of a call's steps of the device: what each was charged, and how many took so many milliseconds."""
    return {"kind": "steps", "charged_s": charged_s, "n_by_ms": Counter(round(1000 * each) for each in steps_s)}


def add_up_steps(calls: Iterable[tuple[Mode, Mapping[str, Any] | None]]) -> list[dict[str, Any]]:
    """What the front-end's steps took, by mode, in milliseconds.

    Args:
        calls: the mode of each, and what `count_steps` made of it; None: it had no steps.
    """
    found: dict[Mode, list[Mapping[str, Any]]] = {}
    for mode, counted in calls:
        if counted is not None:
            found.setdefault(mode, []).append(counted)
    told = []
    for mode, own in found.items():
        ms = np.concatenate([np.repeat([*map(int, each["n_by_ms"])], [*each["n_by_ms"].values()]) for each in own])
        told.append(
            {
                "mode": mode,
                "n": len(ms),
                "charged_ms": round(1000 * float(np.median([each["charged_s"] for each in own]))),
                "step_ms_p50": float(np.percentile(ms, 50)),
                "step_ms_p99": float(np.percentile(ms, 99)),
                "over_frame": round(float(np.mean(ms > 1000 * FRAME_S)), 4),
            }
        )
    return told


class MeasuredChat:
    """A chat model whose answers come on a simulated clock when they came on the real one.

    An answer is asked for whole, by itself, whatever becomes of the request; one that has been asked for is not asked
    for again, but where it is sampled (`draw`).

    Args:
        chat: asked in `background`, the loop in which its connections live.
        name: the back-end's.
        identity: stands for the endpoint, its model and how it is reached.
        times: where answers are kept.

    Attributes:
        delay_s: the whole answer comes so long after the request, in place of the time it took; None: as measured.
        draw: told apart where answers are sampled (`temperature` over 0), such as the number of the run.
        gone: why the endpoint itself refuses us or is not there; None: all is well.
    """

    def __init__(
        self, chat: LiveChat, name: BackendName, identity: str, times: MeasuredTimes, background: BackgroundLoop
    ) -> None:
        self.delay_s: float | None = None
        self.draw = 0
        self.gone: BackendError | None = None
        self._chat, self._name, self._identity = chat, name, identity
        self._times, self._background = times, background

    async def stream(self, payload: dict[str, Any]) -> AsyncGenerator[str, None]:
        """As `LiveChat.stream`, on the simulated clock."""
        draw = self.draw if payload.get("temperature") else 0
        key = ids.digest("request", self._identity, payload, draw, n_hex=32)
        record = self._times.find(key) or self._times.keep(key, self._ask(payload))
        clock = asyncio.get_running_loop().time
        began_s = clock()
        for at_s, piece in record["pieces"]:
            if self.delay_s is None or piece:
                await _wait_until(began_s + (at_s if self.delay_s is None else self.delay_s))
                yield piece
        await _wait_until(began_s + (record["took_s"] if self.delay_s is None else self.delay_s))
        if record["end"] == "cut":
            raise AnswerCut("The answer was cut at as many tokens as were asked for.")
        if record["end"] == "thought":
            raise UnexpectedThought("The chat model wrote what it thought.")

    async def aclose(self) -> None:
        """Its connections are closed by who opened them."""

    def _ask(self, payload: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"back_end": self._name, **self._background.run(_answered(self._chat, payload))}
        except BackendError as error:
            self.gone = error
            raise


async def _answered(chat: LiveChat, payload: dict[str, Any]) -> dict[str, Any]:
    """A whole answer with the times of its pieces, for the loop in which the chat model's connections live."""
    pieces: list[tuple[float, str]] = []
    end, began_s, before = "whole", time.perf_counter(), _usage_of(chat)
    try:
        async for piece in chat.stream(payload):
            pieces.append((round_ms(time.perf_counter() - began_s), piece))  # noqa: PERF401 - those before an error stay
    except AnswerCut:
        end = "cut"
    except UnexpectedThought:
        end = "thought"
    took_s = round_ms(time.perf_counter() - began_s)
    usage = {name: n - before[name] for name, n in _usage_of(chat).items()}
    return {"kind": "request", "end": end, "took_s": took_s, "pieces": pieces, "usage": usage}


def _usage_of(chat: LiveChat) -> dict[str, int]:
    """What a chat model's client has caused so far; zero of each where it does not count."""
    usage = getattr(chat, "usage", None)
    return asdict(usage if isinstance(usage, LiveUsage) else LiveUsage())


def measure_back_end(
    back_end: BackEnd, config: BackEndConfig | None, times: MeasuredTimes, background: BackgroundLoop
) -> tuple[BackEnd, list[MeasuredChat]]:
    """A back-end whose chat models are measured, and those.

    Args:
        config: how it was configured, for what stands for its models; None: its name does.
    """

    def measured(chat: LiveChat, model: str) -> MeasuredChat:
        told = None if config is None else config.chat.model_dump(mode="json")
        return MeasuredChat(chat, back_end.name, ids.digest(back_end.name, told, model), times, background)

    chat = measured(back_end.chat, "")
    models = {name: measured(each, name) for name, each in back_end.models.items()}
    return replace(back_end, chat=chat, models=models), [chat, *models.values()]


class MeasuredSpeaker:
    """The voice of text-to-speech on a simulated clock."""

    def __init__(self, speaker: SentenceSpeaker, times: MeasuredTimes, background: BackgroundLoop) -> None:
        self.voice_name = speaker.voice_name
        self._speaker, self._times, self._background = speaker, times, background

    async def say(self, written: str) -> SpokenSentence:
        """As `Speaker.say`."""
        key = ids.digest("synthesis", self.voice_name, written, n_hex=32)
        spoken, took_s = self._times.synthesis(key, lambda: self._say(written))
        await asyncio.sleep(took_s)
        return spoken

    def _say(self, written: str) -> SpokenSentence:
        if isinstance(self._speaker, Speaker):
            return self._speaker.say_now(written)
        return self._background.run(_said(self._speaker, written))


async def _said(speaker: SentenceSpeaker, written: str) -> SpokenSentence:
    return await speaker.say(written)


def measure_recogniser(recogniser: StreamingRecogniser, times: MeasuredTimes) -> StreamingRecogniser:
    """A recogniser that is heard on a simulated clock.

    One that hears the turn so far again and again does all its timing on that clock, and each piece is charged what it
    took. One that tells within the call that feeds it (`is_immediate`) is taken as it is. Any other hears in real time
    while the simulated clock waits: its words come with the frame in which they came, its last ones when they came.
    """
    if isinstance(recogniser, Rehearing):
        return _MeasuredRehearing(recogniser, times)
    if getattr(recogniser, "is_immediate", False):
        return recogniser
    return _PacedRecogniser(recogniser, times)


class _MeasuredRehearing:
    """The ears of a `Rehearing` on the simulated loop."""

    def __init__(self, recogniser: Rehearing, times: MeasuredTimes) -> None:
        self.name, self.timing = recogniser.name, recogniser.timing
        self.place, self.faults = recogniser.place, recogniser.faults
        self._recogniser, self._times = recogniser, times

    def listen(self, on_heard: Callable[[Heard], None]) -> ListenerStream:
        """A new caller's ear."""
        return Ear(self, on_heard, asyncio.get_running_loop().call_soon)

    def close(self) -> None:
        """The recogniser is closed by who opened it."""

    async def recognise(self, samples: Samples, is_urgent: bool) -> str:
        """As `Rehearing.recognise`."""
        options = self.timing.model_dump(mode="json")
        key = ids.digest("recognition", self.name, self.place, options, _digest(samples), n_hex=32)
        record = self._times.find(key)
        if record is None:
            began_s = time.perf_counter()
            text = self._recogniser.recognise_now(samples)
            took_s = round_ms(time.perf_counter() - began_s)
            record = self._times.keep(key, {"kind": "recognition", "took_s": took_s, "text": text})
        await asyncio.sleep(record["took_s"])
        return str(record["text"])


class _PacedRecogniser:
    """A recogniser that is fed in real time."""

    def __init__(self, recogniser: StreamingRecogniser, times: MeasuredTimes) -> None:
        self.name = recogniser.name
        self._recogniser, self._times = recogniser, times

    def listen(self, on_heard: Callable[[Heard], None]) -> ListenerStream:
        """A new caller's ear."""
        return _PacedEar(self._recogniser, self._times, on_heard)

    def close(self) -> None:
        """The recogniser is closed by who opened it."""


class _PacedEar:
    """One caller's ear. What has been heard before, of the same sound from the same beginning, comes as it came."""

    def __init__(
        self, recogniser: StreamingRecogniser, times: MeasuredTimes, on_heard: Callable[[Heard], None]
    ) -> None:
        self.failure: str | None = None
        self._recogniser, self._times, self._on_heard = recogniser, times, on_heard
        self._so_far = hashlib.sha256(f"paced {recogniser.name}".encode())
        self._missed: list[Samples | None] = []  # what the recogniser has not been given; None: a turn's end
        self._stream: ListenerStream | None = None
        self._told: list[Heard] = []
        self._fed_s = 0.0
        self._is_closed = False

    def feed(self, samples: Samples, windows: Sequence[Window] | None = None) -> None:
        """The next sound; what is heard with it is told a frame later."""
        self._so_far.update(samples.tobytes())
        self._hear(samples, self._pace)

    def end_turn(self) -> None:
        """The turn's last words are told when they came."""
        self._so_far.update(b"end")
        self._hear(None, self._pace_to_end)

    def close(self) -> None:
        """Nothing is told any more."""
        self._is_closed = True
        if self._stream is not None:
            self._stream.close()

    def _hear(self, samples: Samples | None, wait: Callable[[], float]) -> None:
        key = f"paced-{self._so_far.hexdigest()[:32]}"
        record = self._times.find(key)
        if record is None:
            self._catch_up()
            self._give(samples)
            took_s = wait()
            told, self._told = self._told, []
            heard = [[each.text, each.is_final] for each in told]
            record = self._times.keep(key, {"kind": "hearing", "took_s": round_ms(took_s), "heard": heard})
        else:
            self._missed.append(samples)
        for text, is_final in record["heard"]:
            asyncio.get_running_loop().call_later(record["took_s"], self._tell, Heard(text, is_final))

    def _tell(self, heard: Heard) -> None:
        if not self._is_closed:
            self._on_heard(heard)

    def _catch_up(self) -> None:
        """Gives the recogniser what it was spared so far; what it makes of that has been told."""
        if self._stream is None:
            self._stream = self._recogniser.listen(lambda heard: self._told.append(heard))
        missed, self._missed = self._missed, []
        for each in missed:
            self._give(each)
            self._pace() if each is not None else self._pace_to_end()
        self._told.clear()

    def _give(self, samples: Samples | None) -> None:
        assert self._stream is not None  # it was opened to catch up
        self._fed_s = time.perf_counter()
        if samples is None:
            self._stream.end_turn()
        else:
            self._stream.feed(samples)
        self.failure = self._stream.failure

    def _pace(self) -> float:
        time.sleep(max(0.0, self._fed_s + FRAME_S - time.perf_counter()))
        return FRAME_S

    def _pace_to_end(self) -> float:
        while not any(each.is_final for each in list(self._told)):
            if time.perf_counter() - self._fed_s > _MOST_FINAL_S:
                self._told.append(Heard("", is_final=True))
                break
            time.sleep(0.005)
        return time.perf_counter() - self._fed_s


def _digest(samples: Samples) -> str:
    return hashlib.sha256(samples.tobytes()).hexdigest()


async def _wait_until(at_s: float) -> None:
    await asyncio.sleep(max(0.0, at_s - asyncio.get_running_loop().time()))
