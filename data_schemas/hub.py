"""Datasets on the Hugging Face Hub (`hf://datasets/owner/name`): downloaded for training, read remotely to inspect.

The only token used is HF_TOKEN of the environment; if it is not set, only public repositories can be read. Downloads
are in the Hub's own cache (HF_HOME), with one copy of each version of a file.
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
    """A dataset repository and the requested revision; None: the newest."""

    name: str
    revision: str | None


def is_on_hub(root: str) -> bool:
    """Whether this is the address of a dataset on the Hub rather than a folder."""
    return root.startswith(HUB_DATASETS)


def parse_address(address: str) -> HubDataset:
    """Parses `hf://datasets/owner/name[@revision]`.

    Raises:
        ConfigError: if it is not such an address.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise ConfigError(
            f"{address} is not the address of a dataset on the Hub.", f"Write {HUB_DATASETS}owner/name[@revision]."
        )
    return HubDataset(found["name"], found["revision"])


def connect() -> "HfApi":
    """Returns a client of the Hub with the token of the environment; no request is made yet.

    Raises:
        ConfigError: if its library is not installed.
    """
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise ConfigError("huggingface-hub is not installed.", "Install kame-pipeline[hub].") from error
    return HfApi(token=os.environ.get(TOKEN) or False)


@contextmanager
def translate_hub_errors(name: str, remedy: str = f"Check the name, the network and {TOKEN}.") -> Iterator[None]:
    """Converts errors of requests to the Hub in the block to `BackendError`, whose message never contains a token.

    Args:
        name: what is requested, for the message.
        remedy: what the user can do about a failure.

    Raises:
        ConfigError: if the environment forbids requests (HF_HUB_OFFLINE).
    """
    try:
        yield
    except KameError:
        raise
    except Exception as error:  # the Hub's clients raise errors of many libraries
        if "OfflineModeIsEnabled" in {type(error).__name__, type(error.__cause__).__name__}:  # the cause: not cached
            raise ConfigError(f"HF_HUB_OFFLINE is set, so {name} cannot be reached.", "Unset it.") from error
        response = getattr(error, "response", None)
        status = str(getattr(response, "status_code", "") or "")
        why = f"HTTP {status}" if status else type(error).__name__
        raise BackendError(f"The request to the Hub for {name} failed: {why}.", remedy, status) from error


def fetch_dataset(address: str, patterns: tuple[str, ...]) -> Path:
    """Downloads files of a dataset to the local cache, if they are not there yet, and returns its folder there.

    If the Hub cannot be reached, files of the last download are used. All calls of a process see the same commit of a
    revision, even if a newer one is published during the run.

    Args:
        patterns: glob patterns of paths in the dataset; one that matches nothing is not an error.

    Raises:
        ConfigError: if the address is not valid, the Hub's library is not installed, or HF_HUB_OFFLINE is set and the
            files are not in the cache.
        BackendError: if the Hub does not answer and the files are not in the cache, or it has no such dataset.
    """
    found = parse_address(address)
    return _fetch(found.name, _find_commit(*found), patterns)


def open_dataset(address: str) -> Store:
    """Opens a dataset on the Hub for remote reading, at the same commit as `fetch_dataset`; downloads its manifest.

    Raises:
        ConfigError, BackendError: as for `fetch_dataset`.
    """
    connect()
    from huggingface_hub import HfFileSystem

    found = parse_address(address)
    return Store(f"datasets/{found.name}@{_find_commit(*found)}", HfFileSystem(token=os.environ.get(TOKEN) or False))


@cache
def _find_commit(name: str, revision: str | None) -> str:
    """Returns the current commit of a revision; offline, the commit of the last download."""
    return _fetch(name, revision, (_MANIFEST,)).name  # the cache has a folder per commit, and records branches


@cache
def _fetch(name: str, revision: str | None, patterns: tuple[str, ...]) -> Path:
    """Downloads the files that match the patterns, and returns the folder of their commit in the cache; cached."""
    api = connect()
    with translate_hub_errors(f"{HUB_DATASETS}{name}"):
        fetched = api.snapshot_download(name, repo_type="dataset", revision=revision, allow_patterns=[*patterns])
    return Path(fetched)
