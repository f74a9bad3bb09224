"""Calls a real session of the server on a simulated clock (discrete-event simulation).

Session, turn detector, recogniser, chat model, oracle queue, front-end, codec and cascade are those of `kame serve`.
Only the clock is simulated: the measured time of a request, a recognition or a synthesis is charged (`measured.py`),
and every step of the device is charged the step time that the server measured at its start. The real times of a call's
steps are recorded but not charged: a step delayed by another process on the machine would change everything that is
sampled after it, and a repeated call would differ. Calls are made one at a time, so that they do not affect each other.
"""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from backends.engine import Samples
from backends.listener.background import BackgroundLoop
from data_schemas import ids
from data_schemas.config.serving import Mode, ServeConfig
from data_schemas.errors import BackendError, ConfigError
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S, SAMPLE_RATE_HZ, round_s, samples_to_seconds
from kame_model.checkpoint.files import digest_files
from kame_model.checkpoint.kame_json import choose_voice
from kame_model.checkpoint.load import Checkpoint
from kame_model.evaluate.calls.delays import find_audible_spans
from kame_model.evaluate.calls.measured import (
    MeasuredChat,
    MeasuredSpeaker,
    MeasuredTimes,
    round_ms,
    wrap_back_end,
    wrap_recogniser,
)
from kame_model.serve.client.answer_watch import AnswerWatch
from kame_model.serve.client.talk_record import Oracle, TalkRecord
from kame_model.serve.parts import ServerParts, build_parts
from kame_model.serve.server import KameServer
from kame_model.serve.session.events import SessionEvent
from kame_model.serve.session.session import Session

PAUSE_S: Final = 1.0
"""Default pause between the end of an answer and the user's next utterance, seconds."""

_TICK_S: Final = 2.0**-20
"""Resolution of the clock: a power of two, so that a call's times do not depend on when it was made."""


@dataclass(slots=True, eq=False)
class Call:
    """The result of a call. All times are seconds from the session's start; a frame of the user is heard at its end.

    Attributes:
        user: float32 [n_samples] at 24 kHz, from time 0 on.
        assistant: the same, but of its own length; silence where the server sent nothing.
        pieces: the inner monologue, or the cascade's words, each with its time: `at_s`, text.
        events: the session's events, each with its time.
        turns: from the first to the last audible sound of each user utterance.
        ends: when `AnswerWatch` took the answer to each user utterance for ended, which is some time after its last
            sound; None: it did not end, there was none, or the user's audio was a single array.
        step_s: time charged for each step of the device.
        steps_s: real time of each step, seconds; mode cascade has none.
    """

    user: Samples
    assistant: Samples
    pieces: list[tuple[float, str]]
    events: list[SessionEvent]
    turns: list[tuple[float, float]]
    ends: list[float | None]
    step_s: float = 0.0
    steps_s: list[float] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All of the assistant's own text."""
        return "".join(piece for _, piece in self.pieces).strip()

    def get_text_between(self, start_s: float, end_s: float | None = None) -> str:
        """Returns the assistant's own text from `start_s` up to, but not including, `end_s` (None: all), stripped."""
        return "".join(
            piece for at_s, piece in self.pieces if at_s >= start_s and (end_s is None or at_s < end_s)
        ).strip()

    def get_oracles(self) -> list[Oracle]:
        """Returns the chat model's answers in the order of the requests, with times of this call."""
        return self._make_record().get_oracles()

    def find_oracle_at(self, at_s: float) -> Oracle | None:
        """Returns the oracle whose first words arrived last before or at the time `at_s`; None if none had arrived."""
        return self._make_record().find_oracle_by(at_s)

    def get_assistant_between(self, start_s: float, end_s: float | None = None) -> Samples:
        """Returns the assistant's audio from `start_s` up to, but not including, `end_s` (None: all)."""
        end = len(self.assistant) if end_s is None else round(end_s * SAMPLE_RATE_HZ)
        return self.assistant[round(start_s * SAMPLE_RATE_HZ) : end]

    def _make_record(self) -> TalkRecord:
        return TalkRecord(start_s=0.0, events=[asdict(event) for event in self.events])


class CalledServer:
    """A server in this process that is called on a simulated clock. Use it as a context manager.

    It must be used in one thread in which no event loop runs.

    Args:
        checkpoint: the front-end; None: only mode cascade.
        config: configuration of the server. The number of slots is always one.
        parts: recogniser, chat models, voice; None: those that `config` names are built, and closed at the end.
        times: measured times of their work.

    Raises:
        ConfigError: the configuration names something that does not exist, or has a classifier, which has no measured
            time.
        BackendError, StoreError: see `KameServer` and `build_parts`.
    """

    def __init__(
        self, checkpoint: Checkpoint | None, config: ServeConfig, parts: ServerParts | None, times: MeasuredTimes
    ) -> None:
        if config.classifier is not None:
            raise ConfigError(
                "A classifier of back-ends cannot be called on a simulated clock.", "Leave `classifier` out."
            )
        limits = config.limits.model_copy(update={"max_sessions": 1, "max_session_s": 1e9})
        voice = choose_voice(None if checkpoint is None else checkpoint.facts, config.voice)
        self._config = config.model_copy(update={"limits": limits, "voice": voice})
        self._checkpoint, self._given, self._times = checkpoint, parts, times
        self._chats: list[MeasuredChat] = []
        self._parts: ServerParts | None = None
        self._n_calls = 0
        self._found_step_s = self._step_s = 0.0  # charged; 0 before the start and in mode cascade
        self._steps_s: list[float] = []
        self._open = ExitStack()
        self._runner: asyncio.Runner
        self._server: KameServer

    @property
    def parts(self) -> ServerParts:
        """The server's parts; the token usage of their chat models is that of real requests."""
        assert self._parts is not None  # between entry and exit
        return self._parts

    def __enter__(self) -> Self:
        """Starts the server on a simulated clock, and finds the step time that calls are charged for."""
        import looptime

        with ExitStack() as stack:
            background = BackgroundLoop("evaluation")
            stack.callback(background.close, _do_nothing)
            parts = self._given or stack.enter_context(_build_parts(self._config, background))
            self._parts = self._wrap_parts(parts, background)
            self._runner = stack.enter_context(
                asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(start=0, resolution=_TICK_S))
            )
            self._server = KameServer(self._checkpoint, self._config, self._parts, run=self._run)
            self._runner.run(self._server.__aenter__())
            stack.callback(lambda: self._runner.run(self._server.__aexit__(None, None, None)))
            self._found_step_s = self._find_step_s()
            self._open = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops the server, and closes the parts that were built for it."""
        self._open.close()

    def call(
        self,
        user: Samples | Sequence[Samples],
        *,
        mode: Mode,
        seed: int,
        tail_s: float,
        pause_s: float = PAUSE_S,
        delay_s: float | None = None,
    ) -> Call:
        """Runs one session from start to end.

        Args:
            user: float32 at 24 kHz. A single array is played from time 0 on, whatever the server says, and the call
                ends `tail_s` after it. A sequence of arrays is a conversation: each one starts `pause_s` after the end
                of the answer to the one before (`AnswerWatch`), or `tail_s` after that one if its answer has not ended;
                the call ends with the last answer in the same way.
            mode: mode of the session.
            seed: seed of the front-end's sampling, and of a chat model that samples its answers.
            tail_s: see `user`.
            pause_s: see `user`.
            delay_s: forced delay: every answer of a chat model arrives complete, this long after the request; None: as
                measured.

        Raises:
            BackendError: the session ended by itself, or a chat model is unavailable or rejects the request.
        """
        import torch

        for chat in self._chats:
            chat.delay_s, chat.draw, chat.gone = delay_s, seed, None
        self._n_calls += 1
        self._step_s, self._steps_s = (0.0 if mode == "cascade" else self._found_step_s), []
        caller = _Caller(user, tail_s, pause_s, self._chats)
        call = self._runner.run(self._call(caller, mode, lambda: torch.manual_seed(seed)))
        call.step_s, call.steps_s = self._step_s, [] if mode == "cascade" else self._steps_s
        return call

    async def _call(self, caller: "_Caller", mode: Mode, seed: Callable[[], object]) -> Call:
        """Opens a session, seeds the sampling, lets the caller talk, and closes the session."""
        session = await self._server.open_session(f"call {self._n_calls}", mode=mode)
        seed()
        try:
            return await caller.talk(session)
        finally:
            await session.close("the call is over")

    def _find_step_s(self) -> float:
        """Returns the step time measured when these weights were first called in this folder; 0: not measured.

        At that first time it is stored in the folder.
        """
        found_s = round_ms(self._server.meter.predict_step_s(1, self._runner.get_loop().time()))
        if self._checkpoint is None or not found_s:
            return 0.0
        about = [digest_files([self._checkpoint.contents.weights]), self._config.device, self._config.voice]
        key = ids.digest("step", about, n_hex=32)
        record = self._times.find(key) or self._times.keep(key, {"kind": "step", "took_s": found_s})
        return float(record["took_s"])

    async def _run(self, work: Callable[[], Any]) -> Any:
        """Runs the engine's work in the event loop's thread; returns its result after the time charged for a step."""
        began_s = time.perf_counter()
        done = work()
        self._steps_s.append(time.perf_counter() - began_s)
        await asyncio.sleep(self._step_s)
        return done

    def _wrap_parts(self, parts: ServerParts, background: BackgroundLoop) -> ServerParts:
        """Returns the parts with chat models, text-to-speech and recogniser wrapped for the simulated clock.

        Recordings are switched off. The wrapped chat models are added to `_chats`.
        """
        configs = {each.name: each for each in self._config.back_ends}
        back_ends = {}
        for name, back_end in parts.back_ends.items():
            back_ends[name], chats = wrap_back_end(back_end, configs.get(name), self._times, background)
            self._chats += chats
        speaker = None if parts.speaker is None else MeasuredSpeaker(parts.speaker, self._times, background)
        recogniser = wrap_recogniser(parts.recogniser, self._times)
        return dataclasses.replace(parts, recogniser=recogniser, back_ends=back_ends, speaker=speaker, recordings=None)


@dataclass(slots=True)
class _Caller:
    """The caller: sends a frame every 80 ms, and records everything that the server sends, with its time."""

    user: Samples | Sequence[Samples]
    tail_s: float
    pause_s: float
    chats: Sequence[MeasuredChat]
    _watch: AnswerWatch = field(default_factory=AnswerWatch)
    _said: list[tuple[float, Samples]] = field(default_factory=list)
    _pieces: list[tuple[float, str]] = field(default_factory=list)
    _events: list[SessionEvent] = field(default_factory=list)
    _sent: list[Samples] = field(default_factory=list)
    _turns: list[tuple[float, float]] = field(default_factory=list)
    _began_s: float = 0.0

    async def talk(self, session: Session) -> Call:
        """Plays the user's audio to a session, and returns what was sent and received once the call is over."""
        self._began_s = asyncio.get_running_loop().time()
        reading = [
            asyncio.create_task(self._read_frames(session)),
            asyncio.create_task(self._read_events(session)),
        ]
        try:
            ends = await self._converse(session)
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)
        user = np.concatenate(self._sent) if self._sent else np.zeros(0, np.float32)
        return Call(user, _place_pieces(self._said), self._pieces, self._events, self._turns, ends)

    async def _converse(self, session: Session) -> list[float | None]:
        """Plays all utterances as in `CalledServer.call`; returns the end of the answer to each (`Call.ends`)."""
        if isinstance(self.user, np.ndarray):
            await self._play(session, self.user)
            await self._send_silence(session, lambda silent_s: silent_s >= self.tail_s)
            return [None]
        ends: list[float | None] = []
        for index, sound in enumerate(self.user):
            if index:
                await self._send_silence(session, lambda silent_s: silent_s >= self.pause_s)
            self._watch.expect(sound)
            await self._play(session, sound)
            await self._send_silence(session, lambda silent_s: silent_s >= self.tail_s or self._has_ended())
            ends.append(self._get_time_s() if self._has_ended() else None)
        return ends

    async def _play(self, session: Session, sound: Samples) -> None:
        """Sends one utterance frame by frame, and records the time from its first to its last audible sound."""
        at_s = FRAME_S * len(self._sent)
        spans = find_audible_spans(sound)
        if spans:
            self._turns.append((round_s(at_s + spans[0][0]), round_s(at_s + spans[-1][1])))
        else:
            self._turns.append((round_s(at_s), round_s(at_s + samples_to_seconds(len(sound)))))
        padded = np.pad(sound.astype(np.float32, copy=False), (0, -len(sound) % FRAME_N_SAMPLES))
        for frame in padded.reshape(-1, FRAME_N_SAMPLES):
            await self._send(session, frame)

    async def _send_silence(self, session: Session, is_over: Callable[[float], bool]) -> None:
        """Sends silence until `is_over`, which gets the duration of that silence in seconds, returns true."""
        n_silent = 0
        while not is_over(round_s(n_silent * FRAME_S)):
            await self._send(session, np.zeros(FRAME_N_SAMPLES, np.float32))
            n_silent += 1

    async def _send(self, session: Session, frame: Samples) -> None:
        """Sends the next frame at the time of its end, while the other tasks record what arrives.

        Raises:
            BackendError: the session has ended by itself, or a chat model is unavailable or rejects requests.
        """
        self._sent.append(frame)
        due_s = self._began_s + FRAME_S * len(self._sent)
        await asyncio.sleep(max(0.0, due_s - asyncio.get_running_loop().time()))
        for chat in self.chats:
            if chat.gone is not None:
                raise chat.gone
        if session.has_ended:
            reason = next((each.data["reason"] for each in self._events if each.kind == "ended"), "unknown")
            raise BackendError(f"The session ended by itself: {reason}.", "Look for the cause in the log.")
        self._watch.say(self._get_time_s(), frame)
        session.hear(frame)

    async def _read_frames(self, session: Session) -> None:
        """Records the audio and text of all frames that the server sends, with their times."""
        async for frame in session.read_frames():
            at_s = self._get_time_s()
            self._said.append((at_s, frame.samples))
            self._watch.hear(at_s, frame.samples)
            if frame.text:
                self._pieces.append((at_s, frame.text))
                self._watch.read(at_s, frame.text)

    async def _read_events(self, session: Session) -> None:
        """Records the session's events, with their times of arrival."""
        async for event in session.subscribe_to_events():
            at_s = self._get_time_s()
            self._events.append(dataclasses.replace(event, time_s=at_s))
            self._watch.note(at_s, asdict(event))

    def _has_ended(self) -> bool:
        """Returns whether the answer to the last utterance has ended by now."""
        return self._watch.has_ended(self._get_time_s())

    def _get_time_s(self) -> float:
        """Returns the simulated seconds since the start of the call."""
        return round_ms(asyncio.get_running_loop().time() - self._began_s)


def _place_pieces(said: Sequence[tuple[float, Samples]]) -> Samples:
    """Returns pieces of audio on one time line from 0 s on, each at its time or, if later, after the previous one."""
    starts, end = [], 0
    for at_s, samples in said:
        starts.append(max(end, round(at_s * SAMPLE_RATE_HZ)))
        end = starts[-1] + len(samples)
    sound = np.zeros(end, np.float32)
    for start, (_, samples) in zip(starts, said, strict=True):
        sound[start : start + len(samples)] = samples
    return sound


@contextlib.contextmanager
def _build_parts(config: ServeConfig, background: BackgroundLoop) -> Iterator[ServerParts]:
    """Context manager that builds the parts of a configuration in another event loop, and closes them afterwards."""
    stack = AsyncExitStack()
    try:
        yield background.run(stack.enter_async_context(build_parts(config)))
    finally:
        background.run(stack.aclose())


async def _do_nothing() -> None:
    """Does nothing, because there is nothing else to shut down."""
