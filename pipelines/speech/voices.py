"""Voices of the speakers: one for the assistant of a whole dataset, and voices of users drawn by seed."""

import random
from collections.abc import Mapping, Sequence

from backends.tts.protocol import SpeechRefused, TextToSpeech, Voice
from data_schemas import ids
from data_schemas.config import SpeechConfig
from data_schemas.errors import ConfigError
from data_schemas.records import Dialogue

HELD_OUT_SHARE = 0.3
"""Share of the users' voices that are reserved for validation and test, if these have voices of their own."""


def resolve_voices(config: SpeechConfig, tts: TextToSpeech, tts_b: TextToSpeech | None = None) -> tuple[str, list[str]]:
    """Returns the assistant's voice and the user's voices.

    If they are not configured, they are the first voice of the assistant's engine, and all voices of the user's engine
    but that of the assistant's name. Both have the same voice only if `voices_b` names it.

    Args:
        tts_b: the engine of the user's voices; None for `tts`.

    Raises:
        ConfigError: a configured voice is not on this machine, or none is left for the user.
    """
    tts_b = tts_b or tts
    there = [voice.name for voice in tts.list_voices()]
    there_b = [voice.name for voice in tts_b.list_voices()]
    voice_a = config.voice_a or there[0]
    voices_b = [name for name in there_b if name != voice_a] if config.voices_b is None else config.voices_b
    _check_voices_exist(tts, [voice_a], there)
    _check_voices_exist(tts_b, voices_b, there_b)
    if not voices_b:
        raise ConfigError(
            f"The speech back-end {tts_b.name} has no voice for the user other than the assistant's, {voice_a}: it "
            "needs at least one voice for the user.",
            f"It has: {', '.join(there_b)}. Choose another back-end for the user in speech.tts_b, or name "
            f"{voice_a} in speech.voices_b to have both speak with it.",
        )
    return voice_a, voices_b


def _check_voices_exist(tts: TextToSpeech, wanted: Sequence[str], there: Sequence[str]) -> None:
    """Raises `ConfigError` if one of the wanted voices is not among those that are there."""
    if missing := sorted(set(wanted) - set(there)):
        raise ConfigError(
            f"The speech back-end {tts.name} has no voice {', '.join(missing)}.", f"Choose one of: {', '.join(there)}."
        )


def is_held_out(voice: str, seed: int) -> bool:
    """Returns whether a user's voice is reserved for validation and test, drawn by its name and the seed.

    So additional voices do not change this for others.
    """
    return int(ids.digest("held-out voice", seed, voice), 16) / 16**16 < HELD_OUT_SHARE


class SpeakerVoices:
    """Draws a voice and a speed for each speaker of a dialogue, by seed, dialogue and speaker.

    Args:
        engines: the engines of speakers A and B.

    Raises:
        ConfigError: a configured voice does not exist, or there are too few for disjoint speakers.
    """

    def __init__(self, config: SpeechConfig, engines: Mapping[str, TextToSpeech], seed: int) -> None:
        self.config = config
        self.seed = seed
        self._has_speed = {speaker: tts.has_speed for speaker, tts in engines.items()}
        self.voice_a, self.voices_b = resolve_voices(config, engines["A"], engines["B"])
        self._voices = {speaker: {voice.name: voice for voice in tts.list_voices()} for speaker, tts in engines.items()}
        if config.disjoint_voices:
            self._check_disjoint_voices(engines["B"].name)

    def list_voices(self) -> list[Voice]:
        """Returns all voices that may speak, the assistant's first."""
        return [self._voices["A"][self.voice_a], *(self._voices["B"][name] for name in self.voices_b)]

    def draw_speed(self, dialogue_id: str, speaker: str) -> float:
        """Draws the speed of a speaker in a dialogue; 1, the voice's own speed, if the engine supports no other."""
        if not self._has_speed[speaker]:
            return 1.0
        draw = random.Random(ids.derive_seed(self.seed, dialogue_id, "speed", speaker))
        return round(draw.uniform(self.config.speed_min, self.config.speed_max), 2)

    def list_candidates(self, dialogue: Dialogue, speaker: str, n_most: int) -> Sequence[str]:
        """Returns the voices to try for a speaker of a dialogue, in order: at most `n_most`, drawn by seed.

        Another one is tried if the one before is not understood.

        The assistant has one voice in all dialogues and therefore only one candidate.

        Raises:
            SpeechRefused: there is no voice of the dialogue's language.
        """
        names = [self.voice_a] if speaker == "A" else self._list_user_voices(dialogue.split)
        names = [name for name in names if self._voices[speaker][name].language.split("-")[0] == dialogue.language]
        if not names:
            raise SpeechRefused(f"speaker {speaker} has no voice of the language {dialogue.language!r}")
        draw = random.Random(ids.derive_seed(self.seed, dialogue.dialogue_id, "voice", speaker))
        return draw.sample(names, min(n_most, len(names)))

    def _list_user_voices(self, split: str) -> list[str]:
        """Returns the users' voices of a split; with `disjoint_voices`, the reserved ones if it is not "train"."""
        if not self.config.disjoint_voices:
            return self.voices_b
        return [name for name in self.voices_b if is_held_out(name, self.seed) == (split != "train")]

    def _check_disjoint_voices(self, engine: str) -> None:
        """Raises `ConfigError` unless there are voices both for training and for validation and test."""
        n_held_out = sum(is_held_out(name, self.seed) for name in self.voices_b)
        if not 0 < n_held_out < len(self.voices_b):
            raise ConfigError(
                f"{len(self.voices_b)} voices of {engine} are too few for separate users in validation and test: "
                f"{n_held_out} of them are reserved for those.",
                "Name more voices_b, choose another seed, or leave disjoint_voices off.",
            )
