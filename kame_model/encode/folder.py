"""Writes a folder of token rows: only one run at a time (lock), and only with the settings recorded in the folder.

A record beside each file marks it as complete and holds its checksum.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import ValidationError

from data_schemas.config.base import Config
from data_schemas.errors import ConfigError, StoreError
from data_schemas.store import TEMPORARY, Store, WrittenFile
from kame_model.encode.manifest import RowCounts, TokenFile, TokenManifest

LOCK = ".lock"
MADE_WITH = "made_with.json"
TOKENIZER = "tokenizer.model"
RECORD = ".json"
_OURS = re.compile(r"/[a-z]+-[a-z0-9_]+-[0-9a-f]{16}\.arrow(\.json)?$")


class Record(Config):
    """The rows, size and checksum of a written file, with the counts of what was dropped."""

    file: TokenFile
    counts: RowCounts


def write_record(store: Store, written: WrittenFile, n_rows: int, counts: RowCounts) -> Record:
    """Writes the record of a file, which marks it as complete, so that later runs reuse it; returns the record."""
    file = TokenFile(path=written.path, n_rows=n_rows, n_bytes=written.n_bytes, sha256=written.sha256)
    record = Record(file=file, counts=counts)
    store.write_bytes(written.path + RECORD, (record.model_dump_json() + "\n").encode())
    return record


def find_record(store: Store, path: str) -> Record | None:
    """Returns the record of a complete file; None if the file or its record is missing, or the file has changed.

    Raises:
        StoreError: the record itself is damaged.
    """
    if not (store.exists(path) and store.exists(path + RECORD)):
        return None
    try:
        record = Record.model_validate_json(store.read_bytes(path + RECORD))
    except ValidationError as error:
        raise StoreError(f"{store.resolve_path(path + RECORD)} is damaged.", "Remove it and run again.") from error
    return record if store.describe(path).sha256 == record.file.sha256 else None


@contextmanager
def claim_folder(out: str, name: str, by: Config, wait_s: float = 0.0) -> Iterator[Store]:
    """Locks a folder of token rows during the `with` block, and yields its store.

    The folder is created if necessary, and temporary files of killed runs are removed.

    Args:
        out: the folder.
        name: name of the file that records the settings of the folder's rows; it is written if it does not exist.
        by: the settings that it must record.
        wait_s: maximum time to wait for another run that has locked it, in seconds.

    Raises:
        ConfigError: the folder holds something else, or rows made with other settings.
        StoreError: another run has locked the folder, it cannot be written, or its recorded settings are damaged.
    """
    store = Store(out)
    folder = Path(store.root)
    if not store.exists(name) and _has_other_files(folder):
        raise ConfigError(f"{out} is not empty and holds no token rows of this kind ({name}).", "Choose another --out.")
    lock = FileLock(folder / LOCK, timeout=wait_s)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise StoreError(f"Another run is writing {out}.", "Wait for it, or choose another --out.") from error
    except OSError as error:
        raise StoreError(f"Cannot write {out}: {error.strerror or error}.", "Check permissions and disk.") from error
    try:
        _check_made_with(store, name, by)
        store.sweep()
        yield store
    finally:
        lock.release()


def remove_superseded(store: Store, manifest: TokenManifest) -> None:
    """Removes files of codes and rows that the manifest does not list, with their records."""
    listed = {file.path for shard in manifest.shards for file in (shard.codes, shard.rows)}
    for kind in ("codes", "rows"):
        for path in store.list_files(kind):
            if path.removesuffix(RECORD) not in listed and _OURS.search(path):
                store.remove(path)


def _has_other_files(folder: Path) -> bool:
    """Returns whether the folder holds more than the lock and temporary files, which a killed run leaves."""
    there = folder.iterdir() if folder.is_dir() else ()
    return any(each.name != LOCK and not each.name.endswith(TEMPORARY) for each in there)


def _check_made_with(store: Store, name: str, by: Config) -> None:
    """Records the settings if the folder has none; raises ConfigError if it records others, StoreError if damaged."""
    if not store.exists(name):
        store.write_bytes(name, (by.model_dump_json(indent=1) + "\n").encode())
        return
    try:
        there = type(by).model_validate_json(store.read_bytes(name))
    except ValidationError as error:
        raise StoreError(
            f"{store.resolve_path(name)} is damaged or of an older version of kame.", "Remove the folder and run again."
        ) from error
    other = [
        f"{field} {getattr(there, field)}, not {getattr(by, field)}"
        for field in type(by).model_fields
        if getattr(there, field) != getattr(by, field)
    ]
    if other:
        raise ConfigError(f"{store.root} was made with other settings: {'; '.join(other)}.", _ANOTHER)


_ANOTHER = "Choose another folder with --out, or use the settings that it was made with."
