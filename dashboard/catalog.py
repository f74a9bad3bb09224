"""Which datasets there are: folders with a `dataset.json` below the roots, found anew as they come and go.

A root is a dataset, or a folder that is searched two levels deep; hidden folders are skipped. A dataset's key is its
folder's path below the root, with `~` for `/`: nothing that a browser sends is ever taken for a path.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from data_schemas import ids
from data_schemas.errors import ConfigError, DatasetError, KameError
from data_schemas.manifest import MANIFEST, Manifest
from data_schemas.reader import read_manifest
from data_schemas.store import Store

_DEPTH = 2


class MissingError(KameError):
    """What an address names is not there; an HTTP 404."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset that can be read."""

    key: str
    folder: Path
    manifest: Manifest

    @property
    def store(self) -> Store:
        """Its files."""
        return Store(str(self.folder))

    def file(self, path: str) -> Path:
        """A file that the manifest lists.

        Raises:
            DatasetError: it is outside the dataset's folder.
        """
        file = (self.folder / path).resolve()
        if not file.is_relative_to(self.folder):
            raise DatasetError(
                f"{MANIFEST} of {self.folder} lists {path!r}, which is outside.", "Restore that file or make it anew."
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
        ConfigError: one is no folder.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        for root in roots:
            if not root.is_dir():
                raise ConfigError(f"{root} is no folder.", "Name a dataset, or a folder that holds datasets.")
        self.roots = [root.resolve() for root in roots]
        self._folders: dict[str, Path] = {}
        self._manifests: dict[Path, tuple[tuple[int, int], Manifest]] = {}

    def datasets(self) -> list[Dataset | DamagedDataset]:
        """All of them as they are now, in order of their keys."""
        self._folders = dict(self._find())
        return [self._read(key, folder) for key, folder in sorted(self._folders.items())]

    def dataset(self, key: str) -> Dataset:
        """The dataset of a key.

        Raises:
            MissingError: there is none.
            KameError: it cannot be read.
        """
        if key not in self._folders:
            self._folders = dict(self._find())
        folder = self._folders.get(key)
        if folder is None or not (folder / MANIFEST).is_file():
            raise MissingError(f"There is no dataset {key!r}.", "The list of datasets shows those that are there.")
        found = self._read(key, folder)
        if isinstance(found, DamagedDataset):
            raise found.error
        return found

    def _read(self, key: str, folder: Path) -> Dataset | DamagedDataset:
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
                f"{folder / MANIFEST} cannot be read: {error.strerror}.", "Look at the folder's rights."
            )
            return DamagedDataset(key, folder, gone)

    def _find(self) -> Iterator[tuple[str, Path]]:
        """Keys and folders; where two roots give the same key, the later ones get a digest of their path."""
        taken: set[str] = set()
        found: set[Path] = set()
        for root in self.roots:
            for folder in self._search(root, root, _DEPTH):
                if folder in found:
                    continue
                key = "~".join(folder.relative_to(root).parts) or root.name
                if key in taken:
                    key = f"{key}~{ids.digest(str(folder), n_hex=6)}"
                taken.add(key)
                found.add(folder)
                yield key, folder

    def _search(self, root: Path, folder: Path, depth: int) -> Iterator[Path]:
        """Datasets at a folder or below it; a link that leads out of the root is not followed."""
        if (folder / MANIFEST).is_file():
            yield folder
        elif depth:
            try:
                inside = sorted(folder.iterdir())
            except OSError:  # not ours to read: nothing in it can be shown
                return
            for each in inside:
                if not each.name.startswith(".") and each.is_dir() and each.resolve().is_relative_to(root):
                    yield from self._search(root, each.resolve(), depth - 1)
