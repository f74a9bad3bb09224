"""What is left in a dataset's store of recordings that are gone: found, and removed."""

import json
from collections.abc import Sequence
from typing import Any

from backends.chat.cache import ReplyCache
from data_schemas.records import Item
from data_schemas.store import Store
from pipelines.run.chat_stages import ANSWERS
from pipelines.run.execute import FOLDER, ITEMS, Part, Runner
from pipelines.run.stages import ORACLE


def forget(store: Store, source: str, parts: Sequence[Part]) -> None:
    """Removes the outputs in which something of a session stands that is in no part now, and the answers behind them.

    Outputs of other oracle versions stay where all their sessions do.
    """
    runner = Runner(store)
    here = {item.item_id for part in parts for item in runner.read(part, ITEMS, Item)}
    gone: list[str] = []
    forgotten: set[str] = set()
    kept: set[str] = set()
    for path in store.files(FOLDER, ".parquet"):
        if _source_of(path) == source:
            requests = _request_ids(store, path)
            if store.exists(_record_of(path)) and _sessions_of(store, path) <= here:
                kept |= requests
            else:
                forgotten |= requests
                gone.append(path)
    if forgotten - kept:
        with ReplyCache(store.at(ANSWERS)) as cache:
            cache.forget(forgotten - kept)
    for path in gone:
        if store.exists(_record_of(path)):
            store.remove(_record_of(path))  # first: an output without a record counts for nothing, and is found here
        store.remove(path)


def _source_of(path: str) -> str:
    """The source of a part's file: parts are called `<source>-<split>-p<number>`."""
    return path.removeprefix(f"{FOLDER}/").partition("/")[0].rsplit("-", 2)[0]


def _record_of(path: str) -> str:
    return f"{path.removesuffix('.parquet')}.json"


def _sessions_of(store: Store, path: str) -> set[str]:
    """The items of which something stands in an output or among its rejects."""
    table = store.read_table(path, ["item_id", "dialogue_id"])
    if "item_id" in table.column_names:
        ids: set[str] = set(table["item_id"].to_pylist())
    else:
        ids = {dialogue_id.rpartition("-v")[0] for dialogue_id in table["dialogue_id"].to_pylist()}
    record: dict[str, Any] = json.loads(store.read_bytes(_record_of(path)))
    return ids | {reject["item_id"] for reject in record["rejects"]}


def _request_ids(store: Store, path: str) -> set[str]:
    """The requests whose answers stand in an output, where it is one of oracles."""
    if not path.rpartition("/")[2].startswith(f"{ORACLE}-"):
        return set()
    rows = store.read_table(path, ["events"])["events"].to_pylist()
    return {event["request_id"] for events in rows for event in events if event["request_id"] is not None}
