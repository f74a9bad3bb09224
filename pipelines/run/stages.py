"""Builds the stages of a run from its configuration: the one place where engines are chosen by name.

`pictures`, `wording` and `oracle` may call a chat model. The first two call one only if it is configured for them, and
otherwise pass all records on; the simulator of `oracle` may be one without a model.
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
"""Stages that may wait for a chat model, run in one process (`execute.run_chat_stage`). The others use workers."""

SPEAKABLE = ("en",)
"""Languages that `pipelines/script` can speak and phrase; for a new one, extend it and then add the language here."""

NOBODY = "none"
"""The value of `asr` for a quality gate without a recogniser."""

Built = TypeVar("Built")


def cache_last_result(build: Callable[[RefreshConfig], Built]) -> Callable[[RefreshConfig], Built]:
    """Returns a function that calls `build` only if the configuration differs from that of the last call.

    For an equal one it returns the last result: a worker process unpickles an equal configuration with each part.
    """
    kept: list[tuple[RefreshConfig, Built]] = []

    @wraps(build)
    def build_or_take(config: RefreshConfig) -> Built:
        if not kept or kept[0][0] != config:
            kept[:] = [(config.model_copy(deep=True), build(config))]
        return kept[0][1]

    return build_or_take


@cache_last_result
def build_cpu_stages(config: RefreshConfig) -> dict[str, Stage[Any]]:
    """Builds the stages that never call a chat model, by name and in order; engines are loaded when first used.

    The stages of the last configuration are kept, so that engines are loaded once per process.

    Raises:
        ConfigError: a back-end is not installed, or a language is not supported.
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
    """Builds the text-to-speech engine of the assistant, and of the user unless another is configured.

    It speaks words by the lexicon's pronunciations.

    Raises:
        ConfigError: the back-end is not installed, or rejects its options.
    """
    return SpeltSpeech(registry.build("tts", config.tts, config.tts_options), lexicon.pronunciations)


def build_tts_b(config: SpeechConfig, lexicon: Lexicon) -> TextToSpeech | None:
    """Builds the text-to-speech engine that only the user has; returns None if both speakers have the same.

    Raises:
        ConfigError: as `build_tts`.
    """
    if config.tts_b is None:
        return None
    return SpeltSpeech(registry.build("tts", config.tts_b, config.tts_b_options), lexicon.pronunciations)


def build_aligner(config: AlignmentConfig, lexicon: Lexicon) -> Aligner:
    """Builds the aligner, with the lexicon's pronunciations applied.

    Raises:
        ConfigError: the back-end is not installed, or rejects its options.
    """
    return SpeltAligner(registry.build("aligner", config.aligner, config.aligner_options), lexicon.pronunciations)


def build_recogniser(config: GateConfig) -> Recogniser | None:
    """Builds the recogniser of the quality gate; returns None if none is configured.

    Raises:
        ConfigError: as `build_tts`.
    """
    if config.asr == NOBODY:
        return None
    recogniser: Recogniser = registry.build("asr", config.asr, config.asr_options)
    return recogniser


def list_user_voices(config: RefreshConfig) -> list[str]:
    """Returns the names of the voices that users may have in a run; builds all stages that call no chat model.

    Raises:
        ConfigError: a back-end is not installed, or a requested voice does not exist.
    """
    speech = build_cpu_stages(config)["speech"]
    assert isinstance(speech, SpeechStage)
    return speech.cast.voices_b


def list_missing(language: str, engines: Iterable[TextToSpeech], aligner: Aligner) -> list[str]:
    """Returns descriptions of what is missing for dialogues in a language; empty if they can be made.

    Args:
        language: a two-letter code, such as `en`.
        engines: the text-to-speech engines, each of which needs a voice of the language.
    """
    missing = []
    if language not in SPEAKABLE:
        missing.append(f"a normaliser (there are: {', '.join(SPEAKABLE)})")
    missing += [
        f"a voice of {tts.name}"
        for tts in engines
        if not any(voice.language.split("-")[0] == language for voice in tts.list_voices())
    ]
    if language not in aligner.languages:
        missing.append(f"the aligner {aligner.name} (it knows: {', '.join(aligner.languages)})")
    return missing


def check_languages(sources: Iterable[SourceConfig], engines: Sequence[TextToSpeech], aligner: Aligner) -> None:
    """Checks that dialogues can be made in all languages of the sources; `engines` are all text-to-speech engines.

    Raises:
        ConfigError: one cannot; the message says what it lacks.
    """
    for source in sources:
        for language in source.languages:
            if missing := list_missing(language, engines, aligner):
                raise ConfigError(
                    f"{source.name} cannot be made in {language!r}: it lacks {'; '.join(missing)}.",
                    f"Leave {language!r} out of its languages; docs/dialogues.md describes how to add one.",
                )


def describe_stages(config: RefreshConfig) -> dict[str, StageDescription]:
    """Returns the descriptions of all stages of a run, in order; no chat model is started."""
    here = build_cpu_stages(config)
    return {stage: describe_chat_stage(config, stage) if stage in CHAT_STAGES else here[stage] for stage in STAGES}


def describe_chat_stage(config: RefreshConfig, stage: str) -> StageDescription:
    """Returns the description of a stage that may call a chat model, for fingerprints; the model is not started."""
    chat = get_chat_model(config, stage)
    if chat is None:
        return build_stage_without_chat(config, stage)
    return build_chat_stage(config, stage, build_chat_engine(chat).describe())


def get_chat_model(config: RefreshConfig, stage: str) -> ChatConfig | None:
    """Returns the configuration of the chat model that one of `CHAT_STAGES` calls; None if it calls none."""
    if stage == ORACLE:
        return None if config.oracle.simulator == "random" else config.chat
    return config.pictures if stage == PICTURES else config.wording


def build_chat_engine(config: ChatConfig) -> ChatEngine:
    """Builds the engine that serves, or connects to, the chat model of a configuration; nothing is started yet.

    Raises:
        ConfigError: there is no such engine, or it is not installed.
    """
    engine: ChatEngine = registry.load("chat", config.engine)(config)
    return engine


def build_chat_stage(config: RefreshConfig, stage: str, endpoint: Endpoint) -> AskingStage[Any]:
    """Builds one of `CHAT_STAGES` that calls the chat model at an endpoint."""
    if stage == PICTURES:
        folders = {source.name: source.pictures for source in config.sources if source.pictures}
        return PicturesStage(folders, endpoint)
    if stage == ORACLE:
        return OracleStage(config.oracle, config.seed, endpoint, choose_prompts(config.oracle, config.chat))
    return WordingStage(endpoint, config.seed)


def build_stage_without_chat(
    config: RefreshConfig, stage: str, dialogues_of: DialoguesOf = lambda *_: iter(())
) -> Stage[Any]:
    """Builds one of `CHAT_STAGES` without a chat model.

    Args:
        dialogues_of: yields the dialogues of a source and split, part by part, from which random oracles choose.
    """
    if stage == PICTURES:
        return PicturesStage({}, None)
    if stage == ORACLE:
        return RandomOracleStage(config.oracle, config.seed, dialogues_of)
    return WordingStage(None, config.seed)
