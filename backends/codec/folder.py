"""Mimi's files: `mimi.safetensors` with stock weight names, and `mimi.json` with moshi's keyword arguments.

`moshi.models.loaders.get_mimi(weights, json.load(kwargs), num_codebooks=n)` loads them without our code.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_schemas.errors import BackendError, ConfigError

if TYPE_CHECKING:
    from moshi.models.compression import MimiModel

WEIGHTS = "mimi.safetensors"
KWARGS = "mimi.json"


def read_kwargs(file: Path) -> dict[str, Any]:
    """Reads moshi's keyword arguments of a Mimi.

    Raises:
        BackendError: the file cannot be read, or is not a JSON object.
    """
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise BackendError(f"{file} contains no keyword arguments of Mimi: {error}.", "Copy it again.") from error


def load_model(weights: Path, kwargs: dict[str, Any], n_codebooks: int | None, device: str) -> "MimiModel":
    """Loads a model by moshi's own loader, with its first `n_codebooks` in use; None: all.

    Raises:
        BackendError: weights and keyword arguments do not match, or a file is damaged.
        ConfigError: it has fewer codebooks than requested.
    """
    from moshi.models import loaders
    from safetensors import SafetensorError

    try:
        n_there = int(kwargs["quantizer"]["n_q"])
        if n_codebooks is not None and n_codebooks > n_there:
            raise ConfigError(f"{weights} has {n_there} codebooks, not {n_codebooks}.", f"Ask for {n_there} at most.")
        return loaders.get_mimi(weights, kwargs, device=device, num_codebooks=n_codebooks or n_there)
    except (SafetensorError, RuntimeError, OSError, TypeError, KeyError, AssertionError) as error:
        what = (str(error).splitlines() or [type(error).__name__])[0]
        raise BackendError(
            f"The weights in {weights} do not fit the configuration of the codec: {what}",
            "Copy or download the codec's folder again.",
        ) from error
