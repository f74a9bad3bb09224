"""What a run is to do: whether it can begin, the parts there are, and what each stage's output of them is called.

Nothing is planned twice: what is recorded is not made again, so resuming is running again.
"""

import json
import shutil
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
from pipelines.run.parts import Member, MembershipBook, Part, make_part
from pipelines.run.stages import MIXING, describe_stages
from pipelines.sources.items import SourceReading, read_evaluation_questions, read_items
from pipelines.sources.reading import check_file
from pipelines.sources.registry import get_spec
from pipelines.stage import Recipe, StageDescription, make_recipes

BYTES_PER_DIALOGUE = 2_500_000
"""Room asked for before work, for clips, mixed dialogue and shard of one item: twice what real items took."""

LOCK = ".store/lock"
EVALUATION = ".store/evaluation.json"


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts of a run, what reading each source refused, and how many items stay that were not read this time.

    `languages_left` counts, by source and language, questions in languages that were not asked for.
    """

    parts: list[Part]
    source_rejects: dict[str, list[Reject]]
    n_kept: int
    languages_left: dict[str, dict[str, int]]

    def groups(self) -> list[list[Part]]:
        """The parts, a list a shard, in the order of their ids."""
        ordered = sorted(self.parts, key=lambda part: (part.shard_id, part.part_id))
        return [list(group) for _, group in groupby(ordered, key=lambda part: part.shard_id)]


@contextmanager
def lock_dataset(config: RefreshConfig) -> Iterator[None]:
    """Holds the dataset's folder for this run and sweeps what a killed one left half written.

    Raises:
        StoreError: another run holds it, or the folder cannot be written.
    """
    store = Store(config.out)
    lock = FileLock(store.at(LOCK), timeout=0)
    try:
        Path(store.at(".store")).mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise StoreError(f"Another run is writing {config.out}.", "Wait for it, or choose another --out.") from error
    except OSError as error:
        raise StoreError(
            f"Cannot write {config.out}: {error.strerror or error}.", "Choose another --out, or look at its rights."
        ) from error
    try:
        store.sweep()
        yield
    finally:
        lock.release()


def check_request(config: RefreshConfig) -> None:
    """Whether this run can begin at all; writes nothing.

    Raises:
        ConfigError: no sources, two of one name, one that is not described, a back-end or voice that is not there, a
            folder of somebody else's, or another split or oracle version than its other sources have.
        SourceError: a source's file is not there.
        DatasetError: the dataset or its flags cannot be read.
    """
    names = [source.name for source in config.sources]
    if not names or len(set(names)) < len(names):
        raise ConfigError(
            "No source is given." if not names else "A source is given twice.",
            "Say --source gsm8k=FILE, --source mmlu_pro, … each once.",
        )
    for source in config.sources:
        get_spec(source)
        if source.path is not None:
            check_file(source.path)
    describe_stages(config)
    check_folder(config)


def check_folder(config: RefreshConfig) -> None:
    """Whether a run may write to its folder: one that is empty, or a dataset split in the same way.

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
    if others := _not_in_this_run(config, before):
        raise ConfigError(
            f"{', '.join(others)} in {config.out} is split otherwise, or has other oracles.",
            "Use the same split and --oracle-version, name all sources, or choose another --out.",
        )


def _not_in_this_run(config: RefreshConfig, before: Manifest | None) -> list[str]:
    """Sources of the dataset that this run does not name, and so leaves as they are."""
    there = {entry.source for entry in before.shards} if before else set()
    return sorted(there - {source.name for source in config.sources})


ReadItems = Callable[[SourceConfig, int | None, SplitConfig, frozenset[str]], SourceReading]
"""Reads a source as `read_items` does."""


def make_plan(
    config: RefreshConfig, read: ReadItems = read_items, stages: Mapping[str, StageDescription] | None = None
) -> Plan:
    """Reads the sources, records which item is in which part, and lays down the parts' items.

    Args:
        stages: what is to be run; by default all stages of the configuration.

    Raises:
        SourceError: a source or an evaluation set cannot be read.
        StoreError: too little room on the disk for what is to be made.
    """
    store = Store(config.out)
    contaminated, recipes = _contaminated(config, store), make_recipes(stages or describe_stages(config))
    parts, rejects, n_kept, left = [], {}, 0, {}
    for source in config.sources:
        reading = read(source, config.limit, config.split, contaminated)
        membership = MembershipBook(store, source.name, config.split, config.parts, config.variants).update(
            reading, contaminated
        )
        read_now = {item.item_id for item in reading.items}
        n_kept += sum(member.item.item_id not in read_now for member in membership.members)
        rejects[source.name] = membership.rejects
        if reading.n_left:
            left[source.name] = dict(reading.n_left)
        parts += _parts(membership.members, recipes, Runner(store))
    _check_room(config, parts, store)
    return Plan(parts, rejects, n_kept, left)


def _contaminated(config: RefreshConfig, store: Store) -> frozenset[str]:
    """The questions of all evaluation sets this folder was ever given: what must not be trained on stays so.

    Raises:
        ConfigError: new ones, while sources that may hold them are not read by this run.
    """
    before = set(json.loads(store.read_bytes(EVALUATION))) if store.exists(EVALUATION) else set()
    now = before | read_evaluation_questions(config.evaluation_sets)
    if now == before:
        return frozenset(before)
    if others := _not_in_this_run(config, read_manifest_if_any(store)):
        raise ConfigError(
            f"The evaluation sets are new to {config.out}, and {', '.join(others)} may hold their questions.",
            "Name all sources of the dataset with --source in this run.",
        )
    store.write_bytes(EVALUATION, json.dumps(sorted(now), ensure_ascii=False).encode())
    return frozenset(now)


def collect_rejects(config: RefreshConfig, plan: Plan) -> dict[str, list[Reject]]:
    """What was refused by reading and by every stage of a run, by source."""
    runner = Runner(Store(config.out))
    rejects = {source: list(found) for source, found in plan.source_rejects.items()}
    for part in plan.parts:
        for stage in part.fingerprints:
            rejects[part.source] += runner.finished(part, stage).rejects
    return rejects


def _parts(members: Sequence[Member], recipes: Mapping[str, Recipe], runner: Runner) -> list[Part]:
    by_part = sorted(members, key=lambda member: member.part_id)  # stable: source order inside a part
    groups = [list(group) for _, group in groupby(by_part, key=lambda member: member.part_id)]
    parts = [make_part(group, recipes) for group in groups]
    runner.put_items((part, [each.item for each in group]) for part, group in zip(parts, groups, strict=True))
    return parts


def _check_room(config: RefreshConfig, parts: Sequence[Part], store: Store) -> None:
    runner = Runner(store)
    n_new = sum(part.n_items for part in parts if runner.record(part, MIXING) is None)
    free, needed = shutil.disk_usage(config.out).free, n_new * BYTES_PER_DIALOGUE
    if free < needed:
        raise StoreError(
            f"{config.out} has {free // 10**6} MB free; {n_new} new dialogues may need {needed // 10**6} MB.",
            "Make room, choose another --out, or read fewer items with --limit.",
        )
