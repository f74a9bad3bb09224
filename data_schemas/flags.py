"""`flags.jsonl`: dialogues that people flagged, a line each with dialogue_id, reason and time."""

import json

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
