"""Dialogues to clean speech, speech to words, and both to one clock and two channels; on doubles."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.aligner.double import DoubleAligner
from backends.protocols import AlignmentRefused, SpeechRefused
from backends.tts.double import DoubleTts
from data_schemas.config import AlignmentConfig, MixingConfig, ScriptConfig, SpeechConfig
from data_schemas.errors import ConfigError
from data_schemas.records import AudioDialogue, Clips, Dialogue, DialogueWords, Item, Turn, WordTiming
from data_schemas.units import SAMPLE_RATE_HZ, seconds_to_samples
from pipelines.alignment.stage import AlignmentStage
from pipelines.audio import from_flac, peak_dbfs, rms_dbfs
from pipelines.script.speakable import spoken_words
from pipelines.script.stage import ScriptStage
from pipelines.speech.mixing import MixingStage
from pipelines.speech.stage import SpeechStage, resolve_voices
from tests.builders import make_item


def item(number: int) -> Item:
    question = f"What colour has the flag number {number} of that old town?"
    return make_item(question, "It is as blue as the sky.", item_id=f"mine-{number}", native_id=str(number))


def dialogues(n: int = 1) -> list[Dialogue]:
    result = ScriptStage(ScriptConfig(), 0).run([(item(number),) for number in range(n)])
    assert result.rejects == []
    return result.outputs


def speech(config: SpeechConfig | None = None, tts: Any = None, seed: int = 0) -> SpeechStage:
    return SpeechStage(config or SpeechConfig(tts="double"), tts or DoubleTts(), seed)


def alignment(aligner: Any = None) -> AlignmentStage:
    return AlignmentStage(AlignmentConfig(aligner="double"), aligner or DoubleAligner())


def spoken(batch: list[Dialogue], **config: Any) -> list[Clips]:
    return speech(SpeechConfig(tts="double", **config)).run([(each,) for each in batch]).outputs


def timed(batch: list[Dialogue], clips: list[Clips]) -> list[DialogueWords]:
    return alignment().run(list(zip(batch, clips, strict=True))).outputs


def mixed(batch: list[Dialogue], mixing: MixingConfig | None = None, seed: int = 0) -> list[AudioDialogue]:
    clips = spoken(batch)
    joined = list(zip(batch, clips, timed(batch, clips), strict=True))
    return MixingStage(mixing or MixingConfig(), seed).run(joined).outputs


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


def utterance_samples(turn: Turn) -> slice:
    said = turn.utterances[0]
    assert said.start_s is not None
    assert said.end_s is not None
    return slice(seconds_to_samples(said.start_s), seconds_to_samples(said.end_s))


def test_the_assistant_is_heard_on_the_left_alone_and_the_user_on_the_right() -> None:
    (row,) = mixed(dialogues())
    sound = from_flac(row.flac)
    user, assistant = (utterance_samples(turn) for turn in row.turns)
    assert rms_dbfs(sound[assistant, 0]) > -40 < rms_dbfs(sound[user, 1])
    sound[assistant, 0] = 0
    sound[user, 1] = 0
    assert not sound.any(), "everything else is silent"


def test_the_sound_is_as_long_as_the_row_says() -> None:
    (row,) = mixed(dialogues())
    sound = from_flac(row.flac)
    assert sound.shape == (row.n_samples, 2)
    assert row.duration_s == pytest.approx(row.n_samples / SAMPLE_RATE_HZ, abs=1e-6)


@settings(max_examples=15)
@given(least=st.floats(0, 2), more=st.floats(0, 2), after_s=st.floats(0, 2), seed=st.integers(0, 2**40))
def test_gaps_are_in_their_bounds(least: float, more: float, after_s: float, seed: int) -> None:
    most = least + more
    config = MixingConfig(before_min_s=least, before_max_s=most, gap_min_s=least, gap_max_s=most, after_s=after_s)
    (row,) = mixed(dialogues(), config, seed)
    starts = [turn.start_s for turn in row.turns]
    ends = [0.0, *(turn.end_s for turn in row.turns)]
    for start_s, end_s in zip(starts, ends, strict=False):
        assert start_s is not None
        assert end_s is not None
        assert least - 1e-4 <= start_s - end_s <= most + 1e-4
    assert ends[-1] is not None
    assert row.duration_s - ends[-1] == pytest.approx(after_s, abs=1e-4)


def test_words_lie_in_order_inside_their_utterances_where_they_are_heard() -> None:
    for row in mixed(dialogues(3)):
        sound = from_flac(row.flac)
        for turn in row.turns:
            said = turn.utterances[0]
            edges = [said.start_s, *(edge for word in said.words for edge in (word.start_s, word.end_s)), said.end_s]
            assert all(one <= other + 1e-5 for one, other in pairwise(edges) if one is not None and other is not None)
            channel = {"A": 0, "B": 1}[turn.speaker]
            for one, other in pairwise(said.words):
                heard = sound[seconds_to_samples(one.start_s) : seconds_to_samples(one.end_s), channel]
                pause = sound[seconds_to_samples(one.end_s) + 1 : seconds_to_samples(other.start_s) - 1, channel]
                assert np.abs(heard).max() > 0.01
                assert not pause.any()


def test_a_row_says_who_spoke_who_timed_and_how_loud() -> None:
    (row,) = mixed(dialogues(), seed=7)
    made = row.provenance
    assert (made.tts, made.aligner, made.voice_a, made.seed) == ("double", "double", "double_a", 7)
    assert made.voice_b in {"double_b", "double_c"}
    assert row.quality.rms_dbfs_a == pytest.approx(SpeechConfig().level_dbfs, abs=0.1)
    assert row.quality.rms_dbfs_b == pytest.approx(SpeechConfig().level_dbfs, abs=0.1)
    assert (row.quality.wer, row.quality.number_recall) == (None, None)


def test_the_keyword_delay_is_counted_from_the_answers_first_word() -> None:
    (dialogue,) = dialogues()
    answer = replace(dialogue.turns[1], answer_word_index=3)
    (row,) = mixed([replace(dialogue, turns=(dialogue.turns[0], answer))])
    words = row.turns[1].utterances[0].words
    assert row.turns[1].keyword_delay_s == pytest.approx(words[3].start_s - words[0].start_s, abs=1e-6)
    assert row.turns[0].keyword_delay_s is None


def test_the_mix_depends_on_its_seed_and_on_nothing_else() -> None:
    batch = dialogues(2)
    assert mixed(batch)[1] == mixed(batch[1:])[0]
    assert mixed(batch, seed=1)[0].turns[0].start_s != mixed(batch)[0].turns[0].start_s
