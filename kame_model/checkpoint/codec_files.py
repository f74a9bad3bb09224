"""The codec in a checkpoint's folder: its own files, copied byte by byte, so that its digest stays what it was."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from backends.codec.protocol import Codec
from backends.registry import build
from data_schemas.errors import ConfigError
from kame_model.checkpoint.kame_json import CodecFacts
from kame_model.checkpoint.place import CODEC_KWARGS, CODEC_WEIGHTS

Options = Mapping[str, str | int | float | bool]

_ELSEWHERE = ("path", "repo", "kwargs", "device")
"""Options that say where a codec is and runs, which are others in the folder."""


class CodecFiles(NamedTuple):
    """A codec that can go into a folder.

    Attributes:
        facts: what `kame.json` says of it.
        n_codebooks, card: what a front-end must have to speak it.
        weights: Mimi's weights.
        kwargs: JSON of moshi's keyword arguments for it; None: moshi's own Mimi.
    """

    facts: CodecFacts
    n_codebooks: int
    card: int
    weights: Path
    kwargs: Path | None


def codec_files(name: str, options: Options) -> CodecFiles:
    """A codec by its name and options, with the files it is made of.

    Raises:
        ConfigError: there is no such codec, or it is made of no files that moshi reads.
        BackendError: it does not load.
    """
    codec: Codec = build("codec", name, options)
    weights, kwargs = _paths(name, options)
    kept = {key: value for key, value in options.items() if key not in _ELSEWHERE}
    facts = CodecFacts(name=name, digest=codec.digest, options=kept | {"n_codebooks": codec.n_codebooks})
    return CodecFiles(facts, codec.n_codebooks, codec.card, weights, kwargs)


def _paths(name: str, options: Options) -> tuple[Path, Path | None]:
    path = Path(str(options.get("path", ""))).expanduser()
    if name == "nano-mimi":
        return path / CODEC_WEIGHTS, path / CODEC_KWARGS
    if name != "mimi":
        raise ConfigError(f"Codec {name} cannot go into a checkpoint.", "Export with mimi or nano-mimi.")
    kwargs = str(options.get("kwargs", ""))
    if not options.get("path"):
        from moshi.models import loaders

        from backends.codec.mimi import MimiOptions

        path = Path(loaders.hf_get(loaders.MIMI_NAME, str(options.get("repo", MimiOptions().repo))))
    return path, Path(kwargs).expanduser() if kwargs else None


def options_in(weights: Path, kwargs: Path | None, facts: CodecFacts) -> dict[str, str | int | float | bool]:
    """The options that build a checkpoint's codec from the checkpoint's own files."""
    if facts.name == "nano-mimi":
        return {**facts.options, "path": str(weights.parent)}
    return {**facts.options, "path": str(weights), **({} if kwargs is None else {"kwargs": str(kwargs)})}
