"""Wraps a server's parts for a simulated clock: their work is done at once, and charged its measured time.

During a request, a recognition or a synthesis the simulated clock is stopped; the work's real time is measured, stored,
and then waited for on the simulated clock. An equal request, sound or sentence is charged the same time again, so that
a repeated or resumed evaluation gives the same figures.
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

from backends import registry
from backends.chat.live import LiveUsage
from backends.chat.protocol import ChatEngine, Endpoint, LiveChat
from backends.chat.providers import make_model_digest
from backends.engine import Samples
from backends.listener.background import BackgroundLoop
from backends.listener.protocol import Heard, ListenerStream, StreamingRecogniser, Window
from backends.listener.rehearing import Rehearing, RehearingStream
from data_schemas import ids
from data_schemas.config.chat import ChatConfig
from data_schemas.config.serving import BackEndConfig, BackendName, Mode
from data_schemas.errors import AnswerCut, BackendError, UnexpectedThought
from data_schemas.store import Store
from data_schemas.units import FRAME_S
from kame_model.evaluate.report.folder import append_line, read_lines
from kame_model.serve.oracle.routing import BackEnd
from kame_model.serve.voice.speaker import SentenceAudio, SharedSpeaker, Speaker

TIMES: Final = "times.jsonl"

_MOST_FINAL_S: Final = 30.0
"""Timeout after a turn's end for a recogniser that reports by itself, real seconds."""

_T = TypeVar("_T")


def round_ms(time_s: float) -> float:
    """Rounds seconds to whole milliseconds, the resolution of all times of a call.

    The simulated clock has ticks of a microsecond, and rounding to them would depend on when the call started.
    """
    return round(time_s, 3)


class MeasuredTimes:
    """Measured times of requests, recognitions and syntheses, by their content; stored in `times.jsonl`.

    Args:
        folder: folder of the file; it is created if necessary.

    Raises:
        StoreError: the file is damaged.
    """

    def __init__(self, folder: str) -> None:
        self._path = Path(Store(folder).resolve_path(TIMES))
        lines = read_lines(self._path, "Remove it; times are then measured again.")
        self._records = {line["key"]: line for line in lines}

    def find(self, key: str) -> dict[str, Any] | None:
        """Returns the record of a key; None if there is none."""
        return self._records.get(key)

    def keep(self, key: str, record: Mapping[str, Any]) -> dict[str, Any]:
        """Stores the record of a key, in place of an earlier one; returns it as `find` will return it.

        Raises:
            StoreError: the file cannot be written.
        """
        self._records[key] = append_line(self._path, {"key": key, **record}, is_synced=False)
        return self._records[key]

    def list_records(self, kind: str) -> list[dict[str, Any]]:
        """Returns the records of requests (`back_end`, `pieces`, `usage`), recognitions, syntheses, hearings or steps.

        Each has `took_s`; its `kind` is `request`, `recognition`, `synthesis`, `hearing` or `step`.
        """
        return [record for record in self._records.values() if record["kind"] == kind]

    def time_synthesis(self, key: str, work: Callable[[], _T]) -> tuple[_T, float]:
        """Calls `work`, and returns its result and the seconds that the first call with this key took.

        Only the time is stored, not the result, so `work` is called every time.
        """
        began_s = time.perf_counter()
        result = work()
        took_s = time.perf_counter() - began_s
        record = self.find(key) or self.keep(key, {"kind": "synthesis", "took_s": round_ms(took_s)})
        return result, float(record["took_s"])


def summarise_steps(charged_s: float, steps_s: Iterable[float]) -> dict[str, Any]:
    """Returns the record of a call's steps of the device: the time charged for each, and their number by real time.

    The latter, `n_by_ms`, has whole milliseconds as keys.
    """
    return {"kind": "steps", "charged_s": charged_s, "n_by_ms": Counter(round(1000 * each) for each in steps_s)}


def add_up_steps(calls: Iterable[tuple[Mode, Mapping[str, Any] | None]]) -> list[dict[str, Any]]:
    """Summarises the times of the front-end's steps over calls: a row for each mode, with times in milliseconds.

    Args:
        calls: mode and result of `summarise_steps` for each call; None: it had no steps.
    """
    found: dict[Mode, list[Mapping[str, Any]]] = {}
    for mode, counted in calls:
        if counted is not None:
            found.setdefault(mode, []).append(counted)
    rows = []
    for mode, own in found.items():
        ms = np.concatenate([np.repeat([*map(int, each["n_by_ms"])], [*each["n_by_ms"].values()]) for each in own])
        rows.append(
            {
                "mode": mode,
                "n": len(ms),
                "charged_ms": round(1000 * float(np.median([each["charged_s"] for each in own]))),
                "step_ms_p50": float(np.percentile(ms, 50)),
                "step_ms_p99": float(np.percentile(ms, 99)),
                "over_frame": round(float(np.mean(ms > 1000 * FRAME_S)), 4),
            }
        )
    return rows


class MeasuredChat:
    """A chat model whose answers arrive on a simulated clock at the times measured on the real clock.

    Each answer is requested completely and alone, even if the request is cancelled later. An equal request is not made
    again, unless answers are sampled (`draw`).

    Args:
        chat: the chat model; requests run in `background`, the event loop of its connections.
        name: name of the back-end.
        identity: identifies the endpoint, its model and its settings.
        times: store of the answers.

    Attributes:
        delay_s: forced delay of the complete answer after the request, seconds; None: as measured.
        draw: distinguishes sampled answers (`temperature` over 0), for example by the number of the run.
        gone: the error if the endpoint is unavailable or rejects requests; None: no error.
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
        """Like `LiveChat.stream`, on the simulated clock: repeats the recorded answer to this payload.

        Without a record the answer is requested first. Pieces come at their recorded times, or all after `delay_s`.

        Raises:
            AnswerCut, UnexpectedThought: after the pieces, if the recorded answer ended so.
            RequestError, BackendError: the request failed; this is not recorded.
        """
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
        """Does nothing: whoever opened the connections closes them."""

    def _ask(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Requests an answer on the real clock and returns its record.

        Raises:
            BackendError: the endpoint is unavailable or rejects the request; the error is also stored in `gone`.
            RequestError: the request failed.
        """
        try:
            return {"back_end": self._name, **self._background.run(_request_answer(self._chat, payload))}
        except BackendError as error:
            self.gone = error
            raise


async def _request_answer(chat: LiveChat, payload: dict[str, Any]) -> dict[str, Any]:
    """Requests an answer; returns its record: the pieces with their times, how it ended, and the tokens it used.

    Must run in the loop of the chat's connections. Times are seconds since the request. A cut answer, or one with
    unexpected thought, ends as "cut" or "thought" and keeps the pieces before that; other errors are raised.
    """
    pieces: list[tuple[float, str]] = []
    end, began_s, before = "whole", time.perf_counter(), _get_usage(chat)
    try:
        async for piece in chat.stream(payload):
            pieces.append((round_ms(time.perf_counter() - began_s), piece))  # noqa: PERF401 - those before an error stay
    except AnswerCut:
        end = "cut"
    except UnexpectedThought:
        end = "thought"
    took_s = round_ms(time.perf_counter() - began_s)
    usage = {name: n - before[name] for name, n in _get_usage(chat).items()}
    return {"kind": "request", "end": end, "took_s": took_s, "pieces": pieces, "usage": usage}


def _get_usage(chat: LiveChat) -> dict[str, int]:
    """Returns the token usage of a chat model's client so far, by name; all zero if the client does not count it."""
    usage = getattr(chat, "usage", None)
    return asdict(usage if isinstance(usage, LiveUsage) else LiveUsage())


def get_endpoint(chat: ChatConfig) -> Endpoint:
    """Returns the name, model and digest behind a chat model's configuration, without starting a server.

    Raises:
        ConfigError: the engine or its model does not exist.
        BackendError: no model is named, and the remote server does not answer.
    """
    engine: ChatEngine = registry.load("chat", chat.engine)(chat)
    return engine.describe()


def find_model_digest(chat: ChatConfig) -> str:
    """Returns the digest of a chat model's files; empty if it is not known, as for a model behind a URL.

    Raises:
        ConfigError: see `get_endpoint`.
    """
    endpoint = get_endpoint(chat)
    is_of_settings_only = endpoint.model_digest == make_model_digest(chat, endpoint.model, "")
    return "" if is_of_settings_only else endpoint.model_digest


def wrap_back_end(
    back_end: BackEnd, config: BackEndConfig | None, times: MeasuredTimes, background: BackgroundLoop
) -> tuple[BackEnd, list[MeasuredChat]]:
    """Returns a back-end whose chat models are `MeasuredChat`s, and these: the default one, then those by name.

    Args:
        config: configuration of the back-end, which identifies its models together with the digest of their files,
            where that is known; None: its name identifies them.

    Raises:
        ConfigError: see `get_endpoint`.
    """
    settings = None if config is None else config.chat.model_dump(mode="json")
    digest = "" if config is None else find_model_digest(config.chat)

    def wrap(chat: LiveChat, model: str) -> MeasuredChat:
        return MeasuredChat(chat, back_end.name, ids.digest(back_end.name, settings, model, digest), times, background)

    chat = wrap(back_end.chat, "")
    models = {name: wrap(each, name) for name, each in back_end.models.items()}
    return replace(back_end, chat=chat, models=models), [chat, *models.values()]


class MeasuredSpeaker:
    """Text-to-speech on a simulated clock, on which each sentence takes the time of its first synthesis."""

    def __init__(self, speaker: SharedSpeaker, times: MeasuredTimes, background: BackgroundLoop) -> None:
        self.voice_name = speaker.voice_name
        self._speaker, self._times, self._background = speaker, times, background

    async def say(self, written: str) -> SentenceAudio:
        """Synthesises speech at its measured speed, by the simulated clock."""
        key = ids.digest("synthesis", self.voice_name, written, n_hex=32)
        spoken, took_s = self._times.time_synthesis(key, lambda: self._say(written))
        await asyncio.sleep(took_s)
        return spoken

    def _say(self, written: str) -> SentenceAudio:
        """Synthesises a sentence at once, in real time."""
        if isinstance(self._speaker, Speaker):
            return self._speaker.say_now(written)
        return self._background.run(_synthesise(self._speaker, written))


async def _synthesise(speaker: SharedSpeaker, written: str) -> SentenceAudio:
    """Awaits `speaker.say` in a coroutine, which `BackgroundLoop.run` needs."""
    return await speaker.say(written)


def wrap_recogniser(recogniser: StreamingRecogniser, times: MeasuredTimes) -> StreamingRecogniser:
    """Wraps a streaming recogniser for a simulated clock.

    A recogniser that transcribes the turn so far repeatedly (`Rehearing`) runs on that clock, and each pass is charged
    its measured time. One that reports within the call that feeds it (`is_immediate`) is returned unchanged. Any other
    is fed in real time while the simulated clock is stopped: its words arrive with the frame during which they came,
    and its last words at their measured time.
    """
    if isinstance(recogniser, Rehearing):
        return _MeasuredRehearing(recogniser, times)
    if getattr(recogniser, "is_immediate", False):
        return recogniser
    return _PacedRecogniser(recogniser, times)


class _MeasuredRehearing:
    """A `Rehearing` on the simulated clock."""

    def __init__(self, recogniser: Rehearing, times: MeasuredTimes) -> None:
        self.name, self.timing = recogniser.name, recogniser.timing
        self.place, self.faults = recogniser.place, recogniser.faults
        self._recogniser, self._times = recogniser, times

    def listen(self, on_heard: Callable[[Heard], None]) -> ListenerStream:
        """Returns the recognition of a new caller's audio."""
        return RehearingStream(self, on_heard, asyncio.get_running_loop().call_soon)

    def close(self) -> None:
        """Does nothing: whoever opened the recogniser closes it."""

    async def recognise(self, samples: Samples, is_urgent: bool) -> str:
        """As `Rehearing.recognise`, but audio that was recognised before gets its stored transcript."""
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
        """Returns the recognition of a new caller's audio."""
        return _PacedEar(self._recogniser, self._times, on_heard)

    def close(self) -> None:
        """Does nothing: whoever opened the recogniser closes it."""


class _PacedEar:
    """The recognition of one caller's audio. Audio that was recognised before is replayed with its times."""

    def __init__(
        self, recogniser: StreamingRecogniser, times: MeasuredTimes, on_heard: Callable[[Heard], None]
    ) -> None:
        self.failure: str | None = None
        self._recogniser, self._times, self._on_heard = recogniser, times, on_heard
        self._so_far = hashlib.sha256(f"paced {recogniser.name}".encode())
        self._missed: list[Samples | None] = []  # what the recogniser has not been given; None: a turn's end
        self._stream: ListenerStream | None = None
        self._reported: list[Heard] = []
        self._fed_s = 0.0
        self._is_closed = False

    def feed(self, samples: Samples, windows: Sequence[Window] | None = None) -> None:
        """Feeds the next audio; words recognised with it are reported one frame later. `windows` is ignored."""
        self._so_far.update(samples.tobytes())
        self._hear(samples, self._wait_for_frame_end)

    def end_turn(self) -> None:
        """Ends the turn; its last words are reported at their measured time."""
        self._so_far.update(b"end")
        self._hear(None, self._wait_for_last_words)

    def close(self) -> None:
        """Stops all reports."""
        self._is_closed = True
        if self._stream is not None:
            self._stream.close()

    def _hear(self, samples: Samples | None, wait: Callable[[], float]) -> None:
        """Reports what is recognised with the next audio, after the time that this took.

        If that was not measured before, the audio is fed to the recogniser in real time, after all that it has missed.

        Args:
            samples: the audio; None: the turn's end.
            wait: waits for the recogniser in real time, and returns the time to charge, seconds.
        """
        key = f"paced-{self._so_far.hexdigest()[:32]}"
        record = self._times.find(key)
        if record is None:
            self._catch_up()
            self._feed_recogniser(samples)
            took_s = wait()
            reported, self._reported = self._reported, []
            heard = [[each.text, each.is_final] for each in reported]
            record = self._times.keep(key, {"kind": "hearing", "took_s": round_ms(took_s), "heard": heard})
        else:
            self._missed.append(samples)
        for text, is_final in record["heard"]:
            asyncio.get_running_loop().call_later(record["took_s"], self._report, Heard(text, is_final))

    def _report(self, heard: Heard) -> None:
        """Reports recognised words, unless the recognition was closed."""
        if not self._is_closed:
            self._on_heard(heard)

    def _catch_up(self) -> None:
        """Feeds the recogniser the audio that was replayed so far; words that it reports for it are ignored."""
        if self._stream is None:
            self._stream = self._recogniser.listen(lambda heard: self._reported.append(heard))
        missed, self._missed = self._missed, []
        for each in missed:
            self._reported.clear()  # so that each turn's end waits for its own last words
            self._feed_recogniser(each)
            self._wait_for_frame_end() if each is not None else self._wait_for_last_words()
        self._reported.clear()

    def _feed_recogniser(self, samples: Samples | None) -> None:
        """Feeds the recogniser audio, or ends the turn if `samples` is None.

        `_fed_s` becomes the real time at which this began, and `failure` the recogniser's.
        """
        assert self._stream is not None  # it was opened to catch up
        self._fed_s = time.perf_counter()
        if samples is None:
            self._stream.end_turn()
        else:
            self._stream.feed(samples)
        self.failure = self._stream.failure

    def _wait_for_frame_end(self) -> float:
        """Waits in real time until a frame has passed since the last feeding; returns a frame's length, seconds."""
        time.sleep(max(0.0, self._fed_s + FRAME_S - time.perf_counter()))
        return FRAME_S

    def _wait_for_last_words(self) -> float:
        """Waits in real time for the turn's last words; returns the seconds since the turn's end.

        After `_MOST_FINAL_S` without any, empty last words are recorded.
        """
        while not any(each.is_final for each in list(self._reported)):
            if time.perf_counter() - self._fed_s > _MOST_FINAL_S:
                self._reported.append(Heard("", is_final=True))
                break
            time.sleep(0.005)
        return time.perf_counter() - self._fed_s


def _digest(samples: Samples) -> str:
    """Returns the SHA-256 of the samples' bytes, in hexadecimal."""
    return hashlib.sha256(samples.tobytes()).hexdigest()


async def _wait_until(at_s: float) -> None:
    """Waits until a time of the event loop's clock; returns at once if that is past."""
    await asyncio.sleep(max(0.0, at_s - asyncio.get_running_loop().time()))
