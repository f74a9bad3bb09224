"""Dialogues to clean speech, and speech to words; on doubles."""

from dataclasses import replace
from typing import Any

import pytest

from backends.aligner.double import DoubleAligner
from backends.aligner.synthesiser import SynthesiserTimes
from backends.protocols import AlignmentRefused, SpeechRefused, Voice
from backends.tts.double import DoubleTts
from data_schemas.config import AlignmentConfig, GateConfig, SpeechConfig
from data_schemas.errors import ConfigError
from data_schemas.records import Clips, Dialogue, DialogueWords, WordTiming
from data_schemas.units import SAMPLE_RATE_HZ
from pipelines.alignment.stage import AlignmentStage
from pipelines.audio import from_flac, peak_dbfs, rms_dbfs
from pipelines.script.spoken import spoken_words
from pipelines.speech.stage import SpeechStage
from pipelines.speech.voices import resolve_voices
from tests.builders import make_dialogue, make_turn, make_utterance


def dialogues(n: int = 1, **fields: Any) -> list[Dialogue]:
    def one(number: int) -> Dialogue:
        name = ("zero", "one", "two", "three")[number % 4]
        question = make_utterance(f"What colour has the flag number {name} of that old town?")
        answer = make_utterance("It is as blue as the sky.")
        turns = (make_turn(0, "B", [question]), make_turn(1, "A", [answer]))
        ours = {"dialogue_id": f"mine-{number}-v0", "item_id": f"mine-{number}"}
        return make_dialogue(*turns, **(ours | fields))

    return [one(number) for number in range(n)]


def speech(config: SpeechConfig | None = None, tts: Any = None, seed: int = 0) -> SpeechStage:
    return SpeechStage(config or SpeechConfig(tts="double"), GateConfig(asr="none"), tts or DoubleTts(), None, seed)


def alignment(aligner: Any = None, **config: Any) -> AlignmentStage:
    return AlignmentStage(AlignmentConfig(aligner="double", **config), aligner or DoubleAligner())


def spoken(batch: list[Dialogue], **config: Any) -> list[Clips]:
    return speech(SpeechConfig(tts="double", **config)).run([(each,) for each in batch]).outputs


def timed(batch: list[Dialogue], clips: list[Clips]) -> list[DialogueWords]:
    return alignment().run(list(zip(batch, clips, strict=True))).outputs


def test_every_utterance_is_said_at_the_level_asked_for() -> None:
    (clips,) = spoken(dialogues(), level_dbfs=-20.0)
    assert [(clip.turn_index, clip.utterance_index) for clip in clips.clips] == [(0, 0), (1, 0)]
    for clip in clips.clips:
        sound = from_flac(clip.flac)
        assert len(sound) == clip.n_samples
        assert rms_dbfs(sound) == pytest.approx(-20.0, abs=0.05)
        assert peak_dbfs(sound) <= -1.0 + 0.01


def test_the_assistant_has_one_voice_and_the_user_another() -> None:
    voices = [(clips.clips[0].voice, clips.clips[1].voice) for clips in spoken(dialogues(12))]
    assert {a for _, a in voices} == {"double_a"}
    assert {b for b, _ in voices} == {"double_b", "double_c"}


def test_speeds_stay_in_their_bounds_and_differ() -> None:
    speeds = [clip.speed for each in spoken(dialogues(12), speed_min=0.9, speed_max=1.2) for clip in each.clips]
    assert all(0.9 <= speed <= 1.2 for speed in speeds)
    assert len(set(speeds)) > 3


def test_a_dialogues_speech_does_not_depend_on_its_batch() -> None:
    three = dialogues(3)
    assert spoken(three)[2] == spoken(three[2:])[0]
    other = speech(seed=1).run([(each,) for each in three]).outputs
    assert [each.clips for each in other] != [each.clips for each in spoken(three)]


class Refusing(DoubleTts):
    """Refuses what has the number two in it."""

    def synthesise(self, text: str, voice: str, speed: float) -> Any:
        if "two" in text:
            raise SpeechRefused("no two")
        return super().synthesise(text, voice, speed)


def test_what_the_engine_refuses_is_a_reject_and_the_rest_is_said() -> None:
    result = speech(tts=Refusing()).run([(each,) for each in dialogues(4)])
    assert [each.dialogue_id for each in result.outputs] == ["mine-0-v0", "mine-1-v0", "mine-3-v0"]
    assert [(each.item_id, each.stage, each.reason, each.detail) for each in result.rejects] == [
        ("mine-2", "speech", "speech_refused", "no two")
    ]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, ("double_a", ["double_b", "double_c"])),
        ({"voice_a": "double_b"}, ("double_b", ["double_a", "double_c"])),
        ({"voices_b": ["double_c"]}, ("double_a", ["double_c"])),
        ({"voices_b": ["double_a"]}, ("double_a", ["double_a"])),
    ],
)
def test_voices_are_those_asked_for_or_all_there_are(config: dict[str, Any], expected: Any) -> None:
    assert resolve_voices(SpeechConfig(tts="double", **config), DoubleTts()) == expected


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"voice_a": "nobody"}, "no voice nobody.*Voices here: double_a"),
        ({"voices_b": ["nobody", "double_a"]}, "no voice nobody"),
        ({"voices_b": []}, "at least one voice for the user"),
    ],
)
def test_voices_that_are_not_there_are_named(config: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        resolve_voices(SpeechConfig(tts="double", **config), DoubleTts())


class Soloist(DoubleTts):
    """Has one voice."""

    def voices(self) -> Any:
        return super().voices()[:1]


def test_one_voice_speaks_for_both_only_where_that_is_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"no voice for the user but the assistant's, double_a.*name double_a in"):
        resolve_voices(SpeechConfig(tts="double"), Soloist())
    asked = SpeechConfig(tts="double", voices_b=["double_a"])
    assert resolve_voices(asked, Soloist()) == ("double_a", ["double_a"])


def test_speech_is_identified_by_the_voices_it_resolves_to() -> None:
    same = speech().matters()
    named = SpeechConfig(tts="double", voice_a="double_a", voices_b=["double_b", "double_c"])
    assert speech(named).matters() == same
    assert speech(SpeechConfig(tts="double", voice_a="double_b")).matters() != same
    assert speech(SpeechConfig(tts="double", level_dbfs=-20.0)).matters() != same
    assert speech(seed=1).matters() != same


def test_every_spoken_word_is_timed_inside_its_clip() -> None:
    batch = dialogues(2)
    clips = spoken(batch)
    for dialogue, made, words in zip(batch, clips, timed(batch, clips), strict=True):
        for clip, utterance in zip(made.clips, words.utterances, strict=True):
            said = dialogue.turns[clip.turn_index].utterances[0].spoken_text
            assert [word.word for word in utterance.words] == spoken_words(said)
            edges = [edge for word in utterance.words for edge in (word.start_s, word.end_s)]
            assert edges == sorted(edges)
            assert 0 <= edges[0] < edges[-1] <= clip.n_samples / SAMPLE_RATE_HZ + 1e-6


class LosingWords(DoubleAligner):
    """Loses the last word of questions, and finds nothing in the second dialogue's."""

    def align(self, samples: Any, sample_rate_hz: int, words: Any) -> list[WordTiming]:
        if "one" in words:
            raise AlignmentRefused("nothing is heard")
        found = super().align(samples, sample_rate_hz, words)
        return found[:-1] if "zero" in words else found


def test_dialogues_whose_words_are_not_all_found_are_rejects() -> None:
    batch = dialogues(3)
    result = alignment(LosingWords()).run(list(zip(batch, spoken(batch), strict=True)))
    assert [each.dialogue_id for each in result.outputs] == ["mine-2-v0"]
    assert [(each.item_id, each.reason) for each in result.rejects] == [
        ("mine-0", "words_not_found"),
        ("mine-1", "words_not_found"),
    ]
    assert "words timed in turn 0" in result.rejects[0].detail
    assert result.rejects[1].detail == "nothing is heard"


def moved(timings: list[WordTiming], by_s: float) -> list[WordTiming]:
    return [replace(each, start_s=each.start_s + by_s, end_s=each.end_s + by_s) for each in timings]


class Moving(DoubleAligner):
    """Tells times that lie elsewhere than the sound, or scores of its own."""

    def __init__(self, by_s: float = 0.0, score: float = 0.0) -> None:
        self.by_s = by_s
        self.score = score

    def align(self, samples: Any, sample_rate_hz: int, words: Any) -> list[WordTiming]:
        found = moved(super().align(samples, sample_rate_hz, words), self.by_s)
        return [replace(each, score=self.score) for each in found]


@pytest.mark.parametrize(
    ("aligner", "config", "reasons"),
    [
        (Moving(), {}, []),
        (Moving(by_s=-0.01), {}, ["word_outside"]),
        (Moving(by_s=0.01), {}, ["word_outside"]),
        (Moving(score=-5), {}, []),
        (Moving(score=-5), {"min_mean_score": {"double": -6.0}}, []),
        (Moving(score=-5), {"min_mean_score": {"double": -4.0}}, ["score_low"]),
    ],
)
def test_words_found_badly_or_elsewhere_are_rejects(aligner: Any, config: dict[str, Any], reasons: list[str]) -> None:
    batch = dialogues()
    result = alignment(aligner, **config).run(list(zip(batch, spoken(batch), strict=True)))
    assert [each.reason for each in result.rejects] == reasons
    assert len(result.outputs) == 1 - len(reasons)


class Choir(DoubleTts):
    """Has many voices that all sound like the double's first."""

    def voices(self) -> Any:
        return [Voice(f"voice_{number}", "en-us", "Apache-2.0", str(number)) for number in range(24)]

    def synthesise(self, text: str, voice: str, speed: float) -> Any:
        return super().synthesise(text, "double_a", speed)


def users_of(split: str, config: SpeechConfig) -> set[str]:
    batch = [replace(each, split=split) for each in dialogues(80)]
    outputs = speech(config, Choir()).run([(each,) for each in batch]).outputs
    return {clips.clips[0].voice for clips in outputs}


def test_users_of_validation_and_test_are_strangers_to_train_where_that_is_asked_for() -> None:
    together = SpeechConfig(tts="double")
    assert users_of("train", together) & users_of("test", together)
    apart = SpeechConfig(tts="double", disjoint_voices=True)
    train, held_out = users_of("train", apart), users_of("validation", apart) | users_of("test", apart)
    assert len(train) >= 10
    assert len(held_out) >= 4
    assert not train & held_out


def test_too_few_voices_for_disjoint_users_are_told() -> None:
    with pytest.raises(ConfigError, match="1 voices of double are too few"):
        speech(SpeechConfig(tts="double", voices_b=["double_b"], disjoint_voices=True))


def test_a_speaker_keeps_voice_and_speed_through_a_dialogue() -> None:
    (one,) = dialogues()
    more = [replace(turn, turn_index=turn.turn_index + 2) for turn in one.turns]
    (clips,) = speech(tts=Choir()).run([(replace(one, turns=(*one.turns, *more)),)]).outputs
    manners = [(clip.voice, clip.speed) for clip in clips.clips]
    assert manners[:2] == manners[2:]


def test_a_language_without_a_voice_is_a_reject() -> None:
    result = speech().run([(each,) for each in dialogues(language="de")])
    assert [each.reason for each in result.rejects] == ["speech_refused"]
    assert "'de'" in result.rejects[0].detail


def test_the_synthesisers_own_times_are_taken_where_it_told_them() -> None:
    (one,) = dialogues()
    (clips,) = spoken([one])
    (found,) = timed([one], [clips])
    told = [replace(clip, words=each.words) for clip, each in zip(clips.clips, found.utterances, strict=True)]
    result = alignment(SynthesiserTimes()).run([(one, replace(clips, clips=tuple(told)))])
    assert [each.words for each in result.outputs[0].utterances] == [each.words for each in found.utterances]
    silent = alignment(SynthesiserTimes()).run([(one, clips)])
    assert [each.reason for each in silent.rejects] == ["words_not_found"]
