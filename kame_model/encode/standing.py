"""Which files of a folder of token rows stand: a record beside each says that it is whole, and what it must hash to."""

from pydantic import ValidationError

from data_schemas.config.base import Config
from data_schemas.errors import StoreError
from data_schemas.store import Store, Written
from kame_model.encode.manifest import Counts, TokenFile

RECORD = ".json"


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
