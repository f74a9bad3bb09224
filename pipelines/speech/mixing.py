"""Clean clips to one dialogue: utterances laid on the clock, words moved with them, two channels of sound."""

import random
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar

import numpy as np

from data_schemas import ids
from data_schemas.config import MixingConfig
from data_schemas.fingerprint import what_matters
from data_schemas.records import (
    Audio,
    AudioDialogue,
    Clip,
    Clips,
    Dialogue,
    DialogueWords,
    Quality,
    Surroundings,
    Turn,
    Utterance,
    WordTiming,
)
from data_schemas.units import SAMPLE_RATE_HZ, round_s, samples_to_seconds, seconds_to_samples
from pipelines.audio import Sound, from_flac, peak_dbfs, rms_dbfs, to_flac
from pipelines.stage import StageResult

CHANNEL = {"A": 0, "B": 1}
"""Left is the assistant, right the user, as moshi-finetune has it."""


class MixingStage:
    """Lays one utterance after the other with natural gaps; makes the row of a data shard."""

    name: ClassVar[str] = "mixing"
    version: ClassVar[int] = 1
    inputs: ClassVar[tuple[str, ...]] = ("script", "speech", "alignment")
    input_types: ClassVar[tuple[type, ...]] = (Dialogue, Clips, DialogueWords)
    output_type: ClassVar[type] = AudioDialogue

    def __init__(self, config: MixingConfig, seed: int) -> None:
        self.config = config
        self.seed = seed

    def matters(self) -> dict[str, Any]:
        """Configuration and seed."""
        return {"config": what_matters(self.config), "seed": self.seed}

    def run(self, batch: Sequence[tuple[Dialogue, Clips, DialogueWords]]) -> StageResult[AudioDialogue]:
        """One row a dialogue; this stage refuses nothing."""
        return StageResult([self._mix(*each) for each in batch], [])

    def _mix(self, dialogue: Dialogue, clips: Clips, words: DialogueWords) -> AudioDialogue:
        starts, n_samples = self._lay(dialogue.dialogue_id, clips.clips)
        sound = np.zeros((n_samples, 2), np.float32)
        for clip, start in zip(clips.clips, starts, strict=True):
            channel = CHANNEL[dialogue.turns[clip.turn_index].speaker]
            sound[start : start + clip.n_samples, channel] += from_flac(clip.flac)
        timed = {(each.turn_index, each.utterance_index): each.words for each in words.utterances}
        laid = {
            (clip.turn_index, clip.utterance_index): _on_clock(
                clip, start, timed[clip.turn_index, clip.utterance_index]
            )
            for clip, start in zip(clips.clips, starts, strict=True)
        }
        turns = tuple(_timed_turn(turn, laid) for turn in dialogue.turns)
        provenance = replace(
            dialogue.provenance,
            tts=clips.tts,
            tts_digest=clips.tts_digest,
            voice_a=_voice(turns, "A"),
            voice_b=_voice(turns, "B"),
            aligner=words.aligner,
            aligner_digest=words.aligner_digest,
            seed=self.seed,
        )
        kept = {field.name: getattr(dialogue, field.name) for field in fields(Dialogue)}
        return AudioDialogue(
            **{**kept, "turns": turns, "provenance": provenance},
            n_samples=n_samples,
            sample_rate_hz=SAMPLE_RATE_HZ,
            duration_s=round_s(samples_to_seconds(n_samples)),
            quality=_quality(sound, turns),
            surroundings=Surroundings(level_dbfs=0.0, noise_dbfs=None, room_rt60_s=None, is_telephone=False),
            audio=Audio(bytes=to_flac(sound), path=f"{dialogue.dialogue_id}.flac"),
        )

    def _lay(self, dialogue_id: str, clips: Sequence[Clip]) -> tuple[list[int], int]:
        """The first sample of each clip, and the samples of the whole dialogue."""
        draw = random.Random(ids.seed_for(self.seed, dialogue_id, "gaps"))
        at = seconds_to_samples(draw.uniform(self.config.before_min_s, self.config.before_max_s))
        starts: list[int] = []
        for clip in clips:
            if starts:
                at += seconds_to_samples(draw.uniform(self.config.gap_min_s, self.config.gap_max_s))
            starts.append(at)
            at += clip.n_samples
        return starts, at + seconds_to_samples(self.config.after_s)


def _on_clock(clip: Clip, start: int, words: tuple[WordTiming, ...]) -> tuple[Clip, float, tuple[WordTiming, ...]]:
    offset_s = samples_to_seconds(start)
    moved = tuple(
        replace(word, start_s=round_s(word.start_s + offset_s), end_s=round_s(word.end_s + offset_s)) for word in words
    )
    return clip, offset_s, moved


Laid = dict[tuple[int, int], tuple[Clip, float, tuple[WordTiming, ...]]]


def _timed_turn(turn: Turn, laid: Laid) -> Turn:
    utterances = tuple(
        _timed_utterance(utterance, *laid[turn.turn_index, index]) for index, utterance in enumerate(turn.utterances)
    )
    delay_s = None
    if turn.answer_word_index is not None:
        words = [word for utterance in utterances if utterance.kind == "speech" for word in utterance.words]
        delay_s = round_s(words[turn.answer_word_index].start_s - words[0].start_s)
    return replace(
        turn,
        utterances=utterances,
        start_s=utterances[0].start_s,
        end_s=utterances[-1].end_s,
        keyword_delay_s=delay_s,
    )


def _timed_utterance(utterance: Utterance, clip: Clip, start_s: float, words: tuple[WordTiming, ...]) -> Utterance:
    return replace(
        utterance,
        voice=clip.voice,
        speed=clip.speed,
        start_s=round_s(start_s),
        end_s=round_s(start_s + samples_to_seconds(clip.n_samples)),
        words=words,
    )


def _voice(turns: Sequence[Turn], speaker: str) -> str | None:
    return next((each.voice for turn in turns if turn.speaker == speaker for each in turn.utterances), None)


def _quality(sound: Sound, turns: Sequence[Turn]) -> Quality:
    scores = [word.score for turn in turns for utterance in turn.utterances for word in utterance.words]
    return Quality(
        rms_dbfs_a=_level_of(sound, turns, "A"),
        rms_dbfs_b=_level_of(sound, turns, "B"),
        peak_dbfs=peak_dbfs(sound),
        mean_word_score=round(float(np.mean(scores)), 4),
        wer=None,
        number_recall=None,
        name_recall=None,
    )


def _level_of(sound: Sound, turns: Sequence[Turn], speaker: str) -> float:
    """The speaker's level while they speak: silence between turns does not count."""
    spoken = [
        sound[seconds_to_samples(each.start_s) : seconds_to_samples(each.end_s), CHANNEL[speaker]]
        for turn in turns
        if turn.speaker == speaker
        for each in turn.utterances
        if each.start_s is not None and each.end_s is not None
    ]
    return rms_dbfs(np.concatenate(spoken)) if spoken else rms_dbfs(np.zeros(0, np.float32))
