"""Which languages a dialogue can be in: those with a normaliser here, a voice and an aligner."""

from collections.abc import Callable, Iterable, Mapping

from backends.protocols import Aligner, TextToSpeech
from data_schemas.config import SourceConfig
from data_schemas.errors import ConfigError
from pipelines.script.speakable import speak

NORMALISERS: Mapping[str, Callable[[str], str]] = {"en": speak}
"""What makes text of a language speakable; a new language starts with a line here."""


def missing_for(language: str, tts: TextToSpeech, aligner: Aligner) -> list[str]:
    """What a language lacks before dialogues can be made in it; empty for one that is ready.

    Args:
        language: two letters, such as `en`.
    """
    missing = []
    if language not in NORMALISERS:
        missing.append(f"a normaliser (there are: {', '.join(NORMALISERS)})")
    if not any(voice.language.split("-")[0] == language for voice in tts.voices()):
        missing.append(f"a voice of {tts.name}")
    if language not in aligner.languages:
        missing.append(f"the aligner {aligner.name} (it knows: {', '.join(aligner.languages)})")
    return missing


def check_languages(sources: Iterable[SourceConfig], tts: TextToSpeech, aligner: Aligner) -> None:
    """Whether dialogues can be made in all languages that sources are asked for.

    Raises:
        ConfigError: one lacks something; says what.
    """
    for source in sources:
        for language in source.languages:
            if missing := missing_for(language, tts, aligner):
                raise ConfigError(
                    f"{source.name} cannot be made in {language!r}: it lacks {'; '.join(missing)}.",
                    f"Leave {language!r} out of its languages, or register what it lacks (docs/tour.md).",
                )
