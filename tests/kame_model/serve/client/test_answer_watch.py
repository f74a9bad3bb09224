"""When an answer has ended: by sound and text, and by what a server tells of its requests."""

import asyncio
from typing import Any

import numpy as np
import pytest

from data_schemas.units import FRAME_N_SAMPLES, FRAME_S
from kame_model.serve.client.answer_watch import NOISE_S, QUIET_S, STALLED_S, AnswerWatch
from kame_model.serve.client.client import play_until_answered
from kame_model.serve.client.talk_record import TalkRecord

LOUD = np.full(FRAME_N_SAMPLES, 0.1, np.float32)
STILL = np.zeros(FRAME_N_SAMPLES, np.float32)
ASKED_S = 2.0
"""What the caller says ends here."""


class Heard:
    """A conversation: two seconds of a question, and what the server does afterwards, a frame at a time."""

    def __init__(self, mode: str = "", hum: bool = False) -> None:
        self.watch, self.at_s, self._silence = AnswerWatch(), 0.0, LOUD if hum else STILL
        if mode:
            self.tell("started", mode=mode, back_end="default")
            self.tell("speech_started")
        self.goes_on(ASKED_S, says=LOUD)

    def tell(self, kind: str, **data: Any) -> None:
        self.watch.note(self.at_s, {"kind": kind, "time_s": self.at_s, "data": data})

    def goes_on(self, seconds: float, word: str = "", sound: Any = None, says: Any = STILL) -> None:
        for _ in range(round(seconds / FRAME_S)):
            self.at_s += FRAME_S
            self.watch.say(self.at_s, says)
            self.watch.hear(self.at_s, self._silence if sound is None else sound)
            if word:
                self.watch.read(self.at_s, word)

    def end_s(self, most_s: float = 30.0) -> float | None:
        """How long from now, in silence, until the answer has ended; None: it does not."""
        begin_s = self.at_s
        while self.at_s - begin_s < most_s:
            if self.watch.has_ended(self.at_s):
                return round(self.at_s - begin_s, 2)
            self.goes_on(FRAME_S)
        return None


def about(seconds: float) -> Any:
    return pytest.approx(seconds, abs=2 * FRAME_S)


def test_an_answer_ends_with_a_silence_that_is_longer_than_its_pauses() -> None:
    talk = Heard()
    talk.goes_on(1.0)
    for _ in range(3):
        talk.goes_on(1.0, " yes", LOUD)
        talk.goes_on(QUIET_S - 0.5)
        assert not talk.watch.has_ended(talk.at_s)
    talk.goes_on(1.0, " yes", LOUD)
    assert talk.end_s() == about(QUIET_S)


@pytest.mark.parametrize("ending", ["voice_done", "voice_failed"])
def test_a_clause_that_is_being_synthesised_is_waited_for(ending: str) -> None:
    talk = Heard("tandem")
    talk.tell("heard", text="how many", is_final=True)
    talk.goes_on(1.0, " okay", LOUD)
    talk.tell("voice_asked", text="it is sixty")
    talk.tell("voice_asked", text="litres")
    talk.goes_on(2 * QUIET_S)
    talk.tell("voice_done", text="it is sixty")
    assert talk.end_s() is None
    talk.tell(ending, text="litres")
    assert talk.end_s() == about(QUIET_S)


@pytest.mark.parametrize(("kind", "data"), [("speech_started", {}), ("changed", {"mode": "direct"})])
def test_a_clause_that_was_discarded_is_not_waited_for(kind: str, data: dict[str, str]) -> None:
    talk = Heard("tandem")
    talk.tell("voice_asked", text="it is sixty")
    talk.tell(kind, **data)
    talk.tell("heard", text="wait", is_final=True)
    talk.goes_on(1.0, " yes", LOUD)
    assert talk.end_s() == about(QUIET_S)


def test_sound_alone_is_an_answer_and_so_are_words_of_a_front_end_that_is_never_silent() -> None:
    for hum, word, silence_s in ((False, "", QUIET_S), (True, " yes", NOISE_S)):
        talk = Heard(hum=hum)
        talk.goes_on(2.0, word, LOUD)
        assert talk.end_s() == about(silence_s)


@pytest.mark.parametrize("goes_on_s", [0.0, 0.5])
def test_what_was_said_before_the_question_ended_is_an_answer_only_where_it_goes_on(goes_on_s: float) -> None:
    talk = Heard()
    talk.goes_on(1.0, " mhm", LOUD, says=LOUD)
    talk.goes_on(goes_on_s, " yes", LOUD)
    assert talk.end_s() == (about(QUIET_S) if goes_on_s else None)


def test_in_the_cascade_a_request_that_failed_without_a_word_ends_it() -> None:
    for mode, ends in (("cascade", True), ("tandem", False), ("", False)):  # a front-end speaks all the same in time
        talk = Heard(mode)
        talk.tell("heard", text="how many", is_final=True)
        talk.tell("oracle_asked", oracle="cascade-1", back_end="default", n_words=2)
        talk.tell("oracle_failed", oracle="cascade-1", back_end="default", reason="gone")
        assert (talk.end_s() is not None) is ends
        assert not talk.watch.has_begun


def test_of_several_requests_the_newest_counts() -> None:
    talk = Heard("tandem")
    talk.tell("oracle_asked", oracle=1, back_end="default", n_words=1)  # given up without a word
    talk.tell("heard", text="how many", is_final=True)
    talk.tell("oracle_asked", oracle=2, back_end="default", n_words=2)
    talk.tell("oracle_failed", oracle=1, back_end="default", reason="late")
    talk.goes_on(1.0, " yes", LOUD)
    assert talk.end_s(2 * NOISE_S) is None
    talk.tell("oracle_done", oracle=2, n_tokens=3)
    assert talk.end_s() == about(QUIET_S)


def test_a_turn_that_the_server_still_hears_has_no_answer_yet() -> None:
    talk = Heard("tandem")
    talk.goes_on(1.0, " mhm", LOUD)
    assert talk.end_s(2 * NOISE_S) is None
    talk.tell("heard", text="how many", is_final=True)
    assert talk.end_s() == about(QUIET_S)


def test_the_silence_of_a_server_that_sends_nothing_tells_nothing() -> None:
    talk = Heard()
    talk.goes_on(1.0, " yes", LOUD)
    assert not talk.watch.has_ended(talk.at_s + QUIET_S)
    assert not talk.watch.has_ended(talk.at_s + STALLED_S)
    assert talk.end_s() == about(QUIET_S)


@pytest.mark.looptime
@pytest.mark.parametrize("level_dbfs", [-10, -30, -44, -60])
async def test_of_a_quiet_file_too_the_answer_is_waited_for(level_dbfs: float) -> None:
    """The server greets at once and answers 5 s after the question, of which room noise is left."""
    clock, talked = asyncio.get_running_loop(), TalkRecord()
    begin_s = talked.start_s = clock.time()
    tone = np.sqrt(2) * np.sin(np.arange(25 * FRAME_N_SAMPLES))
    noise = 0.05 * np.random.default_rng(0).standard_normal(12 * FRAME_N_SAMPLES)  # 26 dB below
    question = (10 ** (level_dbfs / 20) * np.concatenate([tone, noise])).astype(np.float32)
    async for frame in play_until_answered(question, talked, 60.0):
        talked.say(frame)
        at_s = clock.time() - begin_s
        talked.hear(clock.time(), STILL)
        if at_s < 1.0:
            talked.read(clock.time(), " hello")
        elif 7.0 < at_s < 8.0:
            talked.read(clock.time(), " sixteen")
    assert talked.lacks == ""
    assert clock.time() - begin_s == about(8.0 + QUIET_S)
