"""The mixing stage: places clean clips on one clock, shifts their word timings, and mixes two channels of audio."""

import random
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar

import numpy as np

from data_schemas import ids
from data_schemas.config import MixingConfig, SurroundingsConfig
from data_schemas.fingerprint import dump_relevant_fields, get_versions
from data_schemas.records import (
    Audio,
    AudioDialogue,
    Dialogue,
    DialogueClips,
    DialogueWords,
    Provenance,
    Reject,
    Surroundings,
)
from data_schemas.units import SAMPLE_RATE_HZ, round_s, samples_to_seconds
from pipelines.audio import EDGE_S, Sound, decode_flac, fade_edges, to_flac
from pipelines.mixing.layout import Layout, NoPlace, lay_out
from pipelines.mixing.surroundings import apply_surroundings, draw_plan
from pipelines.mixing.timing import CHANNEL, measure_quality, place_turn
from pipelines.stage import StageResult, make_reject

CUT_FADE_S = 0.05
"""Duration in seconds of the fade-out of the assistant's voice before a cut."""


class MixingStage:
    """Places utterances as the script requires, simulates the user's surroundings, and makes a row of a data shard."""

    name: ClassVar[str] = "mixing"
    version: ClassVar[int] = 3
    inputs: ClassVar[tuple[str, ...]] = ("wording", "speech", "alignment")
    input_types: ClassVar[tuple[type, ...]] = (Dialogue, DialogueClips, DialogueWords)
    output_type: ClassVar[type] = AudioDialogue

    def __init__(self, config: MixingConfig, surroundings: SurroundingsConfig, seed: int) -> None:
        self.config = config
        self.surroundings = surroundings
        self.seed = seed

    def get_fingerprint_fields(self) -> dict[str, Any]:
        """Returns what determines the rows besides the inputs: configuration, seed, and versions of audio libraries."""
        return {
            "config": dump_relevant_fields(self.config),
            "surroundings": dump_relevant_fields(self.surroundings),
            "seed": self.seed,
            "made_with": get_versions("pyroomacoustics", "scipy", "soundfile"),
        }

    def run(self, batch: Sequence[tuple[Dialogue, DialogueClips, DialogueWords]]) -> StageResult[AudioDialogue]:
        """Returns one row for each dialogue; rejects it if its utterances cannot be placed (`NoPlace`)."""
        outputs: list[AudioDialogue] = []
        rejects: list[Reject] = []
        for dialogue, clips, words in batch:
            try:
                layout = lay_out(
                    dialogue,
                    clips.clips,
                    words.utterances,
                    self.config,
                    self._make_generator(dialogue.dialogue_id, "gaps"),
                )
            except NoPlace as refusal:
                rejects.append(make_reject(dialogue, self.name, refusal.reason, str(refusal)))
            else:
                outputs.append(self._mix(dialogue, clips, words, layout))
        return StageResult(outputs, rejects)

    def _mix(self, dialogue: Dialogue, clips: DialogueClips, words: DialogueWords, layout: Layout) -> AudioDialogue:
        """Makes the row of a placed dialogue; its quality is measured after the user's surroundings are added."""
        spoken = {(clip.turn_index, clip.utterance_index): clip for clip in clips.clips}
        turns = tuple(place_turn(turn, layout, spoken) for turn in dialogue.turns)
        sound = _mix_channels(clips, layout)
        surroundings = self._add_surroundings(dialogue.dialogue_id, sound, layout)
        kept = {field.name: getattr(dialogue, field.name) for field in fields(Dialogue)}
        return AudioDialogue(
            **{**kept, "turns": turns, "provenance": self._make_provenance(dialogue, clips, words)},
            n_samples=layout.n_samples,
            sample_rate_hz=SAMPLE_RATE_HZ,
            duration_s=round_s(samples_to_seconds(layout.n_samples)),
            quality=measure_quality(sound, turns),
            surroundings=surroundings,
            audio=Audio(bytes=to_flac(sound), path=f"{dialogue.dialogue_id}.flac"),
        )

    def _add_surroundings(self, dialogue_id: str, sound: Sound, layout: Layout) -> Surroundings:
        """Draws surroundings, applies them in place to the user's channel only, and returns them."""
        plan = draw_plan(self.surroundings, self._make_generator(dialogue_id, "surroundings"))
        said = [slice(each.start, each.end) for each in layout.utterances.values() if each.speaker == "B"]
        sound[:, CHANNEL["B"]], surroundings = apply_surroundings(sound[:, CHANNEL["B"]], said, plan)
        return surroundings

    def _make_provenance(self, dialogue: Dialogue, clips: DialogueClips, words: DialogueWords) -> Provenance:
        """Completes the dialogue's provenance with its engines, each speaker's voice and the seed."""

        def find_voice(speaker: str) -> str | None:
            return next((c.voice for c in clips.clips if dialogue.turns[c.turn_index].speaker == speaker), None)

        return replace(
            dialogue.provenance,
            tts=clips.tts,
            tts_digest=clips.tts_digest,
            voice_a=find_voice("A"),
            voice_b=find_voice("B"),
            asr=clips.asr,
            asr_digest=clips.asr_digest,
            aligner=words.aligner,
            aligner_digest=words.aligner_digest,
            seed=self.seed,
        )

    def _make_generator(self, dialogue_id: str, what: str) -> random.Random:
        """Makes the random generator of a dialogue for one purpose, which `what` names."""
        return random.Random(ids.derive_seed(self.seed, dialogue_id, what))


def _mix_channels(clips: DialogueClips, layout: Layout) -> Sound:
    """Mixes the spoken part of each clip into its speaker's channel, with fades and digital silence; [n_samples, 2]."""
    sound = np.zeros((layout.n_samples, len(CHANNEL)), np.float32)
    for clip in clips.clips:
        laid = layout.utterances.get((clip.turn_index, clip.utterance_index))
        if laid is not None:  # None: after a cut
            said = decode_flac(clip.flac)[: laid.end - laid.start]
            fade_s = CUT_FADE_S if laid.is_cut else EDGE_S
            sound[laid.start : laid.end, CHANNEL[laid.speaker]] += fade_edges(said, fade_s)
    return sound
