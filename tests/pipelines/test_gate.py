"""The gate's rules on single takes, and what the speech stage does about them; on doubles that swallow words."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backends.protocols import Samples, Speech
from backends.tts.double import DoubleTts
from data_schemas.config import GateConfig, SpeechConfig
from data_schemas.records import Clips, Dialogue
from pipelines.speech.gate import Gate, longest_clipped_run, longest_pause_s
from pipelines.speech.stage import SpeechStage
from pipelines.stage import StageResult
from tests.builders import make_dialogue, make_turn, make_utterance

TEXT = "How much are seven green apples and two pears?"
TONE: Samples = (0.3 * np.sin(np.arange(72_000) / 9)).astype(np.float32)  # 3 s


class Studio(DoubleTts):
    """Says some takes otherwise than it was told, and hears exactly what was said last.

    Args:
        slip: what is said in place of a text, by text, voice and number of the take of this text by this voice.
    """

    def __init__(self, slip: Callable[[str, str, int], str]) -> None:
        self.slip = slip
        self.said = ""
        self.takes: list[tuple[str, str, float]] = []

    def synthesise(self, text: str, voice: str, speed: float) -> Speech:
        self.takes.append((text, voice, speed))
        take = sum(each[:2] == (text, voice) for each in self.takes)
        self.said = self.slip(text, voice, take)
        return super().synthesise(text, voice, speed)

    def transcribe(self, samples: Samples, sample_rate_hz: int) -> str:
        return self.said


def dialogue(*kinds: str) -> Dialogue:
    question = make_turn(0, "B", [make_utterance(TEXT, kind=kind) for kind in kinds or ("speech",)])
    answer = make_turn(1, "A", [make_utterance("They are nine dollars.")])
    return make_dialogue(question, answer)


def spoken(studio: Studio, one: Dialogue | None = None, **gate: Any) -> StageResult[Clips]:
    stage = SpeechStage(SpeechConfig(tts="double"), GateConfig(asr="double", **gate), studio, studio, 0)
    return stage.run([(one or dialogue(),)])


def test_what_is_heard_right_at_once_is_said_once_and_counted() -> None:
    studio = Studio(lambda text, voice, take: text)
    (clips,) = spoken(studio).outputs
    question, answer = (clip.hearing for clip in clips.clips)
    assert question is not None
    assert (question.n_words, question.n_word_errors, question.n_numbers, question.n_takes) == (9, 0, 2, 1)
    assert answer is not None
    assert (answer.n_numbers_heard, answer.text) == (1, "They are nine dollars.")
    assert len(studio.takes) == 2


def test_a_swallowed_number_is_said_again_at_a_speed_near_by() -> None:
    studio = Studio(lambda text, voice, take: text.replace("seven ", "") if take == 1 else text)
    (clips,) = spoken(studio).outputs
    question = clips.clips[0]
    assert question.hearing is not None
    assert (question.hearing.n_takes, question.hearing.n_numbers_heard) == (2, 2)
    (_, voice, first), (_, same, second) = [take for take in studio.takes if take[0] == TEXT]
    assert voice == same == question.voice
    assert first != second == question.speed
    assert abs(second / first - 1) < 0.1


def test_a_user_who_is_never_understood_gets_another_voice_for_the_whole_dialogue() -> None:
    first: list[str] = []

    def slip(text: str, voice: str, take: int) -> str:
        first.append(voice)
        return "what" if text == TEXT and voice == next(one for one in first if one != "double_a") else text

    studio = Studio(slip)
    one = make_dialogue(
        make_turn(0, "B", [make_utterance("Hello there.")]),
        make_turn(1, "A", [make_utterance("Hello.")]),
        make_turn(2, "B", [make_utterance(TEXT)]),
    )
    (clips,) = spoken(studio, one).outputs
    users = {clip.voice for clip in clips.clips if clip.turn_index != 1}
    assert len(users) == 1
    assert users != {"double_a"}
    takes = [voice for text, voice, _ in studio.takes if text == TEXT]
    assert len(takes) == 4, "three takes by the first voice, one by the second"
    assert clips.clips[2].hearing is not None
    assert clips.clips[2].hearing.n_takes == 4
    assert [clip.turn_index for clip in clips.clips] == [0, 1, 2]


def test_what_stays_garbled_is_rejected_and_the_reject_tells_both_texts() -> None:
    studio = Studio(lambda text, voice, take: text.replace("nine", "five"))
    result = spoken(studio, max_takes=2)
    assert result.outputs == []
    (reject,) = result.rejects
    assert reject.reason == "misheard"
    assert "they are nine dollars" in reject.detail
    assert "they are five dollars" in reject.detail
    assert len([text for text, _, _ in studio.takes if "nine" in text]) == 2, "the assistant has one voice only"


@pytest.mark.parametrize(
    ("heard", "gate", "passes"),
    [
        ("How much are seven green apples and two bears?", {}, True),
        ("How much are seven green apples and two bears?", {"min_word_errors": 0, "max_wer": 0.1}, False),
        ("Now much of seven green apples and two bears?", {}, False),
        ("Now much of seven green apples and two bears?", {"max_wer": 0.4}, True),
        ("How much are eleven green apples and two pears?", {}, False),
        ("How much are eleven green apples and two pears?", {"every_number": False}, True),
    ],
)
def test_what_passes_is_configured(heard: str, gate: dict[str, Any], passes: bool) -> None:
    studio = Studio(lambda text, voice, take: heard if text == TEXT else text)
    assert len(spoken(studio, **gate).outputs) == passes


def test_names_count_only_where_they_are_asked_for() -> None:
    one = make_dialogue(make_turn(0, "B", [make_utterance("Did Paul meet Natalia near that old town hall?")]))
    studio = Studio(lambda text, voice, take: text.replace("Natalia", "Boris"))
    (clips,) = spoken(studio, one).outputs
    assert clips.clips[0].hearing is not None
    assert (clips.clips[0].hearing.n_names, clips.clips[0].hearing.n_names_heard) == (2, 1)
    assert [each.reason for each in spoken(studio, one, min_name_recall=1.0).rejects] == ["misheard"]


def test_backchannels_are_not_listened_to() -> None:
    studio = Studio(lambda text, voice, take: "what" if text == TEXT else text)
    (clips,) = spoken(studio, dialogue("backchannel")).outputs
    assert clips.clips[0].hearing is None
    assert clips.clips[1].hearing is not None


def test_without_a_recogniser_nothing_is_heard_and_the_rest_is_still_judged() -> None:
    stage = SpeechStage(SpeechConfig(tts="double"), GateConfig(asr="none"), DoubleTts(), None, 0)
    (clips,) = stage.run([(dialogue(),)]).outputs
    assert {clip.hearing for clip in clips.clips} == {None}
    assert stage.matters()["recogniser"] is None


def pause_inside(samples: Samples) -> Samples:
    return np.concatenate([samples[:36_000], np.zeros(48_000, dtype=np.float32), samples[36_000:]])


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (TONE, None),
        (TONE * 0, "silent"),
        (TONE * 1e-3, "silent"),
        (pause_inside(TONE), "silent"),
        (np.clip(TONE * 2, -0.3, 0.3), "clipped"),
        (np.tile(TONE, 4), "too_long_for_words"),
        (TONE[:12_000], "too_short_for_words"),
    ],
)
def test_sound_that_cannot_be_this_speech_has_a_reason(samples: Samples, reason: str | None) -> None:
    fault = Gate(GateConfig(), None).judge(make_utterance(TEXT), samples, 1.0, 1).fault
    assert (fault.reason if fault else None) == reason


def test_the_limits_of_length_follow_speed_and_spelling() -> None:
    gate = Gate(GateConfig(), None)
    slow = np.tile(TONE, 3)  # 9 s
    assert gate.judge(make_utterance(TEXT), slow, 1.0, 1).fault is not None
    assert gate.judge(make_utterance(TEXT), slow, 0.5, 1).fault is None
    letters = TONE[:40_800]  # 1.7 s
    assert gate.judge(make_utterance("D N A."), letters, 1.0, 1).fault is None
    assert gate.judge(make_utterance("den."), letters, 1.0, 1).fault is not None


def test_pauses_and_flat_tops_are_measured() -> None:
    assert longest_pause_s(pause_inside(TONE)) == pytest.approx(2.0, abs=0.03)
    assert longest_pause_s(np.pad(TONE, 48_000)) == 0, "silence at the ends is no pause"
    flat = np.zeros(100, dtype=np.float32)
    flat[10:17] = 0.5
    assert longest_clipped_run(flat) == 7
    assert longest_clipped_run(np.zeros(100, dtype=np.float32)) == 0


def test_the_outcome_is_the_same_every_time() -> None:
    def slip(text: str, voice: str, take: int) -> str:
        return text if take == 2 else "what"

    assert spoken(Studio(slip)).outputs == spoken(Studio(slip)).outputs
