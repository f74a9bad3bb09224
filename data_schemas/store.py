"""Atomic reading and writing of a dataset's files, based on fsspec: written to a temporary file, then renamed.

On a local disk, a file's content is synced (fsync) before it is renamed, and its name before any file that refers to
it: after a power failure or a kill, a file is complete or absent.

All other code in `pipelines` uses paths relative to a store's root. A dataset in a bucket is read directly from there
(`data_schemas.buckets`); it is created in a local folder that is then uploaded (`pipelines.run.mirror`).
"""

import errno
import fcntl
import glob
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
"""Suffix of incomplete files; a run deletes those of an earlier run that was killed."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A complete file: its path in the store, its size and its checksum."""

    path: str
    n_bytes: int
    sha256: str


class Store:
    """A folder whose files are written atomically; it is created with the first file, if it does not exist.

    Args:
        root: a local folder; or, with `fs`, a folder of that file system.
        fs: file system to read from, if it is not the local one.

    Raises:
        ConfigError: if `root` is a URL.
    """

    def __init__(self, root: str, fs: AbstractFileSystem | None = None) -> None:
        if "://" in root:
            raise ConfigError(
                f"{root} is not a local folder.",
                "Choose a local folder; only datasets of `kame refresh` can be in a bucket.",
            )
        self.fs: AbstractFileSystem
        self.root: str
        self.fs, self.root = fsspec.core.url_to_fs(root) if fs is None else (fs, root)

    def resolve_path(self, path: str) -> str:
        """Returns the full path of a file or folder of this store; an empty path is the root."""
        return f"{self.root}/{path}" if path else str(self.root)

    def exists(self, path: str) -> bool:
        """Whether a file or folder exists."""
        return bool(self.fs.exists(self.resolve_path(path)))

    def get_size(self, path: str) -> int:
        """Returns the size of a file in bytes.

        Raises:
            FileNotFoundError: if it does not exist.
        """
        return int(self.fs.size(self.resolve_path(path)))

    def list_files(self, folder: str, suffix: str = "") -> list[str]:
        """Returns the sorted paths, relative to the root, of all files at any depth below a folder, with this suffix.

        Temporary files are included. The list is empty if there is no such folder.
        """
        top = self.resolve_path(folder)
        if not self.fs.exists(top):
            return []
        found = (PurePosixPath(name).relative_to(self.root) for name in self.fs.find(top))
        return sorted(str(name) for name in found if str(name).endswith(suffix))

    def remove(self, path: str) -> None:
        """Deletes an existing file.

        Raises:
            StoreError: it does not exist or cannot be deleted.
        """
        with self.translate_errors(path, "remove"):
            self.fs.rm_file(self.resolve_path(path))

    def sweep(self) -> None:
        """Deletes all temporary files, which killed runs have left. No other process may be writing to this store."""
        for path in self.list_files("", TEMPORARY):
            self.remove(path)

    def read_bytes(self, path: str) -> bytes:
        """Returns the content of a file.

        Raises:
            StoreError: if it does not exist or cannot be read.
        """
        with self.translate_errors(path, "read"):
            return bytes(self.fs.cat_file(self.resolve_path(path)))

    def read_table(self, path: str, columns: Sequence[str] | None = None, sha256: str | None = None) -> pa.Table:
        """Returns the rows of a Parquet file.

        Args:
            columns: read only these, if the file has them.
            sha256: expected checksum of the whole file; None: not checked.

        Raises:
            StoreError: if it is missing, truncated or not Parquet, or its checksum differs.
        """
        if sha256 is not None and self.describe(path).sha256 != sha256:
            raise StoreError(
                f"{self.resolve_path(path)} has changed since it was written: its checksum differs.", _REMAKE
            )
        with self._open_parquet(path) as file:
            there = set(file.schema_arrow.names)
            return file.read(columns=None if columns is None else [name for name in columns if name in there])

    def read_batches(self, path: str, n_rows: int) -> Iterator[pa.Table]:
        """Iterates over the rows of a Parquet file, at most `n_rows` at a time.

        Raises:
            StoreError: if it is missing, truncated or not Parquet.
        """
        with self._open_parquet(path) as file:
            for batch in file.iter_batches(n_rows):
                yield pa.Table.from_batches([batch])

    @contextmanager
    def _open_parquet(self, path: str) -> Iterator[pq.ParquetFile]:
        """Opens a Parquet file for the duration of the block.

        Raises:
            StoreError: if it is missing, truncated or not Parquet, also if this is noticed in the block.
        """
        with self.translate_errors(path, "read"), self.fs.open(self.resolve_path(path), "rb") as source:
            try:
                yield pq.ParquetFile(source)
            except (pa.ArrowException, OSError) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise  # an error of the disk; Arrow's errors about damaged content have no errno
                raise StoreError(
                    f"{self.resolve_path(path)} is not a complete Parquet file: {error}.", _REMAKE
                ) from error

    def describe(self, path: str) -> WrittenFile:
        """Returns the size and checksum of an existing file.

        Raises:
            StoreError: if it cannot be read.
        """
        with self.translate_errors(path, "read"), self.fs.open(self.resolve_path(path), "rb") as source:
            sha256 = hashlib.file_digest(source, "sha256").hexdigest()
        return WrittenFile(path, self.get_size(path), sha256)

    def write_bytes(self, path: str, data: bytes) -> WrittenFile:
        """Writes or replaces a file atomically, creates its folders, and returns its size and checksum.

        Raises:
            StoreError: as `open_batch`.
        """
        with self.open_batch() as batch:
            return batch.write_bytes(path, data)

    def write_table(self, path: str, table: pa.Table) -> WrittenFile:
        """Writes a table to a Parquet file, as `write_bytes`; the same table becomes the same bytes.

        Raises:
            StoreError: as `open_batch`.
        """
        with self.open_batch() as batch:
            return batch.write_table(path, table)

    @contextmanager
    def open_for_writing(self, path: str) -> Iterator[Any]:
        """Opens a binary file for writing, which gets its name, or replaces an existing file, if the block succeeds.

        Raises:
            StoreError: as `open_batch`; any other OSError in the block also becomes one.
        """
        with self.open_batch() as batch, batch.open_for_writing(path) as sink:
            yield sink

    @contextmanager
    def open_batch(self) -> Iterator["WriteBatch"]:
        """Opens a batch: files that are written in the block get their names at its end, in the order of writing.

        All contents are synced to the disk before the first rename. If the block raises an error, no file changes.

        Raises:
            StoreError: if a file cannot be written or synced. Then no new file exists, and a file that was to be
                replaced has its old or its new content.
        """
        batch = WriteBatch(self)
        try:
            yield batch
            batch.rename_files()
        finally:
            batch.discard()

    @contextmanager
    def translate_errors(self, path: str, doing: str) -> Iterator[None]:
        """Converts an OSError in the block to a `StoreError`: `Cannot DOING PATH`, and why."""
        try:
            yield
        except OSError as error:
            remedy = (
                _ROOM if error.errno in (errno.ENOSPC, errno.EDQUOT) else "Check the folder's permissions and the disk."
            )
            why = error.strerror or str(error)
            raise StoreError(f"Cannot {doing} {self.resolve_path(path)}: {why}.", remedy) from error


class WriteBatch:
    """Files that are written to temporary files and renamed one after another; `Store.open_batch` makes one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asides: list[tuple[str, str]] = []  # a file's path, and its temporary file
        self._folders: dict[str, str] = {}  # folders in which names change, each with a path for error messages

    def write_bytes(self, path: str, data: bytes) -> WrittenFile:
        """Writes a file under a temporary name; returns its size and checksum."""
        with self.open_for_writing(path) as sink:
            sink.write(data)
        return WrittenFile(path, len(data), hashlib.sha256(data).hexdigest())

    def write_table(self, path: str, table: pa.Table) -> WrittenFile:
        """Writes a table to a Parquet file under a temporary name; returns its size and checksum."""
        sink = io.BytesIO()
        pq.write_table(table, sink, compression="zstd")
        return self.write_bytes(path, sink.getvalue())

    @contextmanager
    def open_for_writing(self, path: str) -> Iterator[Any]:
        """Opens a binary file for writing, under a temporary name until the end of the batch."""
        store, aside = self._store, f"{path}.{uuid.uuid4().hex}{TEMPORARY}"
        with store.translate_errors(path, "write"):
            self._make_folder(path)
            try:
                with store.fs.open(store.resolve_path(aside), "wb") as sink:
                    yield sink
            except BaseException:
                self._remove(aside)
                raise
        self._asides.append((path, aside))

    def rename_files(self) -> None:
        """Syncs all contents to the disk, renames each file, and syncs the folders.

        If that fails, files that did not exist before are removed again; files already replaced stay replaced.

        Raises:
            StoreError: as `Store.open_batch`.
        """
        store, new = self._store, []
        for path, aside in self._asides:
            self._sync(store.resolve_path(aside), path)
        try:
            while self._asides:
                path, aside = self._asides[0]
                if not store.exists(path):
                    new.append(path)
                with store.translate_errors(path, "write"):
                    store.fs.mv(store.resolve_path(aside), store.resolve_path(path))
                del self._asides[0]
            for folder, path in self._folders.items():
                self._sync(folder, path)
        except BaseException:
            for path in reversed(new):  # files that refer to others were written after them
                self._remove(path)
            raise

    def discard(self) -> None:
        """Deletes all temporary files that have not been renamed; errors are ignored."""
        for _, aside in self._asides:
            self._remove(aside)

    def _make_folder(self, path: str) -> None:
        """Creates a file's folder, and records each folder that gets a new entry, to sync it later."""
        folder = self._store.resolve_path(path).rpartition("/")[0]
        if self._is_local:
            above = Path(folder)
            self._folders.setdefault(folder, path)
            while not above.exists():
                above = above.parent
                self._folders.setdefault(str(above), path)
        self._store.fs.makedirs(folder, exist_ok=True)

    def _sync(self, place: str, path: str) -> None:
        """Syncs a file or folder to a local disk; other file systems need no sync."""
        if self._is_local:
            with self._store.translate_errors(path, "write"):
                sync(place)

    def _remove(self, path: str) -> None:
        """Deletes a file if it exists; errors are ignored, so that the first error is reported."""
        with suppress(OSError, StoreError):
            if self._store.exists(path):
                self._store.remove(path)

    @property
    def _is_local(self) -> bool:
        return isinstance(self._store.fs, LocalFileSystem)


_SYNC_NOT_SUPPORTED: Final = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM, errno.ENOSYS}
"""Errors of fsync on folders of some file systems, or on folders without read permission."""


def sync(place: str | Path) -> None:
    """Syncs a file's content, or the entries of a folder, to the disk (fsync).

    A file system that cannot sync folders is not an error.

    Raises:
        OSError: if it does not exist, cannot be opened, or the disk failed.
    """
    try:
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _SYNC_NOT_SUPPORTED or not Path(place).is_dir():
            raise


@contextmanager
def create_folder(out: str | Path) -> Iterator[Path]:
    """Creates a folder and yields its temporary path; it gets the name `out` if the block succeeds, else it is deleted.

    Folders above it are created. What killed processes have written for the same `out` is deleted; what running ones
    write is left, and the first to end gets the name.

    Raises:
        ConfigError: if `out` already exists, before or after the block.
        StoreError: if it cannot be written; any OSError in the block also becomes one.
    """
    target = Path(out).expanduser()
    _check_absent(target)
    aside = target.with_name(f"{target.name}.{uuid.uuid4().hex}{TEMPORARY}")
    try:
        for left in target.parent.glob(f"{glob.escape(target.name)}{TEMPORARY[0]}*{TEMPORARY[1:]}"):
            with suppress(OSError), _lock_folder(left) as is_locked:
                if is_locked:
                    shutil.rmtree(left, ignore_errors=True)
        aside.mkdir(parents=True)
        with _lock_folder(aside):
            yield aside
            for each in (*aside.rglob("*"), aside):
                if not each.is_symlink():
                    sync(each)
            _check_absent(target)
            aside.rename(target)
        sync(target.parent)
    except OSError as error:
        raise StoreError(
            f"Cannot write {out}: {error.strerror or error}.", "Check its permissions and the disk."
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _check_absent(target: Path) -> None:
    """Raises a `ConfigError` if a file or folder of this name exists."""
    if target.exists():
        raise ConfigError(f"{target} already exists.", "Choose a folder that does not exist yet.")


@contextmanager
def _lock_folder(folder: Path) -> Iterator[bool]:
    """Locks a folder in the block, and yields whether it is locked: not if a process has, or if no folder can be."""
    descriptor, is_locked = os.open(folder, os.O_RDONLY), False
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = True
        yield is_locked
    finally:
        os.close(descriptor)


_REMAKE = "Remove the file and run the same command again; it makes what is missing."
_ROOM = "Free space on that disk and run the same command again; it resumes where it stopped."
