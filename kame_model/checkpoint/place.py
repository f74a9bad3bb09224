"""Where a checkpoint's files are: a folder on this machine, or a repository of the Hugging Face Hub."""

import re
from pathlib import Path
from typing import NamedTuple

from backends.codec.folder import KWARGS as CODEC_KWARGS
from backends.codec.folder import WEIGHTS as CODEC_WEIGHTS
from data_schemas.errors import BackendError, ConfigError

__all__ = [
    "CARD",
    "CODEC_KWARGS",
    "CODEC_WEIGHTS",
    "CONFIG",
    "FACTS",
    "KAME_RELEASE_CONFIG",
    "TOKENIZER",
    "WEIGHTS",
    "Place",
    "find",
]

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
TOKENIZER = "tokenizer.model"
FACTS = "kame.json"
CARD = "README.md"

KAME_RELEASE_CONFIG = "moshi_lm_kwargs.json"
"""The keyword arguments' file of KAME's release, in the place of `config.json`."""

HUB_PREFIX = "hf://"
"""`hf://owner/name/file`: a file of another repository, as moshi has it (moshi/models/loaders.py, `hf_get`)."""

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w.-]+)?")


class Place(NamedTuple):
    """A folder, or a repository and its revision."""

    name: str
    folder: Path | None

    def file(self, name: str) -> Path | None:
        """A file's path on this machine, fetched where it must be; None: there is no such file.

        Args:
            name: of a file here, or `hf://owner/name/file`.

        Raises:
            BackendError: the Hub does not answer, or has no such repository.
        """
        if name.startswith(HUB_PREFIX):
            owner, repository, file = [*name.removeprefix(HUB_PREFIX).split("/", 2), "", ""][:3]
            return _from_hub(f"{owner}/{repository}", file)
        if self.folder is not None:
            return self.folder / name if (self.folder / name).is_file() else None
        return _from_hub(self.name, name)

    def needed(self, name: str) -> Path:
        """As `file`, of a file that must be there.

        Raises:
            ConfigError: it is not.
        """
        found = self.file(name)
        if found is None:
            raise ConfigError(f"{self.name} is not whole: it has no {name}.", "Put it there, or name a folder with it.")
        return found


def find(source: str | Path) -> Place:
    """A checkpoint's place.

    Args:
        source: a folder, or `owner/name` or `owner/name@revision` on the Hub. A folder comes first.

    Raises:
        ConfigError: it is neither.
    """
    folder = Path(source).expanduser()
    if folder.is_dir():
        return Place(str(source), folder)
    if folder.exists() or not _HUB_ID.fullmatch(str(source)):
        raise ConfigError(
            f"{source} is no folder, and no repository of the Hub.", "Name a checkpoint's folder, or owner/name."
        )
    return Place(str(source), None)


def _from_hub(repository: str, name: str) -> Path | None:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RemoteEntryNotFoundError

    repo_id, _, revision = repository.partition("@")
    try:
        return Path(hf_hub_download(repo_id, name, revision=revision or None))
    except RemoteEntryNotFoundError:
        return None
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise BackendError(
            f"The Hub did not give {name} of {repository} ({type(error).__name__}), and there is no such folder.",
            "Look at the name and the network, or fetch the repository and name its folder.",
        ) from error
