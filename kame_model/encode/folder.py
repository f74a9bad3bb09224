"""Whose folder of token rows it is: held by one run at a time, of one codec and one tokenizer."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import ValidationError

from data_schemas.errors import ConfigError, StoreError
from data_schemas.store import TEMPORARY, Store
from kame_model.encode.manifest import MadeWith, TokenManifest
from kame_model.encode.standing import RECORD

LOCK = ".lock"
MADE_WITH = "made_with.json"
TOKENIZER = "tokenizer.model"
_OURS = re.compile(r"/[a-z]+-[a-z0-9_]+-[0-9a-f]{16}\.arrow(\.json)?$")


@contextmanager
def claimed(out: str, by: MadeWith) -> Iterator[Store]:
    """The folder, held for the time of the block, and swept of what a killed run was in the middle of writing.

    Raises:
        ConfigError: it holds something else, or rows of another codec or tokenizer.
        StoreError: another run holds it, or it cannot be written.
    """
    store = Store(out)
    folder = Path(store.root)
    if not store.exists(MADE_WITH) and _holds_others(folder):
        raise ConfigError(f"{out} is not empty and holds no token rows.", "Choose another --out.")
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise StoreError(f"Another run is writing {out}.", "Wait for it, or choose another --out.") from error
    except OSError as error:
        raise StoreError(f"Cannot write {out}: {error.strerror or error}.", "Look at its rights and disk.") from error
    try:
        _agree(store, by)
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


def _holds_others(folder: Path) -> bool:
    """Whether anything is there but what a run leaves that is killed before it has said what it is made with."""
    there = folder.iterdir() if folder.is_dir() else ()
    return any(each.name != LOCK and not each.name.endswith(TEMPORARY) for each in there)


def _agree(store: Store, by: MadeWith) -> None:
    if not store.exists(MADE_WITH):
        store.write_bytes(MADE_WITH, (by.model_dump_json(indent=1) + "\n").encode())
        return
    try:
        there = MadeWith.model_validate_json(store.read_bytes(MADE_WITH))
    except ValidationError as error:
        raise StoreError(f"{store.at(MADE_WITH)} is damaged.", "Remove the folder and run again.") from error
    other = [
        f"{name} {getattr(there, name)}, not {getattr(by, name)}"
        for name in MadeWith.model_fields
        if getattr(there, name) != getattr(by, name)
    ]
    if other:
        raise ConfigError(f"{store.root} was made with another codec or tokenizer: {'; '.join(other)}.", _ANOTHER)


_ANOTHER = "Choose another --out: rows of two kinds of tokens cannot be trained on together."
