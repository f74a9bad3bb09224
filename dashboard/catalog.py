"""Finds datasets: folders with a `dataset.json` below the roots, searched again at each request."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dashboard.folders import find_folders
from data_schemas.errors import ConfigError, DatasetError, KameError
from data_schemas.manifest import MANIFEST, Manifest
from data_schemas.reader import read_manifest
from data_schemas.store import Store


class MissingError(KameError):
    """The resource of a URL does not exist; HTTP 404."""


def is_dataset(folder: Path) -> bool:
    """Returns whether a folder has a manifest."""
    return (folder / MANIFEST).is_file()


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset that can be read."""

    key: str
    folder: Path
    manifest: Manifest

    @property
    def store(self) -> Store:
        """The store of its files."""
        return Store(str(self.folder))

    def get_file(self, path: str) -> Path:
        """Returns the absolute path of a file of the dataset, given relative to its folder; it need not exist.

        Raises:
            DatasetError: it is outside the dataset's folder.
        """
        file = (self.folder / path).resolve()
        if not file.is_relative_to(self.folder):
            raise DatasetError(
                f"{MANIFEST} of {self.folder} lists {path!r}, which is outside the folder.",
                "Restore that file, or make the dataset again.",
            )
        return file


@dataclass(frozen=True, slots=True)
class DamagedDataset:
    """A folder with a manifest that cannot be read."""

    key: str
    folder: Path
    error: KameError


class Catalog:
    """The datasets below some folders.

    Args:
        roots: datasets, or folders of datasets.

    Raises:
        ConfigError: a root is not a folder.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        for root in roots:
            if not root.is_dir():
                raise ConfigError(f"{root} is not a folder.", "Give a dataset, or a folder that contains datasets.")
        self.roots = [root.resolve() for root in roots]
        self._folders: dict[str, Path] = {}
        self._manifests: dict[Path, tuple[tuple[int, int], Manifest]] = {}

    def list_datasets(self) -> list[Dataset | DamagedDataset]:
        """Searches the roots again, and returns all datasets, also damaged ones, sorted by key."""
        self._folders = dict(find_folders(self.roots, is_dataset))
        return [self._read_dataset(key, folder) for key, folder in sorted(self._folders.items())]

    def get_dataset(self, key: str) -> Dataset:
        """Returns the dataset of a key.

        Raises:
            MissingError: there is none.
            KameError: it cannot be read.
        """
        if key not in self._folders:
            self._folders = dict(find_folders(self.roots, is_dataset))
        folder = self._folders.get(key)
        if folder is None or not is_dataset(folder):
            raise MissingError(f"There is no dataset {key!r}.", "Choose one from the list of datasets.")
        found = self._read_dataset(key, folder)
        if isinstance(found, DamagedDataset):
            raise found.error
        return found

    def _read_dataset(self, key: str, folder: Path) -> Dataset | DamagedDataset:
        """Returns the dataset of a folder, or why it cannot be read; an unchanged manifest is not read again."""
        try:
            status = (folder / MANIFEST).stat()
            stamp = (status.st_mtime_ns, status.st_size)
            known = self._manifests.get(folder)
            if known is None or known[0] != stamp:
                known = self._manifests[folder] = (stamp, read_manifest(Store(str(folder))))
            return Dataset(key, folder, known[1])
        except KameError as error:
            return DamagedDataset(key, folder, error)
        except OSError as error:
            gone = DatasetError(
                f"{folder / MANIFEST} cannot be read: {error.strerror}.", "Check the permissions of the folder."
            )
            return DamagedDataset(key, folder, gone)
