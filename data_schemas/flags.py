"""`flags.jsonl`: dialogues flagged by people; each line has dialogue_id, reason and time."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from data_schemas.errors import DatasetError
from data_schemas.store import Store

FLAGS = "flags.jsonl"


def read_flagged(store: Store) -> dict[str, str]:
    """Returns the reasons of flagged dialogues by id; of several lines for one dialogue, the last counts.

    Without the file there are none. Flagged dialogues are excluded from the next shards and from training.

    Raises:
        DatasetError: if a line is not a valid flag.
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
                f"Line {number} of {FLAGS} is not a valid flag: {error}.",
                "Correct the line: it must be JSON with dialogue_id, reason and time.",
            ) from error
    return flags


def set_flag(store: Store, dialogue_id: str, reason: str) -> None:
    """Flags a dialogue with the current time; the reason replaces an earlier one. Whether it exists is not checked.

    The file is rewritten under a lock of the local dataset folder, for which this waits.

    Raises:
        DatasetError: if an existing line is not a valid flag.
        StoreError: if there is no such folder, or the file cannot be written.
    """
    time = datetime.now(UTC).isoformat(timespec="seconds")
    flag = {"dialogue_id": dialogue_id, "reason": reason, "time": time}
    with _lock_flags(store):
        _write(store, [*_read_lines_of_others(store, dialogue_id), json.dumps(flag, ensure_ascii=False).encode()])


def clear_flag(store: Store, dialogue_id: str) -> None:
    """Removes the flag of a dialogue, if it has one; locks and raises errors as `set_flag`."""
    with _lock_flags(store):
        if dialogue_id in read_flagged(store):
            _write(store, _read_lines_of_others(store, dialogue_id))


def _read_lines_of_others(store: Store, dialogue_id: str) -> list[bytes]:
    """Returns the lines of the file unchanged, without those of one dialogue."""
    read_flagged(store)  # raises for a line that cannot be read, which must not be lost
    lines = store.read_bytes(FLAGS).splitlines() if store.exists(FLAGS) else []
    return [each for each in lines if each.strip() and str(json.loads(each)["dialogue_id"]) != dialogue_id]


def _write(store: Store, lines: list[bytes]) -> None:
    """Replaces the file of flags by these lines."""
    store.write_bytes(FLAGS, b"".join(line + b"\n" for line in lines))


@contextmanager
def _lock_flags(store: Store) -> Iterator[None]:
    """Locks the dataset's folder in the block, after waiting for others, since two people may flag at the same time."""
    with store.translate_errors(FLAGS, "lock"):
        folder = os.open(store.root, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
