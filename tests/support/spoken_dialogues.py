"""Small dialogues, and their speech by the double, for tests of the stages between."""

from typing import Any

from backends.tts.double import DoubleTts
from data_schemas.config import GateConfig, SpeechConfig
from data_schemas.records import Dialogue, DialogueClips
from pipelines.speech.stage import SpeechStage
from tests.support.builders import make_dialogue, make_turn, make_utterance


def dialogues(n: int = 1, **fields: Any) -> list[Dialogue]:
    """Makes dialogues of a question and an answer; only the question differs between them.

    Args:
        fields: fields that all of them have.
    """

    def one(number: int) -> Dialogue:
        name = ("zero", "one", "two", "three")[number % 4]
        question = make_utterance(f"What colour has the flag number {name} of that old town?")
        answer = make_utterance("It is as blue as the sky.")
        turns = (make_turn(0, "B", [question]), make_turn(1, "A", [answer]))
        ours = {"dialogue_id": f"mine-{number}-v0", "item_id": f"mine-{number}"}
        return make_dialogue(*turns, **(ours | fields))

    return [one(number) for number in range(n)]


def speech(config: SpeechConfig | None = None, tts: Any = None, seed: int = 0, tts_b: Any = None) -> SpeechStage:
    """Makes the stage that says dialogues by the double or another engine, without a quality gate."""
    config = config or SpeechConfig(tts="double")
    return SpeechStage(config, GateConfig(asr="none"), tts or DoubleTts(), None, seed, tts_b=tts_b)


def spoken(batch: list[Dialogue], **config: Any) -> list[DialogueClips]:
    """Returns the clips of dialogues as the double says them.

    Args:
        config: fields of the configuration of speech.
    """
    return speech(SpeechConfig(tts="double", **config)).run([(each,) for each in batch]).outputs
