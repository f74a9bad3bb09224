"""Makes a dataset of recordings: the steps of a refresh, with one stage in place of its first six.

    plan ─ parts ─▶ mixing (`RecordingsStage`) ─▶ oracle ─▶ compact ─▶ publish

The dataset mirrors the folder of recordings: when a session is deleted there, the next run removes its audio, its
words, and the cached answers of chat models from the run's own store.
"""

import json
from collections.abc import Sequence
from typing import Any

from backends import registry
from backends.chat.postgres_cache import open_reply_cache
from data_schemas.config import RefreshConfig
from data_schemas.errors import ConfigError, SourceError, StoreError
from data_schemas.manifest import Manifest, ShardEntry
from data_schemas.reader import read_manifest_if_any
from data_schemas.records import Item
from data_schemas.store import Store
from pipelines.figures import Figures
from pipelines.recordings.reading import open_recordings_folder, read_recordings, read_session_texts
from pipelines.recordings.stage import RecordingsStage
from pipelines.run.execute import Runner, locate_answers
from pipelines.run.parts import FOLDER, ITEMS, Part, PartRecord
from pipelines.run.plan import RunPlan, check_folder, collect_rejects, make_plan
from pipelines.run.publish import publish
from pipelines.run.stages import MIXING, ORACLE, cache_last_result, describe_chat_stage
from pipelines.stage import StageDescription

STAGES = (MIXING, ORACLE)
"""The stages of such a run, in order."""


def check_request(config: RefreshConfig) -> None:
    """Checks the request like `plan.check_request`, for folders of recordings.

    Raises:
        ConfigError, DatasetError: as there; or there is not exactly one source, or a chat model for a stage that is not
            run.
        SourceError: the folder does not exist, or neither it nor the dataset has a recording.
    """
    if len(config.sources) != 1 or config.pictures is not None or config.wording is not None:
        raise ConfigError(
            "A dataset of recordings is made of exactly one folder, without the settings `pictures` and `wording`.",
            "Remove these settings and other folders.",
        )
    (source,) = config.sources
    before = read_manifest_if_any(Store(config.out))
    is_known = before is not None and any(entry.source == source.name for entry in before.shards)
    if not is_known and not open_recordings_folder(source).list_files("", ".parquet"):
        raise SourceError(f"{source.path} holds no recordings.", "Give the folder of `kame serve --record`.")
    _make_stages(config)
    check_folder(config)


def plan(config: RefreshConfig) -> RunPlan:
    """Reads the recordings, records parts and items, and returns the plan of a run over them, as `make_plan` does."""
    return make_plan(config, read_recordings, _make_stages(config))


def run_on_part(config: RefreshConfig, stage: str, part: Part) -> PartRecord:
    """Runs the stage for recordings on one part in this process, unless its output can be used; returns its record."""
    assert stage == MIXING
    return Runner(Store(config.out)).run(part, _make_recordings_stage(config))


def publish_and_forget(config: RefreshConfig, plan: RunPlan, entries: Sequence[ShardEntry]) -> tuple[Manifest, Figures]:
    """Publishes the dataset and the consents of its callers, then deletes data of recordings that were removed.

    Deleted are the stages' outputs and all cached answers to requests about these recordings.
    """
    manifest, figures = publish(config, entries, collect_rejects(config, plan))
    _write_consents(config)
    _remove_deleted_sessions(config, config.sources[0].name, plan.parts)
    return manifest, figures


def _make_stages(config: RefreshConfig) -> dict[str, StageDescription]:
    """Returns the descriptions of the stages in `STAGES`, by name; no chat model is started."""
    return {MIXING: _make_recordings_stage(config), ORACLE: describe_chat_stage(config, ORACLE)}


@cache_last_result
def _make_recordings_stage(config: RefreshConfig) -> RecordingsStage:
    """Makes the stage for recordings with the configured aligner; the last one is kept."""
    aligner = registry.build("aligner", config.alignment.aligner, config.alignment.aligner_options)
    return RecordingsStage(open_recordings_folder(config.sources[0]), config.alignment, aligner, config.seed)


def _write_consents(config: RefreshConfig) -> None:
    """Writes `consents/<source>.jsonl`, a line per readable session: the notice the caller heard, when they agreed."""
    (source,) = config.sources
    agreed = [
        text for _, text in read_session_texts(open_recordings_folder(source)) if not isinstance(text, StoreError)
    ]
    lines = (
        {"session_id": each.session_id, "consented_at": each.consented_at, "notice": each.notice} for each in agreed
    )
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    Store(config.out).write_bytes(f"consents/{source.name}.jsonl", text.encode())


def _remove_deleted_sessions(config: RefreshConfig, source: str, parts: Sequence[Part]) -> None:
    """Removes stage outputs with data of sessions that are in none of these parts, and cached answers in their events.

    Outputs without a record are removed too; those of other oracle versions are kept if all their sessions still exist.
    """
    store = Store(config.out)
    runner = Runner(store)
    here = {item.item_id for part in parts for item in runner.read(part, ITEMS, Item)}
    gone: list[str] = []
    forgotten: set[str] = set()
    kept: set[str] = set()
    for path in store.list_files(FOLDER, ".parquet"):
        if _get_source(path) == source:
            requests = _read_request_ids(store, path)
            if store.exists(_make_record_path(path)) and _read_item_ids(store, path) <= here:
                kept |= requests
            else:
                forgotten |= requests
                gone.append(path)
    if forgotten - kept:
        with open_reply_cache(locate_answers(config)) as cache:
            cache.forget(forgotten - kept)
    for path in gone:
        if store.exists(_make_record_path(path)):
            # first, since an output without a record is not used, and the next run finds it here
            store.remove(_make_record_path(path))
        store.remove(path)


def _get_source(path: str) -> str:
    """Returns the source of a part's file, from its path; parts are named `<source>-<split>-p<number>`."""
    return path.removeprefix(f"{FOLDER}/").partition("/")[0].rsplit("-", 2)[0]


def _make_record_path(path: str) -> str:
    """Returns the path of the record of a stage's output."""
    return f"{path.removesuffix('.parquet')}.json"


def _read_item_ids(store: Store, path: str) -> set[str]:
    """Returns the item ids of the sessions that an output or its rejects contain."""
    table = store.read_table(path, ["item_id", "dialogue_id"])
    if "item_id" in table.column_names:
        ids: set[str] = set(table["item_id"].to_pylist())
    else:
        ids = {dialogue_id.rpartition("-v")[0] for dialogue_id in table["dialogue_id"].to_pylist()}
    record: dict[str, Any] = json.loads(store.read_bytes(_make_record_path(path)))
    return ids | {reject["item_id"] for reject in record["rejects"]}


def _read_request_ids(store: Store, path: str) -> set[str]:
    """Returns the ids of all requests of the oracle stage for a part that were answered; empty for other stages.

    Most are in the output; those of answers that were not kept are in its record.
    """
    if not path.rpartition("/")[2].startswith(f"{ORACLE}-"):
        return set()
    rows = store.read_table(path, ["events"])["events"].to_pylist()
    found = {event["request_id"] for events in rows for event in events if event["request_id"] is not None}
    if store.exists(_make_record_path(path)):
        found.update(json.loads(store.read_bytes(_make_record_path(path))).get("other_request_ids", []))
    return found
