"""Dialogues to clean speech; on doubles."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from backends.tts.double import DoubleTts
from backends.tts.protocol import Speech, SpeechRefused, TakeRefused, Voice
from data_schemas.config import GateConfig, SpeechConfig
from data_schemas.errors import ConfigError
from data_schemas.records import WordTiming
from pipelines.audio import decode_flac, measure_peak_dbfs, measure_rms_dbfs
from pipelines.speech.stage import SpeechStage
from pipelines.speech.voices import resolve_voices
from spoken.spoken_text import split_words
from tests.support.spoken_dialogues import dialogues, speech, spoken


def test_every_utterance_is_said_at_the_level_asked_for() -> None:
    (clips,) = spoken(dialogues(), level_dbfs=-20.0)
    assert [(clip.turn_index, clip.utterance_index) for clip in clips.clips] == [(0, 0), (1, 0)]
    for clip in clips.clips:
        sound = decode_flac(clip.flac)
        assert len(sound) == clip.n_samples
        assert measure_rms_dbfs(sound) == pytest.approx(-20.0, abs=0.05)
        assert measure_peak_dbfs(sound) <= -1.0 + 0.01


def test_the_assistant_has_one_voice_and_the_user_another_and_speeds_differ_in_their_bounds() -> None:
    made = spoken(dialogues(12), speed_min=0.9, speed_max=1.2)
    speeds = [clip.speed for each in made for clip in each.clips]
    assert all(0.9 <= speed <= 1.2 for speed in speeds)
    assert len(set(speeds)) > 3
    voices = [(clips.clips[0].voice, clips.clips[1].voice) for clips in made]
    assert {a for _, a in voices} == {"double_a"}
    assert {b for b, _ in voices} == {"double_b", "double_c"}


def test_a_dialogues_speech_does_not_depend_on_its_batch() -> None:
    three = dialogues(3)
    assert spoken(three)[2] == spoken(three[2:])[0]
    other = speech(seed=1).run([(each,) for each in three]).outputs
    assert [each.clips for each in other] != [each.clips for each in spoken(three)]


class Refusing(DoubleTts):
    """Refuses what has the number two in it."""

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Any:
        if "two" in text:
            raise SpeechRefused("no two")
        return super().synthesise(text, voice, speed)


def test_what_the_engine_refuses_is_a_reject_and_the_rest_is_said() -> None:
    result = speech(tts=Refusing()).run([(each,) for each in dialogues(4)])
    assert [each.dialogue_id for each in result.outputs] == ["mine-0-v0", "mine-1-v0", "mine-3-v0"]
    rejects = [(each.item_id, each.stage, each.reason, each.detail) for each in result.rejects]
    assert rejects == [("mine-2", "speech", "speech_refused", "no two")]


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
        ({"voice_a": "nobody"}, "no voice nobody.*Choose one of: double_a"),
        ({"voices_b": ["nobody", "double_a"]}, "no voice nobody"),
        ({"voices_b": []}, "at least one voice for the user"),
    ],
)
def test_voices_that_are_not_there_are_named(config: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        resolve_voices(SpeechConfig(tts="double", **config), DoubleTts())


class Soloist(DoubleTts):
    """Has one voice."""

    def list_voices(self) -> Any:
        return super().list_voices()[:1]


def test_one_voice_speaks_for_both_only_where_that_is_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"other than the assistant's, double_a.*name double_a in"):
        resolve_voices(SpeechConfig(tts="double"), Soloist())
    asked = SpeechConfig(tts="double", voices_b=["double_a"])
    assert resolve_voices(asked, Soloist()) == ("double_a", ["double_a"])


def test_speech_is_identified_by_the_voices_it_resolves_to() -> None:
    same = speech().get_fingerprint_fields()
    named = SpeechConfig(tts="double", voice_a="double_a", voices_b=["double_b", "double_c"])
    assert speech(named).get_fingerprint_fields() == same
    assert speech(SpeechConfig(tts="double", voice_a="double_b")).get_fingerprint_fields() != same
    assert speech(SpeechConfig(tts="double", level_dbfs=-20.0)).get_fingerprint_fields() != same
    assert speech(seed=1).get_fingerprint_fields() != same


class Choir(DoubleTts):
    """Has many voices that all sound like the double's first."""

    name = "choir"
    digest = "choir-1"

    def list_voices(self) -> Any:
        return [Voice(f"voice_{number}", "en-us", "Apache-2.0", str(number)) for number in range(24)]

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Any:
        return super().synthesise(text, "double_a", speed)


class Machine(DoubleTts):
    """Has one voice, speaks at one speed and tells the time of its words."""

    name = "machine"
    digest = "machine-1"
    has_speed = False

    def list_voices(self) -> Any:
        return [Voice("machine_a", "en-us", "Apache-2.0", "m")]

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Any:
        assert (voice, speed) == ("machine_a", 1.0)
        words = [WordTiming(word=word, start_s=0, end_s=0, score=0, method="machine") for word in split_words(text)]
        return replace(super().synthesise(text, "double_c", speed), words=tuple(words))


def test_users_speak_with_the_voices_of_an_engine_of_their_own() -> None:
    stage = speech(SpeechConfig(tts="machine", tts_b="choir"), Machine(), tts_b=Choir())
    spoken = stage.run([(each,) for each in dialogues(8)]).outputs
    users, assistants = zip(*(each.clips for each in spoken), strict=True)
    assert {(clip.voice, clip.speed, bool(clip.words)) for clip in assistants} == {("machine_a", 1.0, True)}
    assert all(clip.voice.startswith("voice_") and not clip.words for clip in users)
    assert len({clip.voice for clip in users}) > 3
    assert len({clip.speed for clip in users}) > 3
    assert {(each.tts, each.tts_digest) for each in spoken} == {("machine; users by choir", "machine-1; choir-1")}


def test_the_engine_of_the_users_is_told_where_a_voice_of_theirs_is_missing() -> None:
    for voices, says in ((["machine_a"], "choir has no voice machine_a"), ([], "choir has no voice for the user")):
        with pytest.raises(ConfigError, match=says):
            resolve_voices(SpeechConfig(tts="machine", voices_b=voices), Machine(), Choir())
    with pytest.raises(ConfigError, match="machine has no voice voice_0"):
        resolve_voices(SpeechConfig(tts="machine", voice_a="voice_0"), Machine(), Choir())
    with pytest.raises(ConfigError, match="1 voices of choir are too few"):
        speech(SpeechConfig(voices_b=["voice_0"], disjoint_voices=True), Machine(), tts_b=Choir())


def test_the_engine_of_the_users_counts_and_its_absence_leaves_identities_as_they_were() -> None:
    alone = speech(SpeechConfig(tts="choir"), Choir()).get_fingerprint_fields()
    assert "tts_b" not in str(alone)
    own = SpeechConfig(tts="choir", tts_b="machine")
    more = {"voices": [["voice_0", "0"], ["machine_a", "m"]], "tts_b": "machine-1"}
    assert speech(own, Choir(), tts_b=Machine()).get_fingerprint_fields() == alone | more


def users_of(split: str, config: SpeechConfig) -> set[str]:
    batch = [replace(each, split=split) for each in dialogues(80)]
    outputs = speech(config, Choir()).run([(each,) for each in batch]).outputs
    return {clips.clips[0].voice for clips in outputs}


@pytest.mark.full
def test_users_of_validation_and_test_are_strangers_to_train_where_that_is_asked_for() -> None:
    together = SpeechConfig(tts="double")
    assert users_of("train", together) & users_of("test", together)
    apart = SpeechConfig(tts="double", disjoint_voices=True)
    train, held_out = users_of("train", apart), users_of("validation", apart) | users_of("test", apart)
    assert len(train) >= 10
    assert len(held_out) >= 4
    assert not train & held_out


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


class Drawing(DoubleTts):
    """Has no speed, and draws: the takes before the third are whatever it is told to make of their sound."""

    has_speed = False

    def __init__(self, first: Callable[[Speech], Speech]) -> None:
        self.first = first
        self.asked: list[tuple[float, int]] = []

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        self.asked.append((speed, take))
        said = super().synthesise(text, voice, speed)
        return self.first(said) if take < 2 else said


def refuse(said: Speech) -> Speech:
    raise TakeRefused("no sound this time")


@pytest.mark.parametrize("first", [lambda said: Speech(said.samples * 0), refuse])
def test_takes_of_an_engine_without_speed_differ_by_their_number(first: Callable[[Speech], Speech]) -> None:
    tts = Drawing(first)
    (clips,) = (
        SpeechStage(SpeechConfig(tts="double"), GateConfig(asr="none"), tts, None, 0).run([(dialogues()[0],)]).outputs
    )
    assert {clip.speed for clip in clips.clips} == {1.0}
    assert tts.asked == [(1.0, 0), (1.0, 1), (1.0, 2)] * 2


def test_takes_that_come_to_nothing_are_a_reject_with_the_reason() -> None:
    stage = SpeechStage(SpeechConfig(tts="double"), GateConfig(asr="none", max_takes=2), Drawing(refuse), None, 0)
    (reject,) = stage.run([(dialogues()[0],)]).rejects
    assert (reject.reason, reject.detail) == ("speech_refused", "no sound this time")
