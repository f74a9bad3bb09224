"""Configuration to stages: the one place where engines are chosen by name and handed to the stages of a run.

`pictures`, `wording` and `oracle` may ask a chat model: the first two ask only where a model is configured for them and
pass everything on else; the oracle's simulator may be one that asks nobody.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeVar

from backends import registry
from backends.aligner.protocol import Aligner
from backends.asr.protocol import Recogniser
from backends.chat.protocol import ChatEngine, Endpoint
from backends.tts.protocol import TextToSpeech
from data_schemas.config import AlignmentConfig, ChatConfig, GateConfig, RefreshConfig, SourceConfig, SpeechConfig
from data_schemas.errors import ConfigError
from pipelines.alignment.stage import AlignmentStage
from pipelines.asking import AskingStage
from pipelines.mixing.stage import MixingStage
from pipelines.oracle.prompts import choose_prompts
from pipelines.oracle.random_answers import DialoguesOf, RandomOracleStage
from pipelines.oracle.stage import OracleStage
from pipelines.pictures.stage import PicturesStage
from pipelines.script.stage import ScriptStage
from pipelines.speech.spelt import SpeltAligner, SpeltSpeech
from pipelines.speech.stage import SpeechStage
from pipelines.stage import Stage, StageDescription
from pipelines.wording.stage import WordingStage
from spoken.lexicon import Lexicon, load_lexicon

PICTURES, SCRIPT, WORDING, MIXING, ORACLE = "pictures", "script", "wording", "mixing", "oracle"
STAGES = (PICTURES, SCRIPT, WORDING, "speech", "alignment", MIXING, ORACLE)
"""All stages, in the order they are run."""

CHAT_STAGES = (PICTURES, WORDING, ORACLE)
"""Stages that may wait for a chat model: run in one process (`execute.run_chat_stage`). The others fill processors."""

SPEAKABLE = ("en",)
"""Languages whose text `pipelines/script` makes speakable and phrases; a new one is work there, then a word here."""

NOBODY = "none"
"""The `asr` of a gate without a recogniser."""

Built = TypeVar("Built")


def remember_last(build: Callable[[RefreshConfig], Built]) -> Callable[[RefreshConfig], Built]:
    """Keeps what was built last for configurations equal to its own: a worker process unpickles one with each part."""
    kept: list[tuple[RefreshConfig, Built]] = []

    @wraps(build)
    def build_or_take(config: RefreshConfig) -> Built:
        if not kept or kept[0][0] != config:
            kept[:] = [(config.model_copy(deep=True), build(config))]
        return kept[0][1]

    return build_or_take


@remember_last
def build_cpu_stages(config: RefreshConfig) -> dict[str, Stage[Any]]:
    """The stages that never ask a chat model, in order; what they need is loaded when first used, once a process.

    Raises:
        ConfigError: a back-end is not installed, or a language lacks something.
    """
    lexicon = load_lexicon(config.script.lexicon)
    tts, tts_b = build_tts(config.speech, lexicon), build_tts_b(config.speech, lexicon)
    aligner = build_aligner(config.alignment, lexicon)
    check_languages(config.sources, [tts, tts_b] if tts_b else [tts], aligner)
    stages: list[Stage[Any]] = [
        ScriptStage(config.script, config.forms, config.variants, config.seed),
        SpeechStage(config.speech, config.gate, tts, build_recogniser(config.gate), config.seed, lexicon, tts_b),
        AlignmentStage(config.alignment, aligner),
        MixingStage(config.mixing, config.surroundings, config.seed),
    ]
    return {stage.name: stage for stage in stages}


def build_tts(config: SpeechConfig, lexicon: Lexicon) -> TextToSpeech:
    """Who speaks for the assistant, and for the user where no other is configured, by the lexicon's pronunciations.

    Raises:
        ConfigError: the back-end is not installed, or does not take its options.
    """
    return SpeltSpeech(registry.build("tts", config.tts, config.tts_options), lexicon.pronunciations)


def build_tts_b(config: SpeechConfig, lexicon: Lexicon) -> TextToSpeech | None:
    """Who speaks for the user alone; None where the assistant's does.

    Raises:
        ConfigError: as `build_tts`.
    """
    if config.tts_b is None:
        return None
    return SpeltSpeech(registry.build("tts", config.tts_b, config.tts_b_options), lexicon.pronunciations)


def build_aligner(config: AlignmentConfig, lexicon: Lexicon) -> Aligner:
    """What times the words, by the lexicon's pronunciations.

    Raises:
        ConfigError: the back-end is not installed, or does not take its options.
    """
    return SpeltAligner(registry.build("aligner", config.aligner, config.aligner_options), lexicon.pronunciations)


def build_recogniser(config: GateConfig) -> Recogniser | None:
    """Who listens to each utterance; None where nobody is to."""
    if config.asr == NOBODY:
        return None
    recogniser: Recogniser = registry.build("asr", config.asr, config.asr_options)
    return recogniser


def user_voices(config: RefreshConfig) -> list[str]:
    """The voices that users may have in a run.

    Raises:
        ConfigError: a back-end is not installed, or a voice asked for is not there.
    """
    speech = build_cpu_stages(config)["speech"]
    assert isinstance(speech, SpeechStage)
    return speech.cast.voices_b


def missing_for(language: str, engines: Iterable[TextToSpeech], aligner: Aligner) -> list[str]:
    """What a language lacks before dialogues can be made in it; empty for one that is ready.

    Args:
        language: two letters, such as `en`.
        engines: those that speak; each needs a voice of the language.
    """
    missing = []
    if language not in SPEAKABLE:
        missing.append(f"a normaliser (there are: {', '.join(SPEAKABLE)})")
    missing += [
        f"a voice of {tts.name}"
        for tts in engines
        if not any(voice.language.split("-")[0] == language for voice in tts.voices())
    ]
    if language not in aligner.languages:
        missing.append(f"the aligner {aligner.name} (it knows: {', '.join(aligner.languages)})")
    return missing


def check_languages(sources: Iterable[SourceConfig], engines: Sequence[TextToSpeech], aligner: Aligner) -> None:
    """Whether dialogues can be made in all languages that sources are asked for; `engines` are those that speak.

    Raises:
        ConfigError: one lacks something; says what.
    """
    for source in sources:
        for language in source.languages:
            if missing := missing_for(language, engines, aligner):
                raise ConfigError(
                    f"{source.name} cannot be made in {language!r}: it lacks {'; '.join(missing)}.",
                    f"Leave {language!r} out of its languages; docs/dialogues.md says what another one takes.",
                )


def describe_stages(config: RefreshConfig) -> dict[str, StageDescription]:
    """All stages of a run, in order, for what they are called and what they depend on; no chat model is started."""
    here = build_cpu_stages(config)
    return {stage: describe_chat_stage(config, stage) if stage in CHAT_STAGES else here[stage] for stage in STAGES}


def describe_chat_stage(config: RefreshConfig, stage: str) -> StageDescription:
    """A stage that may ask, for fingerprints: its model is described, and not started."""
    chat = chat_model_of(config, stage)
    if chat is None:
        return build_stage_without_chat(config, stage)
    return build_chat_stage(config, stage, chat_engine(chat).describe())


def chat_model_of(config: RefreshConfig, stage: str) -> ChatConfig | None:
    """The chat model that a stage asks; None where it asks nobody."""
    if stage == ORACLE:
        return None if config.oracle.simulator == "random" else config.chat
    return config.pictures if stage == PICTURES else config.wording


def chat_engine(config: ChatConfig) -> ChatEngine:
    """The engine that serves, or reaches, the chat model."""
    engine: ChatEngine = registry.load("chat", config.engine)(config)
    return engine


def build_chat_stage(config: RefreshConfig, stage: str, endpoint: Endpoint) -> AskingStage[Any]:
    """One of `CHAT_STAGES` with the chat model it asks."""
    if stage == PICTURES:
        folders = {source.name: source.pictures for source in config.sources if source.pictures}
        return PicturesStage(folders, endpoint)
    if stage == ORACLE:
        return OracleStage(config.oracle, config.seed, endpoint, choose_prompts(config.oracle, config.chat))
    return WordingStage(endpoint, config.seed)


def build_stage_without_chat(
    config: RefreshConfig, stage: str, dialogues_of: DialoguesOf = lambda *_: iter(())
) -> Stage[Any]:
    """One of `CHAT_STAGES` without a chat model.

    Args:
        dialogues_of: a source's dialogues by split, among which random oracles choose.
    """
    if stage == PICTURES:
        return PicturesStage({}, None)
    if stage == ORACLE:
        return RandomOracleStage(config.oracle, config.seed, dialogues_of)
    return WordingStage(None, config.seed)
