"""The gate's rules on single takes and their sound, and what the speech stage does about them; on doubles."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from backends.asr.protocol import HearingRefused
from backends.engine import Samples
from backends.tts.double import DoubleTts
from backends.tts.protocol import Speech, SpeechRefused
from data_schemas.config import GateConfig, SpeechConfig
from data_schemas.records import Dialogue, DialogueClips
from pipelines.speech.gate import Gate, find_answer_words, measure_longest_clipped_run, measure_longest_pause_s
from pipelines.speech.stage import SpeechStage
from pipelines.stage import StageResult
from tests.support.builders import make_dialogue, make_turn, make_utterance

TEXT = "How much are seven green apples and two pears?"


class Studio(DoubleTts):
    """Says some takes otherwise than it was told, and hears exactly what was said last.

    Args:
        slip: what is said in place of a text, by text, voice and number of the take of this text by this voice.
    """

    def __init__(self, slip: Callable[[str, str, int], str]) -> None:
        self.slip = slip
        self.said = ""
        self.takes: list[tuple[str, str, float]] = []

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        self.takes.append((text, voice, speed))
        n_takes = sum(each[:2] == (text, voice) for each in self.takes)
        self.said = self.slip(text, voice, n_takes)
        return super().synthesise(text, voice, speed)

    def transcribe(self, samples: Samples, sample_rate_hz: int) -> str:
        return self.said


def dialogue(*kinds: str) -> Dialogue:
    question = make_turn(0, "B", [make_utterance(TEXT, kind=kind) for kind in kinds or ("speech",)])
    answer = make_turn(1, "A", [make_utterance("They are nine dollars.")])
    return make_dialogue(question, answer)


def spoken(studio: Studio, one: Dialogue | None = None, **gate: Any) -> StageResult[DialogueClips]:
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
    assert (clips.asr, clips.asr_digest) == (studio.name, studio.digest)


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
    says = (("B", "Hello there."), ("A", "Hello."), ("B", TEXT))
    one = make_dialogue(*(make_turn(at, who, [make_utterance(text)]) for at, (who, text) in enumerate(says)))
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
        ("How much are seven green apples and two bears?", {"max_wer": 0.1}, False),
        ("Now much of seven green apples and two bears?", {}, False),
        ("Now much of seven green apples and two bears?", {"max_wer": 0.4}, True),
        ("How much are eleven green apples and two pears?", {}, False),
        ("How much are eleven green apples and two pears?", {"every_number": False}, True),
        ("", {"max_wer": 1.0, "every_number": False}, False),
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


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("Yes.", ""),
        ("It's Paris.", "It's Berlin."),
        ("It is minus thirty two.", "It is thirty two."),
        ("They do not float on water at all.", "They do float on water at all."),
        ("They are lighter than water is.", "They are not lighter than water is."),
        ("Let me see, I would say it has to be hydrogen.", "Let me see, I would say it has to be nitrogen."),
    ],
)
def test_what_is_swallowed_or_reversed_never_passes(said: str, heard: str) -> None:
    last_word = len(said.split()) - 1
    one = make_dialogue(make_turn(1, "A", [make_utterance(said)], answer_word_index=last_word))
    one = make_dialogue(dialogue().turns[0], *one.turns)
    result = spoken(Studio(lambda text, voice, take: heard if text == said else text), one)
    assert [(each.reason, each.dialogue_id) for each in result.rejects] == [("misheard", one.dialogue_id)]


class HardOfHearing(Studio):
    """Cannot write down the first recordings that it is given."""

    def __init__(self, n_refused: int) -> None:
        super().__init__(lambda text, voice, take: text)
        self.n_refused = n_refused

    def transcribe(self, samples: Samples, sample_rate_hz: int) -> str:
        self.n_refused -= 1
        if self.n_refused >= 0:
            raise HearingRefused("no features in it")
        return super().transcribe(samples, sample_rate_hz)


def test_what_a_recogniser_cannot_write_down_is_said_again_or_rejected() -> None:
    (clips,) = spoken(HardOfHearing(1)).outputs
    assert [clip.hearing.n_takes for clip in clips.clips if clip.hearing] in ([1, 2], [2, 1])
    (reject,) = spoken(HardOfHearing(99)).rejects
    assert (reject.reason, reject.detail) == ("not_heard", "no features in it")


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("It's Siobhan.", "It's Shivon."),
        ("Minus thirty two.", "-32"),
        ("It can't.", "It cannot."),
        ("I would say the Seine.", "I would say a Seine."),
    ],
)
def test_right_speech_is_not_said_again_for_its_spelling(said: str, heard: str) -> None:
    one = make_dialogue(dialogue().turns[0], make_turn(1, "A", [make_utterance(said)], answer_word_index=0))
    (clips,) = spoken(Studio(lambda text, voice, take: heard if text == said else text), one).outputs
    assert clips.clips[1].hearing is not None
    assert clips.clips[1].hearing.n_takes == 1


def test_the_words_that_bear_the_answer_are_those_of_its_sentence_in_their_utterance() -> None:
    said = [make_utterance("Hm, let me see."), make_utterance("It is blue. Like the sky."), make_utterance("Right.")]
    turn = make_turn(1, "A", said, answer_word_index=6)
    assert [list(find_answer_words(turn, at)) for at in range(3)] == [[], [2], []]
    assert list(find_answer_words(replace(turn, answer_word_index=3), 0)) == [3]
    long = make_turn(1, "A", [make_utterance("The one that lies by the river")], answer_word_index=1)
    assert list(find_answer_words(long, 0)) == [1, 2, 3, 4]
    assert list(find_answer_words(replace(long, answer_word_index=None), 0)) == []


def test_nothing_is_heard_of_backchannels_and_without_a_recogniser() -> None:
    studio = Studio(lambda text, voice, take: "what" if text == TEXT else text)
    (clips,) = spoken(studio, dialogue("backchannel")).outputs
    assert clips.clips[0].hearing is None
    assert clips.clips[1].hearing is not None
    stage = SpeechStage(SpeechConfig(tts="double"), GateConfig(asr="none"), DoubleTts(), None, 0)
    (clips,) = stage.run([(dialogue(),)]).outputs
    assert {clip.hearing for clip in clips.clips} == {None}
    assert stage.get_fingerprint_fields()["recogniser"] is None
    assert stage.get_fingerprint_fields()["compared_with"] is None
    studio = Studio(lambda text, voice, take: text)
    listening = SpeechStage(SpeechConfig(tts="double"), GateConfig(asr="double"), studio, studio, 0)
    assert set(listening.get_fingerprint_fields()["compared_with"]) >= {
        "jiwer",
        "rapidfuzz",
        "phonemizer",
        "espeakng-loader",
    }


class Choosy(Studio):
    """Studio, but one voice says nothing at all."""

    def __init__(self, dumb: str) -> None:
        super().__init__(lambda text, voice, take: text)
        self.dumb = dumb

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        if voice == self.dumb:
            raise SpeechRefused(f"{voice} cannot say it")
        return super().synthesise(text, voice, speed)


def test_a_voice_that_refuses_is_followed_by_the_next_candidate_or_the_last_is_a_reject() -> None:
    users = {spoken(Choosy(dumb)).outputs[0].clips[0].voice for dumb in ("double_b", "double_c")}
    assert users == {"double_b", "double_c"}
    rejects = spoken(Choosy("double_a")).rejects
    assert [(each.reason, each.detail) for each in rejects] == [("speech_refused", "double_a cannot say it")]


TONE: Samples = (0.3 * np.sin(np.arange(72_000) / 9)).astype(np.float32)  # 3 s


def pause_inside(samples: Samples) -> Samples:
    return np.concatenate([samples[:36_000], np.zeros(48_000, dtype=np.float32), samples[36_000:]])


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (TONE, None), (TONE * 0, "silent"), (TONE * 1e-3, "silent"), (pause_inside(TONE), "silent"),
        (np.clip(TONE * 2, -0.3, 0.3), "clipped"), (np.tile(TONE, 4), "too_long_for_words"),
        (TONE[:12_000], "too_short_for_words"),
    ],
)  # fmt: skip
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
    assert measure_longest_pause_s(pause_inside(TONE)) == pytest.approx(2.0, abs=0.03)
    assert measure_longest_pause_s(np.pad(TONE, 48_000)) == 0, "silence at the ends is no pause"
    flat = np.zeros(100, dtype=np.float32)
    flat[10:17] = 0.5
    assert measure_longest_clipped_run(flat) == 7
    assert measure_longest_clipped_run(np.zeros(100, dtype=np.float32)) == 0


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (TONE[:9_600], None),
        (np.pad(TONE[:9_600], 2_400), None),
        (np.concatenate([TONE[:4_800], np.zeros(4_800, np.float32), TONE[:4_800]]), None),
        (np.pad(TONE[:2_400], 6_000), "too_short_for_words"),
        (np.concatenate([TONE[:4_800], np.zeros(9_600, np.float32), TONE[:4_800]]), "silent"),
        (TONE[:36_000], "too_long_for_words"),
        (TONE[:9_600] * 1e-3, "silent"),
    ],
)
def test_backchannels_are_looked_at(samples: Samples, reason: str | None) -> None:
    fault = Gate(GateConfig(), None).judge(make_utterance("Okay.", kind="backchannel"), samples, 1.0, 1).fault
    assert (fault.reason if fault else None) == reason
