"""The steps of making a dataset of recordings: those of a refresh, with one stage in the place of its first six.

    plan ─ parts ─▶ mixing (`RecordingsStage`) ─▶ oracle ─▶ compact_group ─▶ publish

The dataset holds what the folder of recordings holds: a session that is deleted there is gone with the next run, and so
are its sound, its words and what a chat model answered to it in the run's own store.
"""

import json
from collections.abc import Sequence
from functools import lru_cache

from backends import registry
from data_schemas.config import RefreshConfig
from data_schemas.errors import ConfigError, SourceError, StoreError
from data_schemas.flags import flagged
from data_schemas.manifest import Manifest, ShardEntry
from data_schemas.reader import manifest_if_any
from data_schemas.store import Store
from pipelines.figures import Figures
from pipelines.recordings.reading import folder_of, read_recordings, texts
from pipelines.recordings.stage import RecordingsStage
from pipelines.recordings.traces import forget
from pipelines.run import steps
from pipelines.run.chat_stages import described
from pipelines.run.execute import Part, PartRecord, Runner
from pipelines.run.publish import publish
from pipelines.run.stages import MIXING, ORACLE
from pipelines.run.steps import Plan
from pipelines.stage import StageDescription

STAGES = (MIXING, ORACLE)
"""The stages of such a run, in order."""

SOURCE = "recordings"
"""What a folder of recordings is called among a dataset's sources, unless it is given another name."""


def check_request(config: RefreshConfig) -> None:
    """As `steps.check_request`, for folders of recordings.

    Raises:
        ConfigError, DatasetError: as there; or not one source is given, or a chat model for a stage that is not run.
        SourceError: there is no such folder, or no recording in it and none in the dataset.
    """
    if len(config.sources) != 1 or config.pictures is not None or config.wording is not None:
        raise ConfigError("A dataset of recordings has one folder, and no pictures or wording.", "Leave them out.")
    (source,) = config.sources
    before = manifest_if_any(Store(config.out))
    is_known = before is not None and any(entry.source == source.name for entry in before.shards)
    if not is_known and not folder_of(source).files("", ".parquet"):
        raise SourceError(f"{source.path} holds no recordings.", "Give the folder of `kame serve --record`.")
    _stages(config)
    steps.check_folder(config)
    flagged(Store(config.out))


def plan(config: RefreshConfig) -> Plan:
    """As `steps.plan`, of recordings."""
    return steps.plan_of(config, read_recordings, _stages(config))


def run_here(config: RefreshConfig, stage: str, part: Part) -> PartRecord:
    """Times the words of one part's recordings, in this process."""
    assert stage == MIXING
    return Runner(Store(config.out)).run(part, _recordings_stage(config.model_dump_json()))


def publish_and_forget(config: RefreshConfig, plan: Plan, entries: Sequence[ShardEntry]) -> tuple[Manifest, Figures]:
    """Publishes the dataset and who agreed to it, then removes what is left of recordings that are gone."""
    manifest, figures = publish(config, entries, steps.all_rejects(config, plan, STAGES))
    _write_consents(config)
    forget(Store(config.out), config.sources[0].name, plan.parts)
    return manifest, figures


def _stages(config: RefreshConfig) -> dict[str, StageDescription]:
    return {MIXING: _recordings_stage(config.model_dump_json()), ORACLE: described(config, ORACLE)}


@lru_cache(maxsize=1)
def _recordings_stage(config_json: str) -> RecordingsStage:
    config = RefreshConfig.model_validate_json(config_json)
    aligner = registry.build("aligner", config.alignment.aligner, config.alignment.aligner_options)
    return RecordingsStage(folder_of(config.sources[0]), config.alignment, aligner, config.seed)


def _write_consents(config: RefreshConfig) -> None:
    """`consents/<source>.jsonl`: what each caller was told and when they agreed, a line a session."""
    (source,) = config.sources
    agreed = [text for _, text in texts(folder_of(source)) if not isinstance(text, StoreError)]
    lines = (
        {"session_id": each.session_id, "consented_at": each.consented_at, "notice": each.notice} for each in agreed
    )
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    Store(config.out).write_bytes(f"consents/{source.name}.jsonl", text.encode())
