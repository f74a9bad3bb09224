"""A folder of token rows while it is written: held by one run at a time, and made in one way, which a file in it tells.

A record beside each file says that it stands whole, and what it must hash to.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import ValidationError

from data_schemas.config.base import Config
from data_schemas.errors import ConfigError, StoreError
from data_schemas.store import TEMPORARY, Store, Written
from kame_model.encode.manifest import Counts, TokenFile, TokenManifest

LOCK = ".lock"
MADE_WITH = "made_with.json"
TOKENIZER = "tokenizer.model"
RECORD = ".json"
_OURS = re.compile(r"/[a-z]+-[a-z0-9_]+-[0-9a-f]{16}\.arrow(\.json)?$")


class Record(Config):
    """What was written to a file, and what was counted while it was made."""

    file: TokenFile
    counts: Counts


def put_record(store: Store, written: Written, n_rows: int, counts: Counts) -> Record:
    """Records that a file stands; from now on no run makes it again."""
    file = TokenFile(path=written.path, n_rows=n_rows, n_bytes=written.n_bytes, sha256=written.sha256)
    record = Record(file=file, counts=counts)
    store.write_bytes(written.path + RECORD, (record.model_dump_json() + "\n").encode())
    return record


def find_record(store: Store, path: str) -> Record | None:
    """The record of a file that stands as it was written; None where it is missing or no longer the same.

    Raises:
        StoreError: the record itself is damaged.
    """
    if not (store.exists(path) and store.exists(path + RECORD)):
        return None
    try:
        record = Record.model_validate_json(store.read_bytes(path + RECORD))
    except ValidationError as error:
        raise StoreError(f"{store.at(path + RECORD)} is damaged.", "Remove it and run again.") from error
    return record if store.describe(path).sha256 == record.file.sha256 else None


@contextmanager
def claim_folder(out: str, name: str, by: Config) -> Iterator[Store]:
    """The folder, held for the time of the block, and swept of what a killed run was in the middle of writing.

    Args:
        name: of the file that tells what the folder's rows are made with; written where there is none.
        by: what it must tell.

    Raises:
        ConfigError: it holds something else, or rows that are made with something else.
        StoreError: another run holds it, or it cannot be written.
    """
    store = Store(out)
    folder = Path(store.root)
    if not store.exists(name) and _has_other_files(folder):
        raise ConfigError(f"{out} is not empty and holds no token rows of this kind ({name}).", "Choose another --out.")
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise StoreError(f"Another run is writing {out}.", "Wait for it, or choose another --out.") from error
    except OSError as error:
        raise StoreError(f"Cannot write {out}: {error.strerror or error}.", "Look at its rights and disk.") from error
    try:
        _check_made_with(store, name, by)
        store.sweep()
        yield store
    finally:
        lock.release()


def remove_superseded(store: Store, manifest: TokenManifest) -> None:
    """Removes files that are ours by their name and that the manifest does not list."""
    listed = {file.path for shard in manifest.shards for file in (shard.codes, shard.rows)}
    for kind in ("codes", "rows"):
        for path in store.files(kind):
            if path.removesuffix(RECORD) not in listed and _OURS.search(path):
                store.remove(path)


def _has_other_files(folder: Path) -> bool:
    """Whether anything is there but what a run leaves that is killed before it has said what it is made with."""
    there = folder.iterdir() if folder.is_dir() else ()
    return any(each.name != LOCK and not each.name.endswith(TEMPORARY) for each in there)


def _check_made_with(store: Store, name: str, by: Config) -> None:
    if not store.exists(name):
        store.write_bytes(name, (by.model_dump_json(indent=1) + "\n").encode())
        return
    try:
        there = type(by).model_validate_json(store.read_bytes(name))
    except ValidationError as error:
        raise StoreError(
            f"{store.at(name)} is damaged, or of an older kame.", "Remove the folder and run again."
        ) from error
    other = [
        f"{field} {getattr(there, field)}, not {getattr(by, field)}"
        for field in type(by).model_fields
        if getattr(there, field) != getattr(by, field)
    ]
    if other:
        raise ConfigError(f"{store.root} was made with other settings: {'; '.join(other)}.", _ANOTHER)


_ANOTHER = "Choose another --out, or the settings that it was made with."
