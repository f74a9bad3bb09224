"""The files of a checkpoint in a local folder or a Hugging Face Hub repository: an export of kame, KAME's or Moshi's.

Only the configuration is read; the tensors are not loaded before `Contents.read_tensors`.
"""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from moshi.models import loaders
from safetensors.torch import load_file
from torch import Tensor

from backends.codec import folder as codec_folder
from data_schemas.code_layout import CodeLayout
from data_schemas.errors import BackendError, ConfigError
from data_schemas.presets import PRESETS
from kame_model.checkpoint.files import CONFIG, FACTS, TOKENIZER, translate_read_errors
from kame_model.checkpoint.kame_json import KameJson, read_kame_json
from kame_model.model.front_end import make_lm_kwargs
from kame_model.text.tokenizer import HUB_PREFIX

CODEC_WEIGHTS, CODEC_KWARGS = codec_folder.WEIGHTS, codec_folder.KWARGS
CODEC = "codec"
"""Folder of a codec's files; Mimi's are beside the weights, where stock moshi expects them."""

ORACLE_KEY, CUE_KEY = "oracle_emb.weight", "oracle_cue.weight"
TEXT_HEAD_KEY = "text_linear.weight"

KAME_RELEASE_CONFIG = "moshi_lm_kwargs.json"
"""File of keyword arguments in KAME's release, used instead of `config.json`."""

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w.-]+)?")

_NOT_LM = ("model_type", "lm_gen_config", "tts_config", "stt_config", "model_id", "depformer_causal", "lora_rank")
"""Keys of a `config.json` that stock moshi removes before it builds the model, besides all that end in `_name`
(moshi/models/loaders.py, `CheckpointInfo.from_hf_repo` and `get_moshi_lm`)."""

_STOCK_NAMES = (loaders.MIMI_NAME, loaders.TEXT_TOKENIZER_NAME)
"""Default file names of codec and vocabulary, used when a configuration names none."""


class CheckpointLocation(NamedTuple):
    """The location of a checkpoint: a folder, or a repository and its revision."""

    name: str
    folder: Path | None

    def find_file(self, name: str) -> Path | None:
        """Returns the local path of a file, downloaded first if necessary; None: there is no such file.

        Args:
            name: name of a file of this checkpoint, or `hf://owner/name/file`.

        Raises:
            BackendError: the Hub does not respond, or has no such repository.
        """
        if name.startswith(HUB_PREFIX):
            owner, repository, file = [*name.removeprefix(HUB_PREFIX).split("/", 2), "", ""][:3]
            return _fetch(f"{owner}/{repository}", file, named_by=self.name)
        if self.folder is not None:
            return self.folder / name if (self.folder / name).is_file() else None
        return _fetch(self.name, name)

    def require_file(self, name: str) -> Path:
        """Returns the path of a required file, see `find_file`.

        Raises:
            ConfigError: the file does not exist.
            BackendError: as `find_file`.
        """
        found = self.find_file(name)
        if found is None:
            raise ConfigError(f"{self.name} is incomplete: {name} is missing.", "Add it, or use a folder that has it.")
        return found


class Contents(NamedTuple):
    """The contents of a checkpoint. `CheckpointLocation.find_file` takes its file names; the files need not exist.

    Attributes:
        lm_kwargs: keyword arguments of moshi's `LMModel`.
        weights: the safetensors file.
        codec: name of the file of Mimi's weights.
        codec_kwargs: name of the JSON file with moshi's keyword arguments for it; None: moshi's default Mimi.
        tokenizer: name of the file of the vocabulary.
        facts: `kame.json`; None if the checkpoint was not exported by kame.
    """

    lm_kwargs: dict[str, Any]
    weights: Path
    codec: str
    codec_kwargs: str | None
    tokenizer: str
    facts: KameJson | None

    def read_tensors(self) -> tuple[dict[str, Tensor], Tensor | None, Tensor | None]:
        """Reads the `LMModel`'s state dictionary, the oracle's table and the cue's matrix (each None if absent).

        All are on the CPU.

        Raises:
            StoreError: the file cannot be read, or is damaged.
        """
        with translate_read_errors(self.weights):
            state = load_file(self.weights)
        return state, state.pop(ORACLE_KEY, None), state.pop(CUE_KEY, None)


def locate_checkpoint(source: str | Path) -> CheckpointLocation:
    """Finds the location of a checkpoint. It is not checked that a checkpoint is there, and no request is made.

    Args:
        source: a folder, or `owner/name` or `owner/name@revision` on the Hub. If both exist the folder is used.

    Raises:
        ConfigError: `source` is neither.
    """
    folder = Path(source).expanduser()
    if folder.is_dir():
        return CheckpointLocation(str(source), folder)
    if folder.exists() or not _HUB_ID.fullmatch(str(source)):
        raise ConfigError(
            f"{source} is neither a folder nor the name of a Hub repository.", "Use a checkpoint folder or owner/name."
        )
    return CheckpointLocation(str(source), None)


def read_contents(place: CheckpointLocation) -> Contents:
    """Reads the configuration of a checkpoint, but not its tensors; on the Hub, the weights are downloaded too.

    Without a configuration file, the model is taken for Moshi 7B, as in stock moshi.

    Raises:
        ConfigError: there is no checkpoint, or it consists of LoRA adapters that are not merged.
        BackendError: the Hub does not respond.
        StoreError: a file is damaged, or was written by a newer version of kame.
    """
    path = place.find_file(KAME_RELEASE_CONFIG) or place.find_file(CONFIG)
    config = _make_kwargs_7b() if path is None else _read_config(path)
    if config.get("lora") or config.get("lora_name"):
        raise ConfigError(f"{place.name} holds LoRA adapters that are not merged.", "Merge them with moshi first.")
    weights = place.require_file(config.get("moshi_name", loaders.MOSHI_NAME))
    facts = None if (found := place.find_file(FACTS)) is None else read_kame_json(found)
    kwargs = {key: value for key, value in config.items() if not key.endswith("_name") and key not in _NOT_LM}
    kwargs.pop("lora", None)
    codec, tokenizer = _STOCK_NAMES if facts is None else (CODEC_WEIGHTS, TOKENIZER)
    return Contents(
        lm_kwargs=kwargs,
        weights=weights,
        codec=config.get("mimi_name", codec),
        codec_kwargs=config.get("mimi_config_name"),
        tokenizer=config.get("tokenizer_name", tokenizer),
        facts=facts,
    )


def _make_kwargs_7b() -> dict[str, Any]:
    """Returns the keyword arguments of Moshi 7B, which stock moshi uses if a repository has no configuration."""
    return make_lm_kwargs(PRESETS["moshi-7b"].model, 32_000, CodeLayout.make_mimi(8, 2048))


def _read_config(path: Path) -> dict[str, Any]:
    with translate_read_errors(path):
        config: Any = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("it is not a JSON object")
    return config


def _fetch(repository: str, name: str, named_by: str | None = None) -> Path | None:
    """Downloads a file of `owner/name[@revision]` and returns its path; None if the repository has no such file.

    Args:
        named_by: the checkpoint whose configuration names the file; None: the repository is the checkpoint itself.

    Raises:
        BackendError: the download fails, also because there is no such repository.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import RemoteEntryNotFoundError

    repo_id, _, revision = repository.partition("@")
    try:
        return Path(hf_hub_download(repo_id, name, revision=revision or None))
    except RemoteEntryNotFoundError:
        return None
    except Exception as error:  # the Hub's clients raise errors of many libraries
        what = f"Cannot download {name} of {repository} from the Hub ({type(error).__name__}), "
        if named_by is None:
            raise BackendError(
                f"{what}and no such folder exists.",
                "Check the name and the network, or download the repository and use its folder.",
            ) from error
        raise BackendError(
            f"{what}which the configuration of {named_by} names.",
            "Check that name and the network, or put the file into the checkpoint's folder and name it there.",
        ) from error
