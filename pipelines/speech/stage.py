"""Dialogues to clean speech: each utterance said on its own, at one level, by voices drawn from the dialogue's seed."""

import random
from collections.abc import Sequence
from typing import Any, ClassVar

from backends.protocols import SpeechRefused, TextToSpeech
from data_schemas import ids
from data_schemas.config import SpeechConfig
from data_schemas.errors import ConfigError
from data_schemas.fingerprint import what_matters
from data_schemas.records import Clip, Clips, Dialogue, Reject
from pipelines.audio import at_level, to_flac
from pipelines.stage import StageResult, refused


def resolve_voices(config: SpeechConfig, tts: TextToSpeech) -> tuple[str, list[str]]:
    """The assistant's voice and the user's voices: those asked for, else what the engine has.

    Raises:
        ConfigError: a voice is asked for that this machine lacks.
    """
    there = [voice.name for voice in tts.voices()]
    voice_a = config.voice_a or there[0]
    others = [name for name in there if name != voice_a] or [voice_a]
    voices_b = others if config.voices_b is None else config.voices_b
    missing = sorted({voice_a, *voices_b} - set(there))
    if missing or not voices_b:
        wrong = f"has no voice {', '.join(missing)}" if missing else "needs at least one voice for the user"
        raise ConfigError(f"The speech back-end {tts.name} {wrong}.", f"Voices here: {', '.join(there)}.")
    return voice_a, voices_b


class SpeechStage:
    """Says every utterance; voice and speed are drawn from seed, dialogue and speaker, so a speaker keeps one voice."""

    name: ClassVar[str] = "speech"
    version: ClassVar[int] = 1
    inputs: ClassVar[tuple[str, ...]] = ("script",)
    input_types: ClassVar[tuple[type, ...]] = (Dialogue,)
    output_type: ClassVar[type] = Clips

    def __init__(self, config: SpeechConfig, tts: TextToSpeech, seed: int) -> None:
        self.config = config
        self.tts = tts
        self.seed = seed
        self.voice_a, self.voices_b = resolve_voices(config, tts)

    def matters(self) -> dict[str, Any]:
        """Configuration, seed, engine and the digests of the voices that may speak."""
        digests = {voice.name: voice.digest for voice in self.tts.voices()}
        return {
            "config": what_matters(self.config),
            "seed": self.seed,
            "tts": self.tts.digest,
            "voices": [[name, digests[name]] for name in (self.voice_a, *self.voices_b)],
        }

    def run(self, batch: Sequence[tuple[Dialogue]]) -> StageResult[Clips]:
        """Clips of each dialogue, or a reject where the engine cannot say one of its utterances."""
        outputs: list[Clips] = []
        rejects: list[Reject] = []
        for (dialogue,) in batch:
            try:
                outputs.append(self._speak(dialogue))
            except SpeechRefused as refusal:
                rejects.append(refused(dialogue, self.name, "speech_refused", str(refusal)))
        return StageResult(outputs, rejects)

    def _speak(self, dialogue: Dialogue) -> Clips:
        manner = {speaker: self._manner(dialogue.dialogue_id, speaker) for speaker in ("A", "B")}
        clips = []
        for turn in dialogue.turns:
            voice, speed = manner[turn.speaker]
            for index, utterance in enumerate(turn.utterances):
                sound = self.tts.synthesise(utterance.spoken_text, voice, speed).samples
                level = at_level(sound, self.config.level_dbfs)
                clips.append(
                    Clip(
                        turn_index=turn.turn_index,
                        utterance_index=index,
                        voice=voice,
                        speed=speed,
                        n_samples=len(level),
                        flac=to_flac(level),
                        words=(),
                        hearing=None,
                    )
                )
        return Clips(
            dialogue_id=dialogue.dialogue_id, tts=self.tts.name, tts_digest=self.tts.digest, clips=tuple(clips)
        )

    def _manner(self, dialogue_id: str, speaker: str) -> tuple[str, float]:
        draw = random.Random(ids.seed_for(self.seed, dialogue_id, "voice", speaker))
        speed = round(draw.uniform(self.config.speed_min, self.config.speed_max), 2)
        return (self.voice_a if speaker == "A" else draw.choice(self.voices_b)), speed
