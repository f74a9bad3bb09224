"""`flags.jsonl`: dialogues that people flagged, a line each with dialogue_id, reason and time."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from data_schemas.errors import DatasetError
from data_schemas.store import Store

FLAGS = "flags.jsonl"


def flagged(store: Store) -> dict[str, str]:
    """Flagged dialogues with their reasons; they are left out of the next shards and of training.

    Raises:
        DatasetError: a line is not a flag.
    """
    if not store.exists(FLAGS):
        return {}
    flags = {}
    for number, line in enumerate(store.read_bytes(FLAGS).splitlines(), 1):
        if not line.strip():
            continue
        try:
            flag = json.loads(line)
            flags[str(flag["dialogue_id"])] = str(flag["reason"])
        except (ValueError, KeyError, TypeError) as error:
            raise DatasetError(
                f"Line {number} of {FLAGS} is no flag: {error}.", "Each line: dialogue_id, reason, time as JSON."
            ) from error
    return flags


def set_flag(store: Store, dialogue_id: str, reason: str) -> None:
    """Flags a dialogue, now; the reason takes the place of an earlier one.

    Raises:
        DatasetError: a line that is there is not a flag.
        StoreError: the file cannot be written.
    """
    time = datetime.now(UTC).isoformat(timespec="seconds")
    flag = {"dialogue_id": dialogue_id, "reason": reason, "time": time}
    with _locked(store):
        _write(store, [*_lines_of_others(store, dialogue_id), json.dumps(flag, ensure_ascii=False).encode()])


def clear_flag(store: Store, dialogue_id: str) -> None:
    """Takes a dialogue's flag away, if it has one; raises as `set_flag` does."""
    with _locked(store):
        if dialogue_id in flagged(store):
            _write(store, _lines_of_others(store, dialogue_id))


def _lines_of_others(store: Store, dialogue_id: str) -> list[bytes]:
    """The file's lines, as they are, but one dialogue's."""
    flagged(store)  # a line that cannot be read is not thrown away
    lines = store.read_bytes(FLAGS).splitlines() if store.exists(FLAGS) else []
    return [each for each in lines if each.strip() and str(json.loads(each)["dialogue_id"]) != dialogue_id]


def _write(store: Store, lines: list[bytes]) -> None:
    store.write_bytes(FLAGS, b"".join(line + b"\n" for line in lines))


@contextmanager
def _locked(store: Store) -> Iterator[None]:
    """The dataset's folder is locked while its flags are read and written anew: two people flag at once."""
    with store.translated(FLAGS, "lock"):
        folder = os.open(store.root, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
