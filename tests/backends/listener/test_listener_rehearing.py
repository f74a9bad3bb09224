"""Hearing a turn again and again: real speech and silero-vad, a recogniser that counts, and a simulated clock."""

import asyncio
import logging
from collections.abc import Callable

import numpy as np
import pytest

from backends.engine import Samples
from backends.fault_log import FaultLog
from backends.listener.protocol import Heard, Window
from backends.listener.rehearing import Rehearing, RehearingOptions, RehearingStream, drop_guesses
from backends.listener.vad import MODEL_RATE_HZ, WINDOW_S, SpeechMeter, TurnDetector
from data_schemas.errors import BackendError
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S
from tests.support.spoken_question import silence, spoken_question

pytestmark = [pytest.mark.looptime]


class Counting(Rehearing):
    """Hears the tenths of a second of what it is given; takes its time, or fails, as it is told."""

    name = "counting"

    def __init__(self, **timing: float) -> None:
        self.timing = RehearingOptions.model_validate(timing)
        self.place, self.faults = "10.1.2.3:9000", FaultLog(logging.getLogger("tests"))
        self.takes_s = 0.05
        self.fails = False
        self.calls_s: list[float] = []

    async def recognise(self, samples: Samples, is_urgent: bool) -> str:
        self.calls_s.append(now_s())
        await asyncio.sleep(self.takes_s)
        if self.fails:
            raise BackendError("The recogniser has died.", "Start it anew.", "503")
        return f"{10 * len(samples) / MODEL_RATE_HZ:.0f} tenths."

    async def shutdown(self) -> None:
        """Nothing was opened."""


def now_s() -> float:
    return asyncio.get_running_loop().time()


def at_once(function: Callable[..., object], *arguments: object) -> None:
    function(*arguments)


class Caller:
    """An ear, what it tells and when."""

    def __init__(self, recogniser: Rehearing) -> None:
        self.told: list[tuple[float, Heard]] = []
        self.ear = RehearingStream(recogniser, lambda heard: self.told.append((now_s(), heard)), at_once)

    async def says(self, *sounds: Samples) -> None:
        """Speaks in real time, a frame after another."""
        sound = np.concatenate(sounds)
        for start in range(0, len(sound), FRAME_N_SAMPLES):
            await asyncio.sleep(FRAME_S)
            self.ear.feed(sound[start : start + FRAME_N_SAMPLES])

    @property
    def finals(self) -> list[Heard]:
        return [heard for _, heard in self.told if heard.is_final]


@pytest.mark.full
async def test_partial_results_come_while_somebody_speaks_and_the_end_is_told_at_once() -> None:
    recogniser = Counting(interval_s=0.4)
    caller = Caller(recogniser)
    await caller.says(silence(1), spoken_question(), silence(0.7))
    assert len(caller.told) >= 3
    assert not caller.finals
    between = np.diff(recogniser.calls_s[:-1])  # the last one does not wait: the word is over
    assert (between >= 0.4 - 1e-6).all()
    assert (between < 0.4 + 2 * FRAME_S).all()
    ended_s = now_s()
    caller.ear.end_turn()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert caller.told[-1] == (ended_s, Heard(caller.finals[0].text, is_final=True))
    assert caller.finals[0].text.endswith(" tenths.")


async def test_sound_in_which_speech_has_been_looked_for_is_not_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sound = np.concatenate([silence(1), spoken_question(), silence(0.7)])
    alone, helped = Caller(Counting()), Caller(Counting())
    await alone.says(sound)
    alone.ear.end_turn()
    await asyncio.sleep(1)
    detector = TurnDetector(0.5, 0.7)
    measure, measured = SpeechMeter._measure, []

    def noted(self: SpeechMeter, window: Samples) -> Window:
        measured.append(measure(self, window))
        return measured[-1]

    monkeypatch.setattr(SpeechMeter, "_measure", noted)
    for start in range(0, len(sound), FRAME_N_SAMPLES):
        await asyncio.sleep(FRAME_S)
        frame = sound[start : start + FRAME_N_SAMPLES]
        detector.feed(frame)
        helped.ear.feed(frame, detector.windows)
    helped.ear.end_turn()
    await asyncio.sleep(1)
    assert helped.finals == alone.finals
    assert len(measured) <= len(sound) / 24_000 / WINDOW_S  # the detector's alone


async def test_silence_is_never_recognised_and_a_turn_of_silence_is_empty() -> None:
    recogniser = Counting()
    caller = Caller(recogniser)
    await caller.says(silence(20))
    caller.ear.end_turn()
    await asyncio.sleep(1)
    assert recogniser.calls_s == []
    assert [heard for _, heard in caller.told] == [Heard("", is_final=True)]


async def test_what_is_said_just_before_the_end_is_in_the_final_text() -> None:
    caller = Caller(Counting(interval_s=5.0))
    await caller.says(silence(1), spoken_question())
    caller.ear.end_turn()
    await asyncio.sleep(1)
    n_tenths = int(caller.finals[0].text.split()[0])
    assert n_tenths >= 10 * len(spoken_question()) / 24_000 - 1


async def test_a_slow_recogniser_delays_nobody_and_the_turn_ends_in_time() -> None:
    recogniser = Counting(final_timeout_s=1.5)
    caller = Caller(recogniser)
    await caller.says(silence(0.5), spoken_question(), silence(0.7))
    heard = caller.told[-1][1].text
    recogniser.takes_s = 60
    await caller.says(spoken_question(), silence(0.7))
    started_s = now_s()
    caller.ear.end_turn()
    assert now_s() == started_s
    await asyncio.sleep(1.6)
    (ended_s, final) = caller.told[-1]
    assert ended_s == pytest.approx(started_s + 1.5)
    assert final.is_final
    assert final.text.startswith(heard)
    assert "last words within 1.5 s" in str(caller.ear.failure)


async def test_a_dead_recogniser_is_told_asked_ever_more_rarely_and_heals_by_itself() -> None:
    recogniser = Counting()
    recogniser.fails = True
    caller = Caller(recogniser)
    await caller.says(*[spoken_question()] * 8)
    assert caller.told == []
    assert caller.ear.failure == "The recogniser has died. Start it anew."
    waits = np.diff(recogniser.calls_s)
    assert (waits[:3] > (1, 2, 4)).all()
    caller.ear.end_turn()
    await asyncio.sleep(1)
    assert caller.finals == [Heard("", is_final=True)]
    recogniser.fails = False
    await asyncio.sleep(15)
    await caller.says(spoken_question(), silence(0.7))
    assert caller.ear.failure is None
    caller.ear.end_turn()
    await asyncio.sleep(1)
    assert caller.finals[-1].text.endswith(" tenths.")


async def test_a_turn_without_end_that_nobody_recognises_does_not_grow_and_that_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recogniser = Counting(final_timeout_s=60)
    recogniser.fails = True
    caller = Caller(recogniser)
    reasons = set()
    for _ in range(12):
        await caller.says(*[spoken_question()] * 3)
        reasons.add(caller.ear.failure)
    assert reasons == {"The recogniser has died. Start it anew.", "counting is 30 s behind; the oldest audio is lost"}
    recogniser.fails = False
    caller.ear.end_turn()
    await asyncio.sleep(60)
    n_tenths = sum(int(each) for each in caller.finals[0].text.replace("tenths.", "").split())
    assert 150 < n_tenths <= 300
    assert "The recogniser has died." not in caplog.text  # its words are for the caller alone
    failed = "The recogniser counting at 10.1.2.3:9000 failed: HTTP 503. Start it anew."
    assert 0 < caplog.text.count(failed) <= 4, "once a minute"


async def test_a_fault_in_the_engine_does_not_keep_a_turn_from_ending() -> None:
    recogniser = Counting()
    recogniser.recognise = broken  # type: ignore[method-assign]
    caller = Caller(recogniser)
    await caller.says(spoken_question())
    caller.ear.end_turn()
    await asyncio.sleep(5)
    assert caller.finals == [Heard("", is_final=True)]
    assert str(caller.ear.failure).endswith("failed: AttributeError")


async def broken(samples: Samples, is_urgent: bool) -> str:
    raise AttributeError("'str' object has no attribute 'text'")


async def test_a_piece_that_never_comes_back_is_given_up() -> None:
    recogniser = Counting(piece_timeout_s=3.0)
    recogniser.takes_s = 1e6
    caller = Caller(recogniser)
    await caller.says(*[spoken_question()] * 4)
    assert "took longer than 3 s" in str(caller.ear.failure)


async def test_a_recogniser_that_takes_long_is_asked_more_rarely() -> None:
    recogniser = Counting(interval_s=0.2)
    recogniser.takes_s = 1.0
    caller = Caller(recogniser)
    await caller.says(*[spoken_question()] * 5)
    assert (np.diff(recogniser.calls_s) >= 2.0 - 1e-6).all()


async def test_turns_end_in_their_order_and_the_next_ones_words_come_after() -> None:
    recogniser = Counting(final_timeout_s=30.0, interval_s=5.0)
    caller = Caller(recogniser)
    recogniser.takes_s = 4
    await caller.says(spoken_question())
    caller.ear.end_turn()
    recogniser.takes_s = 0.1
    await caller.says(*[spoken_question()] * 2)
    caller.ear.end_turn()
    await asyncio.sleep(20)
    assert [heard.is_final for _, heard in caller.told[-2:]] == [True, True]
    first, second = (int(each.text.split()[0]) for each in caller.finals)
    assert first < second
    assert caller.told.index(next(each for each in caller.told if each[1].is_final)) == 0


async def test_a_closed_ear_tells_nothing_and_leaves_nothing_running() -> None:
    recogniser = Counting()
    caller = Caller(recogniser)
    await caller.says(spoken_question())
    recogniser.takes_s = 1.0
    caller.ear.end_turn()
    await asyncio.sleep(0.1)
    told = list(caller.told)
    caller.ear.close()
    caller.ear.feed(spoken_question())
    caller.ear.end_turn()
    await asyncio.sleep(5)
    assert caller.told == told
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("What is the capital, and when when when when", "What is the capital, and when"),
        ("How do you fill the field of the field of the field of", "How do you fill the field of"),
        ("So it is. It is. ", "So it is"),
        ("It is 20, 20.", "It is 20"),
        ("Twenty twentieth", "Twenty twentieth"),
        ("Weng earns $12.", "Weng earns $12"),
        ("", ""),
    ],
)
async def test_guesses_at_the_end_of_a_turn_that_goes_on_are_left_out(text: str, told: str) -> None:
    assert drop_guesses(text) == told
