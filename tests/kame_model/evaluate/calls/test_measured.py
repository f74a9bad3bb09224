"""What recognisers of whole recordings hear comes on the simulated clock, when it was measured to come."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import looptime
import numpy as np
import pytest

from backends.engine import Samples
from backends.listener.protocol import Heard, Window
from backends.listener.rehearing import Rehearing, RehearingOptions
from data_schemas.errors import BackendError, StoreError
from kame_model.evaluate.calls.measured import TIMES, MeasuredTimes, add_up_steps, summarise_steps, wrap_recogniser

FRAME = np.zeros(1920, np.float32)
WINDOW_S = 0.032


class Counting(Rehearing):
    """Hears how many windows of sound it is given; fails where it is told to."""

    name = "counting"

    def __init__(self) -> None:
        super().__init__(RehearingOptions(interval_s=0.4))
        self.n_recognised, self.fails = 0, False

    async def recognise(self, samples: Samples, is_urgent: bool) -> str:
        self.n_recognised += 1
        if self.fails:
            raise BackendError("It is out of order.")
        return f"{len(samples) // 512} windows"

    async def shutdown(self) -> None:
        """There is nothing to give back."""


@pytest.fixture
def recogniser() -> Iterator[Counting]:
    counting = Counting()
    yield counting
    counting.close()


def heard_in(recogniser: Counting, folder: Path, n_windows: int = 60) -> list[tuple[float, Heard]]:
    """A turn of speech, a window each 32 ms; what is told, and when."""
    told: list[tuple[float, Heard]] = []
    measured = wrap_recogniser(recogniser, MeasuredTimes(str(folder)))

    async def turn() -> None:
        clock = asyncio.get_running_loop().time
        ear = measured.listen(lambda heard: told.append((clock(), heard)))
        for number in range(n_windows):
            await asyncio.sleep(WINDOW_S)
            loud = np.full(512, 0.001 * number, np.float32)
            ear.feed(FRAME, [Window(loud, 0.9 if number < n_windows - 10 else 0.0)])
        ear.end_turn()
        await asyncio.sleep(5)
        ear.close()

    loop = looptime.new_event_loop(start=0)
    try:
        loop.run_until_complete(turn())
    finally:
        loop.close()
    return told


def charge(folder: Path, took_s: float) -> None:
    lines = [json.loads(line) for line in (folder / TIMES).read_text().splitlines()]
    (folder / TIMES).write_text("".join(json.dumps({**line, "took_s": took_s}) + "\n" for line in lines))


def test_a_second_time_the_same_is_heard_at_the_same_times_without_the_recogniser(
    recogniser: Counting, tmp_path: Path
) -> None:
    first = heard_in(recogniser, tmp_path)
    n_recognised = recogniser.n_recognised
    assert n_recognised > 2
    assert first[-1][1] == Heard("55 windows", is_final=True)  # to the last word's end, and a little silence
    assert heard_in(recogniser, tmp_path) == first
    assert recogniser.n_recognised == n_recognised


def test_what_a_recognition_took_is_charged(recogniser: Counting, tmp_path: Path) -> None:
    heard_in(recogniser, tmp_path)
    charge(tmp_path, 0.25)
    slower = heard_in(recogniser, tmp_path)
    charge(tmp_path, 0.05)
    faster = heard_in(recogniser, tmp_path)
    assert slower[0][0] == pytest.approx(faster[0][0] + 0.2, abs=1e-3)
    assert slower[0][1] == faster[0][1]


def test_a_recogniser_that_fails_is_heard_of_and_not_kept(recogniser: Counting, tmp_path: Path) -> None:
    recogniser.fails = True
    assert [heard for _, heard in heard_in(recogniser, tmp_path)] == [Heard("", is_final=True)]
    recogniser.fails = False
    assert heard_in(recogniser, tmp_path)[-1][1].text == "55 windows"


def test_a_line_that_a_kill_cut_is_dropped_and_a_damaged_file_is_told(tmp_path: Path) -> None:
    times = MeasuredTimes(str(tmp_path))
    assert times.time_synthesis("sum", lambda: 1 + 1)[0] == 2
    took_s = times.time_synthesis("sum", lambda: 3)[1]
    with (tmp_path / TIMES).open("a") as file:
        file.write('{"key": "half')
    again = MeasuredTimes(str(tmp_path))
    assert again.time_synthesis("sum", lambda: 4) == (4, took_s)
    again.keep("text", {"text": "né\ud800"})
    assert MeasuredTimes(str(tmp_path)).find("text") == {"key": "text", "text": "né\ud800"}
    (tmp_path / TIMES).write_text("no JSON\n")
    with pytest.raises(StoreError, match="damaged"):
        MeasuredTimes(str(tmp_path))


def test_steps_are_told_by_mode_in_milliseconds(tmp_path: Path) -> None:
    times = MeasuredTimes(str(tmp_path))
    times.keep("steps/a", summarise_steps(0.02, [0.02] * 97 + [0.081, 0.25]))
    times.keep("steps/b", summarise_steps(0.02, [0.03]))
    kept = MeasuredTimes(str(tmp_path))  # as a resumed evaluation finds them
    (told,) = add_up_steps([("tandem", kept.find("steps/a")), ("tandem", kept.find("steps/b")), ("cascade", None)])
    assert told == {
        "mode": "tandem",
        "n": 100,
        "charged_ms": 20,
        "step_ms_p50": 20.0,
        "step_ms_p99": pytest.approx(81, abs=2),
        "over_frame": 0.02,
    }


class LateEar:
    """Tells a turn's last words from a thread, a moment after the turn's end."""

    failure = None

    def __init__(self, on_heard: Callable[[Heard], None]) -> None:
        self._on_heard, self._n_turns = on_heard, 0

    def feed(self, samples: Samples, windows: Sequence[Window] | None = None) -> None:
        """Nothing is told within a turn."""

    def end_turn(self) -> None:
        self._n_turns += 1
        threading.Timer(0.03, self._on_heard, [Heard(f"turn {self._n_turns}", is_final=True)]).start()

    def close(self) -> None:
        """Nothing is open."""


class LateRecogniser:
    name = "late"

    def listen(self, on_heard: Callable[[Heard], None]) -> LateEar:
        return LateEar(on_heard)

    def close(self) -> None:
        """There is nothing to give back."""


def test_turns_that_are_replayed_are_not_heard_again_in_new_ones(tmp_path: Path) -> None:
    def hear(n_turns: int) -> list[str]:
        told: list[str] = []

        async def call() -> None:
            measured = wrap_recogniser(LateRecogniser(), MeasuredTimes(str(tmp_path)))
            ear = measured.listen(lambda heard: told.append(heard.text))
            for number in range(n_turns):
                if number:
                    ear.feed(FRAME)
                ear.end_turn()
                await asyncio.sleep(5)

        loop = looptime.new_event_loop(start=0)
        try:
            loop.run_until_complete(call())
        finally:
            loop.close()
        return told

    assert hear(2) == ["turn 1", "turn 2"]
    assert hear(3) == ["turn 1", "turn 2", "turn 3"]
