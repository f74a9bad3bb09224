"""Plans a run: checks that it can start, assigns items to parts, and determines the fingerprint of each output.

Recorded outputs are not made again, so a run is resumed by running it again.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from filelock import FileLock, Timeout

from data_schemas.config import RefreshConfig, SourceConfig, SplitConfig
from data_schemas.errors import ConfigError, StoreError
from data_schemas.flags import read_flagged
from data_schemas.manifest import MANIFEST, Manifest
from data_schemas.reader import read_manifest_if_any
from data_schemas.records import Reject
from data_schemas.store import Store
from pipelines.run.execute import Runner
from pipelines.run.parts import MembershipFiles, Part, PartMember, make_part
from pipelines.run.stages import describe_stages
from pipelines.sources.items import SourceReading, read_evaluation_questions, read_items
from pipelines.sources.reading import check_file
from pipelines.sources.registry import get_spec
from pipelines.stage import Recipe, StageDescription, make_recipes

LOCK = ".store/lock"
EVALUATION = ".store/evaluation.json"


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The parts of a run, the rejects of reading its sources, and how many items are kept that were not read now.

    `languages_left` counts, by source and language, questions in languages that were not requested.
    """

    parts: list[Part]
    source_rejects: dict[str, list[Reject]]
    n_kept: int
    languages_left: dict[str, dict[str, int]]

    def group_by_shard(self) -> list[list[Part]]:
        """Returns the parts grouped by shard, in the order of their ids."""
        ordered = sorted(self.parts, key=lambda part: (part.shard_id, part.part_id))
        return [list(group) for _, group in groupby(ordered, key=lambda part: part.shard_id)]


@contextmanager
def lock_dataset(config: RefreshConfig) -> Iterator[None]:
    """Locks the dataset's folder for the block, creates it if necessary, and removes temporary files of a killed run.

    Raises:
        StoreError: another run holds the lock, or the folder cannot be written.
    """
    store = Store(config.out)
    lock = FileLock(store.resolve_path(LOCK), timeout=0)
    try:
        Path(store.resolve_path(".store")).mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise StoreError(f"Another run is writing {config.out}.", "Wait for it, or choose another --out.") from error
    except OSError as error:
        raise StoreError(
            f"Cannot write {config.out}: {error.strerror or error}.", "Choose another --out, or check its permissions."
        ) from error
    try:
        store.sweep()
        yield
    finally:
        lock.release()


def check_request(config: RefreshConfig) -> None:
    """Checks that a run with this configuration can start; nothing is written.

    Raises:
        ConfigError: there are no sources, two with one name, one without a description, a missing back-end or voice, a
            folder that is not a dataset, or another split or oracle version than that of its other sources.
        SourceError: a source's file does not exist.
        DatasetError: the dataset or its flags cannot be read.
    """
    names = [source.name for source in config.sources]
    if not names or len(set(names)) < len(names):
        raise ConfigError(
            "No source is given." if not names else "A source is given twice.",
            "Give --source gsm8k=FILE, --source mmlu_pro, … each once.",
        )
    for source in config.sources:
        get_spec(source)
        if source.path is not None:
            check_file(source.path)
    describe_stages(config)
    check_folder(config)


def check_folder(config: RefreshConfig) -> None:
    """Checks that a run may write to its folder: it must not exist, be empty, or be a dataset.

    Sources of the dataset that this run does not name must have the same split and oracle version.

    Raises:
        ConfigError, DatasetError: as `check_request`.
    """
    store = Store(config.out)
    if (
        store.fs.isdir(store.root)
        and store.fs.ls(store.root)
        and not (store.exists(".store") or store.exists(MANIFEST))
    ):
        raise ConfigError(f"{config.out} is not empty and holds no dataset.", "Choose a folder of its own with --out.")
    read_flagged(store)
    before = read_manifest_if_any(store)
    if before is None or (before.split, before.oracle_version) == (config.split, config.oracle.version):
        return
    if others := _list_other_sources(config, before):
        raise ConfigError(
            f"{', '.join(others)} in {config.out} is split otherwise, or has other oracles.",
            "Use the same split and --oracle-version, name all sources, or choose another --out.",
        )


def _list_other_sources(config: RefreshConfig, before: Manifest | None) -> list[str]:
    """Returns the sources of the dataset that this run does not name, and so does not change."""
    there = {entry.source for entry in before.shards} if before else set()
    return sorted(there - {source.name for source in config.sources})


ReadItems = Callable[[SourceConfig, int | None, SplitConfig, frozenset[str]], SourceReading]
"""Reads a source as `read_items` does."""


def make_plan(
    config: RefreshConfig, read: ReadItems = read_items, stages: Mapping[str, StageDescription] | None = None
) -> RunPlan:
    """Reads the sources, assigns items to parts, and returns the plan.

    In the dataset's folder it records the questions of evaluation sets and each source's membership, and writes the
    items of each part.

    Args:
        read: reads the items of one source.
        stages: the stages to run; by default all stages of the configuration.

    Raises:
        ConfigError: evaluation sets are new, and this run does not read all sources of the dataset.
        SourceError: a source or an evaluation set cannot be read.
        StoreError: a file cannot be written.
    """
    store = Store(config.out)
    contaminated, recipes = _update_contaminated(config, store), make_recipes(stages or describe_stages(config))
    parts, rejects, n_kept, left = [], {}, 0, {}
    for source in config.sources:
        reading = read(source, config.limit, config.split, contaminated)
        membership = MembershipFiles(store, source.name, config.split, config.parts, config.variants).update(
            reading, contaminated
        )
        read_now = {item.item_id for item in reading.items}
        n_kept += sum(member.item.item_id not in read_now for member in membership.members)
        rejects[source.name] = membership.rejects
        if reading.n_left:
            left[source.name] = dict(reading.n_left)
        parts += _make_parts(membership.members, recipes, Runner(store))
    return RunPlan(parts, rejects, n_kept, left)


def _update_contaminated(config: RefreshConfig, store: Store) -> frozenset[str]:
    """Adds the questions of evaluation sets to those recorded in the folder, and returns all; they stay excluded.

    Raises:
        ConfigError: there are new ones, and sources that may hold them are not read by this run.
    """
    before = set(json.loads(store.read_bytes(EVALUATION))) if store.exists(EVALUATION) else set()
    now = before | read_evaluation_questions(config.evaluation_sets)
    if now == before:
        return frozenset(before)
    if others := _list_other_sources(config, read_manifest_if_any(store)):
        raise ConfigError(
            f"The evaluation sets are new to {config.out}, and {', '.join(others)} may hold their questions.",
            "Name all sources of the dataset with --source in this run.",
        )
    store.write_bytes(EVALUATION, json.dumps(sorted(now), ensure_ascii=False).encode())
    return frozenset(now)


def collect_rejects(config: RefreshConfig, plan: RunPlan) -> dict[str, list[Reject]]:
    """Returns the rejects of reading and of every stage of a run, by source.

    Raises:
        StoreError: a part has no output of a stage.
    """
    runner = Runner(Store(config.out))
    rejects = {source: list(found) for source, found in plan.source_rejects.items()}
    for part in plan.parts:
        for stage in part.fingerprints:
            rejects[part.source] += runner.read_finished(part, stage).rejects
    return rejects


def _make_parts(members: Sequence[PartMember], recipes: Mapping[str, Recipe], runner: Runner) -> list[Part]:
    """Returns the parts that these members make, after writing the items of each."""
    by_part = sorted(members, key=lambda member: member.part_id)  # stable: source order inside a part
    groups = [list(group) for _, group in groupby(by_part, key=lambda member: member.part_id)]
    parts = [make_part(group, recipes) for group in groups]
    runner.put_items((part, [each.item for each in group]) for part, group in zip(parts, groups, strict=True))
    return parts
