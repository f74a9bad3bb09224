"""A checkpoint as it lies there, ours, KAME's or Moshi's: keyword arguments, tensors, our facts if there are any."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from moshi.models import loaders
from torch import Tensor

from data_schemas import ids
from data_schemas.errors import ConfigError, StoreError
from data_schemas.presets import PRESETS
from kame_model.checkpoint.kame_json import KameJson, read_kame_json
from kame_model.checkpoint.place import CODEC_WEIGHTS, CONFIG, FACTS, KAME_RELEASE_CONFIG, TOKENIZER, Place
from kame_model.checkpoint.tensors import ORACLE_KEY, read_tensors
from kame_model.model.front_end import lm_kwargs

_NOT_LM = ("model_type", "lm_gen_config", "tts_config", "stt_config", "model_id", "depformer_causal", "lora_rank")
"""Keys of a `config.json` that stock moshi takes out before it builds the model, beside all that end in `_name`
(moshi/models/loaders.py, `CheckpointInfo.from_hf_repo` and `get_moshi_lm`)."""


_STOCK_NAMES = (loaders.MIMI_NAME, loaders.TEXT_TOKENIZER_NAME)
"""Of codec and vocabulary, where a configuration names none."""


class OtherFiles(NamedTuple):
    """Names of the files beside the weights, as `Place.file` takes them; they need not be there.

    Attributes:
        codec: Mimi's weights.
        codec_kwargs: JSON of moshi's keyword arguments for it; None: moshi's own Mimi.
        tokenizer: the vocabulary.
    """

    codec: str
    codec_kwargs: str | None
    tokenizer: str


class Weights(NamedTuple):
    """What a checkpoint's folder says of the model.

    Attributes:
        lm_kwargs: keyword arguments of moshi's `LMModel`.
        path: the safetensors file.
        others: what else a voice is made of.
        facts: `kame.json`; None where the checkpoint is not ours.
    """

    lm_kwargs: dict[str, Any]
    path: Path
    others: OtherFiles
    facts: KameJson | None

    def tensors(self) -> tuple[dict[str, Tensor], Tensor | None]:
        """The `LMModel`'s state dictionary, and the oracle's table where there is one.

        Raises:
            StoreError: the file is damaged.
        """
        state = read_tensors(self.path)
        return state, state.pop(ORACLE_KEY, None)


def look_into(place: Place) -> Weights:
    """What a place holds; the tensors are not read yet.

    Raises:
        ConfigError: no checkpoint, or one of adapters that are not merged.
        BackendError: the Hub does not answer.
        StoreError: a file is damaged, or of a newer kame.
    """
    path = place.file(KAME_RELEASE_CONFIG) or place.file(CONFIG)
    config = _kwargs_7b() if path is None else _read_config(path)
    weights = place.needed(config.get("moshi_name", loaders.MOSHI_NAME))
    facts = None if (found := place.file(FACTS)) is None else read_kame_json(found)
    if config.get("lora") or config.get("lora_name"):
        raise ConfigError(f"{place.name} holds adapters that are not merged.", "Merge them first, with moshi's loader.")
    kwargs = {key: value for key, value in config.items() if not key.endswith("_name") and key not in _NOT_LM}
    kwargs.pop("lora", None)
    codec, tokenizer = _STOCK_NAMES if facts is None else (CODEC_WEIGHTS, TOKENIZER)
    others = OtherFiles(
        config.get("mimi_name", codec), config.get("mimi_config_name"), config.get("tokenizer_name", tokenizer)
    )
    return Weights(kwargs, weights, others, facts)


def digest_of_files(paths: Sequence[Path]) -> str:
    """Stands for weights: 16 hexadecimal digits. Reads all of them.

    Raises:
        StoreError: a file cannot be read.
    """
    try:
        return ids.digest("weights", [ids.sha256_of(each) for each in paths])
    except OSError as error:
        raise StoreError(f"Weights cannot be read: {error}.", "Look at their rights and disk.") from error


def _kwargs_7b() -> dict[str, Any]:
    """Moshi's own: what stock moshi takes where a repository has no configuration."""
    return lm_kwargs(PRESETS["moshi-7b"].model, text_card=32_000, card=2048, n_codebooks=8)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}.", "Fetch or export the checkpoint again.") from error
    return config
