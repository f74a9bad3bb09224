"""Files of a dataset: written beside and renamed, read with their errors translated. fsspec underneath.

On a local disk a file's content is on the disk before it takes its name, and its name before anything that says that it
is there: after a power cut a file is whole or not there, as after a kill. What that costs: `benchmarks.durability`.

Everything else in `pipelines` names files by paths relative to a store's root, so that a bucket can take the place of
a folder. Today only local folders are tried.
"""

import errno
import hashlib
import io
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from data_schemas.errors import ConfigError, StoreError

TEMPORARY = ".kame-writing"
"""Suffix of files that are not whole yet; a run sweeps those of a run that was killed."""


@dataclass(frozen=True, slots=True)
class Written:
    """A file that stands whole: its path in the store, its size and its checksum."""

    path: str
    n_bytes: int
    sha256: str


class Store:
    """A folder of files that are whole or not there.

    Args:
        root: a local folder; or, with `fs`, a folder there.
        fs: for reading elsewhere.
    """

    def __init__(self, root: str, fs: AbstractFileSystem | None = None) -> None:
        if "://" in root:
            raise ConfigError(f"{root} is no local folder.", "Only local folders can hold a dataset so far.")
        self.fs: AbstractFileSystem
        self.root: str
        self.fs, self.root = fsspec.core.url_to_fs(root) if fs is None else (fs, root)

    def at(self, path: str) -> str:
        """The full name of a file or folder of this store."""
        return f"{self.root}/{path}" if path else str(self.root)

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return bool(self.fs.exists(self.at(path)))

    def n_bytes(self, path: str) -> int:
        """The size of a file."""
        return int(self.fs.size(self.at(path)))

    def files(self, folder: str, suffix: str = "") -> list[str]:
        """Paths of all files below a folder, sorted; empty when there is no such folder."""
        top = self.at(folder)
        if not self.fs.exists(top):
            return []
        found = (PurePosixPath(name).relative_to(self.root) for name in self.fs.find(top))
        return sorted(str(name) for name in found if str(name).endswith(suffix))

    def remove(self, path: str) -> None:
        """Deletes a file that is there."""
        self.fs.rm_file(self.at(path))

    def sweep(self) -> None:
        """Deletes what an earlier, killed run was in the middle of writing."""
        for path in self.files("", TEMPORARY):
            self.remove(path)

    def read_bytes(self, path: str) -> bytes:
        """A file's content.

        Raises:
            StoreError: it is not there or cannot be read.
        """
        with self.translated(path, "read"):
            return bytes(self.fs.cat_file(self.at(path)))

    def read_table(self, path: str, columns: Sequence[str] | None = None, sha256: str | None = None) -> pa.Table:
        """A Parquet file's rows.

        Args:
            columns: read only these, where the file has them.
            sha256: what the whole file must hash to; None: not looked at.

        Raises:
            StoreError: missing, not Parquet, truncated, or of another checksum.
        """
        if sha256 is not None and self.describe(path).sha256 != sha256:
            raise StoreError(f"{self.at(path)} is not what was written: its checksum differs.", _REMAKE)
        with self._parquet(path) as file:
            there = set(file.schema_arrow.names)
            return file.read(columns=None if columns is None else [name for name in columns if name in there])

    def read_batches(self, path: str, n_rows: int) -> Iterator[pa.Table]:
        """A Parquet file's rows, at most `n_rows` at a time.

        Raises:
            StoreError: missing, not Parquet, or truncated.
        """
        with self._parquet(path) as file:
            for batch in file.iter_batches(n_rows):
                yield pa.Table.from_batches([batch])

    @contextmanager
    def _parquet(self, path: str) -> Iterator[pq.ParquetFile]:
        with self.translated(path, "read"), self.fs.open(self.at(path), "rb") as source:
            try:
                yield pq.ParquetFile(source)
            except (pa.ArrowException, OSError) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise  # the disk's own; what Arrow says of damaged content has no number
                raise StoreError(f"{self.at(path)} is not a whole Parquet file: {error}.", _REMAKE) from error

    def describe(self, path: str) -> Written:
        """The size and checksum of a file that is there."""
        with self.translated(path, "read"), self.fs.open(self.at(path), "rb") as source:
            sha256 = hashlib.file_digest(source, "sha256").hexdigest()
        return Written(path, self.n_bytes(path), sha256)

    def write_bytes(self, path: str, data: bytes) -> Written:
        """Writes a file whole or not at all."""
        with self.batch() as batch:
            return batch.write_bytes(path, data)

    def write_table(self, path: str, table: pa.Table) -> Written:
        """Writes a table as one Parquet file; the same table gives the same bytes."""
        with self.batch() as batch:
            return batch.write_table(path, table)

    @contextmanager
    def writing(self, path: str) -> Iterator[Any]:
        """A binary file that takes its name only when the block ends well."""
        with self.batch() as batch, batch.writing(path) as sink:
            yield sink

    @contextmanager
    def batch(self) -> Iterator["Batch"]:
        """Files that take their names when the block ends well, in the order in which they were written.

        All contents are on the disk before the first file takes its name, which takes hardly longer than for one file.

        Raises:
            StoreError: one cannot be written, or not be put on the disk. None of them is there then, unless it took the
                place of an older one: that has its old or its new content.
        """
        batch = Batch(self)
        try:
            yield batch
            batch.take_names()
        finally:
            batch.discard()

    @contextmanager
    def translated(self, path: str, doing: str) -> Iterator[None]:
        """Turns what the disk refuses in the block into a `StoreError` that names the file."""
        try:
            yield
        except OSError as error:
            remedy = _ROOM if error.errno in (errno.ENOSPC, errno.EDQUOT) else "Look at the folder's rights and disk."
            why = error.strerror or str(error)
            raise StoreError(f"Cannot {doing} {self.at(path)}: {why}.", remedy) from error


class Batch:
    """Files that are written beside their places and take their names together; `Store.batch` makes one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asides: list[tuple[str, str]] = []  # a file's path, and where its content is so far
        self._folders: dict[str, str] = {}  # those in which names change, with a path that is the reason

    def write_bytes(self, path: str, data: bytes) -> Written:
        """As `Store.write_bytes`."""
        with self.writing(path) as sink:
            sink.write(data)
        return Written(path, len(data), hashlib.sha256(data).hexdigest())

    def write_table(self, path: str, table: pa.Table) -> Written:
        """As `Store.write_table`."""
        sink = io.BytesIO()
        pq.write_table(table, sink, compression="zstd")
        return self.write_bytes(path, sink.getvalue())

    @contextmanager
    def writing(self, path: str) -> Iterator[Any]:
        """As `Store.writing`; the file takes its name at the end of the batch."""
        store, aside = self._store, f"{path}.{uuid.uuid4().hex}{TEMPORARY}"
        with store.translated(path, "write"):
            self._make_folder(path)
            try:
                with store.fs.open(store.at(aside), "wb") as sink:
                    yield sink
            except BaseException:
                self._remove(aside)
                raise
        self._asides.append((path, aside))

    def take_names(self) -> None:
        """Puts all contents on the disk, gives each file its name, and puts the names on the disk.

        Raises:
            StoreError: as `Store.batch`.
        """
        store, new = self._store, []
        for path, aside in self._asides:
            self._sync(store.at(aside), path)
        try:
            while self._asides:
                path, aside = self._asides[0]
                if not store.exists(path):
                    new.append(path)
                with store.translated(path, "write"):
                    store.fs.mv(store.at(aside), store.at(path))
                del self._asides[0]
            for folder, path in self._folders.items():
                self._sync(folder, path)
        except BaseException:
            for path in reversed(new):  # what says that others are there was written after them
                self._remove(path)
            raise

    def discard(self) -> None:
        """Removes what has not taken its name."""
        for _, aside in self._asides:
            self._remove(aside)

    def _make_folder(self, path: str) -> None:
        """Makes a file's folder, and notes in which folders there are new names: the file's, and those of folders."""
        folder = self._store.at(path).rpartition("/")[0]
        if self._is_local:
            above = Path(folder)
            self._folders.setdefault(folder, path)
            while not above.exists():
                above = above.parent
                self._folders.setdefault(str(above), path)
        self._store.fs.makedirs(folder, exist_ok=True)

    def _sync(self, place: str, path: str) -> None:
        """Puts a file's content, or a folder's names, on a local disk; other stores keep what they have taken."""
        if self._is_local:
            with self._store.translated(path, "write"):
                sync(place)

    def _remove(self, path: str) -> None:
        """Removes a file that may be there; where the disk refuses that too, its first error is the one to tell."""
        with suppress(OSError):
            if self._store.exists(path):
                self._store.remove(path)

    @property
    def _is_local(self) -> bool:
        return isinstance(self._store.fs, LocalFileSystem)


_TAKES_NO_SYNC: Final = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM, errno.ENOSYS}
"""What folders of some file systems say to such a request, or folders that may be written and not read."""


def sync(place: str | Path) -> None:
    """Puts a file's content, or the names in a folder, on the disk.

    Raises:
        OSError: the disk failed.
    """
    try:
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _TAKES_NO_SYNC or not Path(place).is_dir():
            raise


@contextmanager
def new_folder(out: str | Path) -> Iterator[Path]:
    """A folder to write into, which takes the name `out` only when the block ends well; else nothing of it is left.

    Raises:
        ConfigError: `out` is there already.
        StoreError: it cannot be written.
    """
    target = Path(out).expanduser()
    if target.exists():
        raise ConfigError(f"{out} is there already.", "Choose a folder that does not exist yet.")
    aside = target.with_name(target.name + TEMPORARY)
    try:
        shutil.rmtree(aside, ignore_errors=True)  # what a killed writer left
        aside.mkdir(parents=True)
        yield aside
        for each in (*aside.rglob("*"), aside):
            if not each.is_symlink():
                sync(each)
        aside.rename(target)
        sync(target.parent)
    except OSError as error:
        raise StoreError(
            f"Cannot write {out}: {error.strerror or error}.", "Look at its rights and its disk."
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


_REMAKE = "Remove the file and run the same command again; it makes what is missing."
_ROOM = "Make room on that disk and run the same command again; it goes on where it stopped."
