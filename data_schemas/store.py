"""Files of a dataset: written beside and renamed, read with their errors translated. fsspec underneath.

Everything else in `pipelines` names files by paths relative to a store's root, so that a bucket can take the place of
a folder. Today only local folders are tried.
"""

import errno
import hashlib
import io
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

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
    """A folder of files that are whole or not there."""

    def __init__(self, root: str) -> None:
        if "://" in root:
            raise ConfigError(f"{root} is no local folder.", "Only local folders can hold a dataset so far.")
        self.fs, self.root = fsspec.core.url_to_fs(root)

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
        with self._translated(path, "read"):
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
        with self._translated(path, "read"), self.fs.open(self.at(path), "rb") as source:
            try:
                yield pq.ParquetFile(source)
            except (pa.ArrowException, OSError) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise  # the disk's own; what Arrow says of damaged content has no number
                raise StoreError(f"{self.at(path)} is not a whole Parquet file: {error}.", _REMAKE) from error

    def describe(self, path: str) -> Written:
        """The size and checksum of a file that is there."""
        with self._translated(path, "read"), self.fs.open(self.at(path), "rb") as source:
            sha256 = hashlib.file_digest(source, "sha256").hexdigest()
        return Written(path, self.n_bytes(path), sha256)

    def write_bytes(self, path: str, data: bytes) -> Written:
        """Writes a file whole or not at all."""
        with self.writing(path) as sink:
            sink.write(data)
        return Written(path, len(data), hashlib.sha256(data).hexdigest())

    def write_table(self, path: str, table: pa.Table) -> Written:
        """Writes a table as one Parquet file; the same table gives the same bytes."""
        sink = io.BytesIO()
        pq.write_table(table, sink, compression="zstd")
        return self.write_bytes(path, sink.getvalue())

    @contextmanager
    def writing(self, path: str) -> Iterator[Any]:
        """A binary file that takes its name only when the block ends well."""
        beside = self.at(f"{path}.{uuid.uuid4().hex}{TEMPORARY}")
        with self._translated(path, "write"):
            self.fs.makedirs(beside.rpartition("/")[0], exist_ok=True)
            try:
                with self.fs.open(beside, "wb") as sink:
                    yield sink
                self.fs.mv(beside, self.at(path))
            except BaseException:
                if self.fs.exists(beside):
                    self.fs.rm_file(beside)
                raise

    @contextmanager
    def _translated(self, path: str, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            remedy = _ROOM if error.errno in (errno.ENOSPC, errno.EDQUOT) else "Look at the folder's rights and disk."
            why = error.strerror or str(error)
            raise StoreError(f"Cannot {doing} {self.at(path)}: {why}.", remedy) from error


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
        aside.rename(target)
    except OSError as error:
        raise StoreError(
            f"Cannot write {out}: {error.strerror or error}.", "Look at its rights and its disk."
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


_REMAKE = "Remove the file and run the same command again; it makes what is missing."
_ROOM = "Make room on that disk and run the same command again; it goes on where it stopped."
