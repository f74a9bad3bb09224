"""What the takes of one utterance differ by, with engines that draw at random and have no speed; on doubles."""

from collections.abc import Callable

import pytest

from backends.tts.double import DoubleTts
from backends.tts.protocol import Speech, TakeRefused
from data_schemas.config import GateConfig, SpeechConfig
from pipelines.speech.stage import SpeechStage
from tests.support.builders import make_dialogue, make_turn, make_utterance

DIALOGUE = make_dialogue(
    make_turn(0, "B", [make_utterance("How much are seven green apples and two pears?")]),
    make_turn(1, "A", [make_utterance("They are nine dollars.")]),
)


class Drawing(DoubleTts):
    """Has no speed, and draws: the takes before the last are whatever it is told to make of them.

    Args:
        first: what becomes of the takes before the third, given their sound.
    """

    has_speed = False

    def __init__(self, first: Callable[[Speech], Speech]) -> None:
        self.first = first
        self.asked: list[tuple[float, int]] = []

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        self.asked.append((speed, take))
        if speed != 1.0:
            raise ValueError("speaks at speed 1 only")
        said = super().synthesise(text, voice, speed)
        return self.first(said) if take < 2 else said


def nothing(said: Speech) -> Speech:
    raise TakeRefused("no sound this time")


@pytest.mark.parametrize("first", [lambda said: Speech(said.samples * 0), nothing])
def test_takes_of_an_engine_without_speed_differ_by_their_number(first: Callable[[Speech], Speech]) -> None:
    tts = Drawing(first)
    stage = SpeechStage(SpeechConfig(tts="double"), GateConfig(asr="none"), tts, None, 0)
    (clips,) = stage.run([(DIALOGUE,)]).outputs
    assert {clip.speed for clip in clips.clips} == {1.0}
    assert tts.asked == [(1.0, 0), (1.0, 1), (1.0, 2)] * 2


def test_takes_that_come_to_nothing_are_a_reject_with_the_reason() -> None:
    stage = SpeechStage(SpeechConfig(tts="double"), GateConfig(asr="none", max_takes=2), Drawing(nothing), None, 0)
    (reject,) = stage.run([(DIALOGUE,)]).rejects
    assert (reject.reason, reject.detail) == ("speech_refused", "no sound this time")
