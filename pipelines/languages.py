"""Which languages a dialogue can be in: those with a normaliser here, a voice and an aligner."""

from collections.abc import Iterable

from backends.aligner.protocol import Aligner
from backends.tts.protocol import TextToSpeech
from data_schemas.config import SourceConfig
from data_schemas.errors import ConfigError

SPEAKABLE = ("en",)
"""Languages whose text `pipelines/script` makes speakable and phrases; a new one is work there, then a word here."""


def missing_for(language: str, tts: TextToSpeech, aligner: Aligner) -> list[str]:
    """What a language lacks before dialogues can be made in it; empty for one that is ready.

    Args:
        language: two letters, such as `en`.
    """
    missing = []
    if language not in SPEAKABLE:
        missing.append(f"a normaliser (there are: {', '.join(SPEAKABLE)})")
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
                    f"Leave {language!r} out of its languages; docs/dialogues.md says what another one takes.",
                )
