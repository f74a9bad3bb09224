"""Who speaks: one voice for the assistant of a whole dataset, and voices of users drawn by seed."""

import random
from collections.abc import Sequence

from backends.tts.protocol import SpeechRefused, TextToSpeech, Voice
from data_schemas import ids
from data_schemas.config import SpeechConfig
from data_schemas.errors import ConfigError
from data_schemas.records import Dialogue

HELD_OUT_SHARE = 0.3
"""Share of the users' voices that validation and test keep for themselves, where they have voices of their own."""


def resolve_voices(config: SpeechConfig, tts: TextToSpeech) -> tuple[str, list[str]]:
    """The assistant's voice and the user's voices: those asked for, else what the engine has.

    Both have the same voice only where `voices_b` names it.

    Raises:
        ConfigError: a voice is asked for that this machine lacks, or none is left for the user.
    """
    there = [voice.name for voice in tts.voices()]
    voice_a = config.voice_a or there[0]
    voices_b = [name for name in there if name != voice_a] if config.voices_b is None else config.voices_b
    missing = sorted({voice_a, *voices_b} - set(there))
    here = f"Voices here: {', '.join(there)}."
    if missing:
        raise ConfigError(f"The speech back-end {tts.name} has no voice {', '.join(missing)}.", here)
    if not voices_b:
        raise ConfigError(
            f"The speech back-end {tts.name} has no voice for the user but the assistant's, {voice_a}: it needs at "
            "least one voice for the user.",
            f"{here} Take another back-end, or name {voice_a} in speech.voices_b to have both speak with it.",
        )
    return voice_a, voices_b


def is_held_out(voice: str, seed: int) -> bool:
    """Whether a voice is one of validation and test; a pure function, so that added voices move no other."""
    return int(ids.digest("held-out voice", seed, voice), 16) / 16**16 < HELD_OUT_SHARE


class Cast:
    """Gives each speaker of a dialogue a voice and a speed, drawn from seed, dialogue and speaker.

    Raises:
        ConfigError: a voice asked for is not there, or too few are for disjoint speakers.
    """

    def __init__(self, config: SpeechConfig, tts: TextToSpeech, seed: int) -> None:
        self.config = config
        self.seed = seed
        self._has_speed = tts.has_speed
        self.voice_a, self.voices_b = resolve_voices(config, tts)
        self._voices = {voice.name: voice for voice in tts.voices()}
        if config.disjoint_voices:
            self._check_both_kinds(tts.name)

    def voices(self) -> list[Voice]:
        """Every voice that may speak, the assistant's first."""
        return [self._voices[name] for name in (self.voice_a, *self.voices_b)]

    def speed(self, dialogue_id: str, speaker: str) -> float:
        """How fast a speaker speaks through the dialogue; 1, the voice's own speed, where the engine has no other."""
        if not self._has_speed:
            return 1.0
        draw = random.Random(ids.seed_for(self.seed, dialogue_id, "speed", speaker))
        return round(draw.uniform(self.config.speed_min, self.config.speed_max), 2)

    def candidates(self, dialogue: Dialogue, speaker: str, n_most: int) -> Sequence[str]:
        """The voice to try first, then others in order for the case that it cannot be understood; at most `n_most`.

        The assistant has one voice in all dialogues and so only one candidate.

        Raises:
            SpeechRefused: there is no voice of the dialogue's language.
        """
        names = [self.voice_a] if speaker == "A" else self._users_of(dialogue.split)
        names = [name for name in names if self._voices[name].language.split("-")[0] == dialogue.language]
        if not names:
            raise SpeechRefused(f"speaker {speaker} has no voice of the language {dialogue.language!r}")
        draw = random.Random(ids.seed_for(self.seed, dialogue.dialogue_id, "voice", speaker))
        return draw.sample(names, min(n_most, len(names)))

    def _users_of(self, split: str) -> list[str]:
        if not self.config.disjoint_voices:
            return self.voices_b
        return [name for name in self.voices_b if is_held_out(name, self.seed) == (split != "train")]

    def _check_both_kinds(self, engine: str) -> None:
        n_held_out = sum(is_held_out(name, self.seed) for name in self.voices_b)
        if not 0 < n_held_out < len(self.voices_b):
            raise ConfigError(
                f"{len(self.voices_b)} voices of {engine} are too few for users that train never hears: "
                f"{n_held_out} of them fall to validation and test.",
                "Name more voices_b, choose another seed, or leave disjoint_voices off.",
            )
