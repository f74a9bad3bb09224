"""Datasets of the Hugging Face Hub, as `hf://datasets/owner/name`: fetched for training, read in place to look at.

The token is that of the environment (HF_TOKEN) and no other; where it is not set only public repositories are read.
What is fetched lies in the Hub's own cache (HF_HOME), each version of a file once.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from data_schemas.errors import BackendError, ConfigError, KameError
from data_schemas.store import Store

if TYPE_CHECKING:
    from huggingface_hub import HfApi

HUB_DATASETS: Final = "hf://datasets/"
TOKEN: Final = "HF_TOKEN"  # noqa: S105  # the variable's name
REPOSITORY: Final = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
"""`owner/name`."""

_MANIFEST = "dataset.json"  # data_schemas.manifest.MANIFEST; its readers read from here
_ADDRESS = re.compile(rf"{HUB_DATASETS}(?P<name>{REPOSITORY.pattern})(@(?P<revision>[\w./-]+?))?/?")


class HubDataset(NamedTuple):
    """A repository of a dataset, and the revision of it that is asked for; None: the newest."""

    name: str
    revision: str | None


def is_on_hub(root: str) -> bool:
    """Whether this names a dataset of the Hub rather than a folder."""
    return root.startswith(HUB_DATASETS)


def parse_address(address: str) -> HubDataset:
    """`hf://datasets/owner/name`, with `@revision` behind it or without.

    Raises:
        ConfigError: it is none.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise ConfigError(f"{address} is no dataset of the Hub.", f"Write {HUB_DATASETS}owner/name[@revision].")
    return HubDataset(found["name"], found["revision"])


def connect() -> "HfApi":
    """The Hub's client, with the environment's token.

    Raises:
        ConfigError: its library is not installed.
    """
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise ConfigError("huggingface-hub is not installed.", "Install kame-pipeline[hub].") from error
    return HfApi(token=os.environ.get(TOKEN) or False)


@contextmanager
def asking_hub(name: str, remedy: str = f"Look at the name, the network and {TOKEN}.") -> Iterator[None]:
    """A block that asks the Hub about a repository; what goes wrong there is a `BackendError`, which tells no token."""
    try:
        yield
    except KameError:
        raise
    except Exception as error:  # the Hub's clients raise errors of many libraries
        if type(error).__name__ == "OfflineModeIsEnabled":
            raise ConfigError(f"HF_HUB_OFFLINE is set, so {name} cannot be reached.", "Unset it.") from error
        response = getattr(error, "response", None)
        status = str(getattr(response, "status_code", "") or "")
        why = f"HTTP {status}" if status else type(error).__name__
        raise BackendError(f"The Hub did not do what was asked of {name}: {why}.", remedy, status) from error


def fetch_dataset(address: str, patterns: tuple[str, ...]) -> Path:
    """A dataset's files in the cache on this machine, fetched where they are not there yet.

    All calls of a process see the same state of a repository, whatever is published meanwhile.

    Args:
        patterns: paths in the dataset, in which * stands for anything.

    Raises:
        ConfigError: the address is none, or the Hub's library is not installed.
        BackendError: the Hub does not answer, or has no such dataset.
    """
    found = parse_address(address)
    return _fetch(found.name, _find_commit(*found), patterns)


def open_dataset(address: str) -> Store:
    """A dataset's files to be read where they are, of each what is needed; all in the state of now.

    Raises:
        ConfigError, BackendError: as `fetch_dataset`.
    """
    connect()
    from huggingface_hub import HfFileSystem

    found = parse_address(address)
    return Store(f"datasets/{found.name}@{_find_commit(*found)}", HfFileSystem(token=os.environ.get(TOKEN) or False))


@cache
def _find_commit(name: str, revision: str | None) -> str:
    """The commit that a revision stands for now; offline that of the last time."""
    return _fetch(name, revision, (_MANIFEST,)).name  # the cache has a folder a commit, and notes what branches were


@cache
def _fetch(name: str, revision: str | None, patterns: tuple[str, ...]) -> Path:
    api = connect()
    with asking_hub(f"{HUB_DATASETS}{name}"):
        fetched = api.snapshot_download(name, repo_type="dataset", revision=revision, allow_patterns=[*patterns])
    return Path(fetched)
