"""Tasks of a refresh of question sets, or of a server's recordings.

plan ─ parts ─▶ pictures ─▶ script ─▶ wording ─▶ speech ─▶ alignment ─▶ mixing ─▶ oracle ─▶ compact ─▶ publish
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from data_schemas.config import RefreshConfig
from data_schemas.errors import StoreError
from data_schemas.manifest import Manifest, ShardEntry
from data_schemas.rates import PlanFigure
from data_schemas.store import Store
from flows.runs.plan import open_rates, plan_parts
from flows.runs.record import RunRecord, record_run
from flows.runs.tasks import Task, Tasks, run_tasks
from pipelines.figures import Figures
from pipelines.recordings import run as recordings
from pipelines.run.execute import Runner, RunOne, run_chat_stage, run_on_part, start_chat_servers
from pipelines.run.mirror import StageProgress, mirror_run
from pipelines.run.parts import Part
from pipelines.run.plan import RunPlan, check_request, collect_rejects, lock_dataset, make_plan
from pipelines.run.publish import compact, publish
from pipelines.run.stages import CHAT_STAGES, MIXING, ORACLE, STAGES, get_chat_model
from pipelines.run.workers import Workers

Dataset = tuple[Manifest, Figures]


def run_refresh(
    config: RefreshConfig,
    progress: StageProgress,
    run_task: Callable[[Task[Any]], None] = Task.run,
    by_shard: bool = False,
) -> tuple[RunRecord, Manifest, Figures]:
    """Makes or refreshes a dataset of question sets, or resumes. The bytes do not depend on how tasks are run.

    Items that a source no longer has are removed if it is read without a limit. The run's record is written to the
    dataset's `runs/`, also after an error. A dataset in a bucket is made in a local folder and uploaded.

    Args:
        run_task: runs one task, and raises what it raises.
        by_shard: whether there is a task for each stage and shard, instead of one for each stage.

    Raises:
        KameError: a step failed; what was finished is reused by the next run.
    """
    with mirror_run(config, progress) as (here, mirror_progress):
        check_request(here)
        with lock_dataset(here), record_run(here) as record:
            made = run_tasks(make_refresh_tasks(here, mirror_progress, record, by_shard), run_task)
    return record, *made


def run_recordings(config: RefreshConfig, progress: StageProgress) -> tuple[RunRecord, Manifest, Figures]:
    """Makes or refreshes a dataset of a folder of recordings; see `run_refresh`.

    Recordings that were deleted from that folder are deleted from the dataset, too.

    Raises:
        KameError: as `run_refresh`.
    """
    with mirror_run(config, progress) as (here, mirror_progress):
        recordings.check_request(here)
        with lock_dataset(here), record_run(here) as record:
            made = run_tasks(make_recordings_tasks(here, mirror_progress, record))
    return record, *made


def make_refresh_tasks(
    config: RefreshConfig, progress: StageProgress, record: RunRecord, by_shard: bool
) -> Tasks[Dataset]:
    """Yields the tasks of a refresh of question sets, and returns the manifest and figures of the dataset.

    Adds to `record` the incomplete parts and the estimate of them, as soon as they are known. Too little space on the
    disk is then a `StoreError`.
    """
    plan = yield from _plan(partial(make_plan, config), record)
    runner, book = Runner(Store(config.out)), open_rates()
    record.parts = runner.list_pending(ORACLE, plan.parts)
    record.planned = plan_parts(config, record.parts, book)
    _check_disk_space(config, plan_parts(config, runner.list_pending(MIXING, plan.parts), book))
    yield from _run_stages(config, plan, STAGES, run_on_part, progress, record, by_shard)
    entries = yield from _compact(config, plan, record)
    return (yield from _publish(lambda: publish(config, entries, collect_rejects(config, plan)), record))


def make_recordings_tasks(config: RefreshConfig, progress: StageProgress, record: RunRecord) -> Tasks[Dataset]:
    """Yields the tasks of a refresh of recordings, where one stage replaces the first six, and returns the dataset.

    The last task deletes all data of recordings that no longer exist.
    """
    plan = yield from _plan(partial(recordings.plan, config), record)
    yield from _run_stages(config, plan, recordings.STAGES, recordings.run_on_part, progress, record)
    entries = yield from _compact(config, plan, record)
    return (yield from _publish(lambda: recordings.publish_and_forget(config, plan, entries), record))


def _plan(make: Callable[[], RunPlan], record: RunRecord) -> Tasks[RunPlan]:
    """Yields the task that makes the plan, and returns the plan; its counts are added to the record."""
    task = Task("plan", "", make)
    with record.time_step("plan"):
        yield [task]
    record.n_kept, record.languages_left = task.made.n_kept, task.made.languages_left
    return task.made


def _check_disk_space(config: RefreshConfig, planned: Sequence[PlanFigure]) -> None:
    """Checks that the disk has the space that is planned for the dialogues to be made, if it is known.

    Raises:
        StoreError: it has less.
    """
    free_bytes = shutil.disk_usage(config.out).free
    needed_bytes = next((each.value for each in planned if each.key == "disk_bytes" and each.value is not None), 0.0)
    if free_bytes < needed_bytes:
        n_new = next(round(each.value or 0) for each in planned if each.key == "dialogues")
        raise StoreError(
            f"{config.out} has {free_bytes / 1e6:,.0f} MB free; {n_new} new dialogues will need about "
            f"{needed_bytes / 1e6:,.0f} MB.",
            "Free disk space, choose another --out, or read fewer items with --limit.",
        )


def _run_stages(
    config: RefreshConfig,
    plan: RunPlan,
    stages: Sequence[str],
    run_one: RunOne,
    progress: StageProgress,
    record: RunRecord,
    by_shard: bool = False,
) -> Tasks[None]:
    """Yields the tasks of each stage on all parts; worker processes and chat servers run only while they are used.

    Args:
        by_shard: one task for the parts of each shard, instead of one for all. Oracles without a chat model always
            have one task.
    """
    n_items = sum(part.n_items for part in plan.parts)
    with Workers(config, run_one) as workers, ExitStack() as while_asked:
        with record.time_step("plan"):
            servers = while_asked.enter_context(start_chat_servers(config, plan.parts))
        for stage in stages:
            progress.begin_stage(stage, n_items)
            groups = {"": plan.parts}
            if by_shard and not (stage == ORACLE and get_chat_model(config, stage) is None):  # random: in all shards
                groups = {group[0].shard_id: group for group in plan.group_by_shard()}
            with record.time_step(stage), servers.open_endpoint(stage) as endpoint, ExitStack() as while_run:
                if stage in CHAT_STAGES:
                    on_part, on_usage = progress.on_part, record.usages.append
                    run: Callable[[Sequence[Part]], None] = partial(
                        run_chat_stage, config, stage, endpoint=endpoint, on_part=on_part, on_usage=on_usage
                    )
                else:
                    run = while_run.enter_context(workers.begin(stage, [*groups.values()], progress.on_part)).finish
                yield [Task(stage, shard_id, partial(run, group)) for shard_id, group in groups.items()]


def _compact(config: RefreshConfig, plan: RunPlan, record: RunRecord) -> Tasks[list[ShardEntry]]:
    """Yields a task for each shard, which is written from its parts, and returns the entries of the manifest."""
    tasks = [Task("compact", group[0].shard_id, partial(compact, config, group)) for group in plan.group_by_shard()]
    with record.time_step("publish"):
        yield [*tasks]
    return [entry for task in tasks for entry in task.made]


def _publish(make: Callable[[], Dataset], record: RunRecord) -> Tasks[Dataset]:
    """Yields the task that publishes the shards as a dataset, and returns its manifest and figures."""
    task = Task("publish", "", make)
    with record.time_step("publish"):
        yield [task]
    return task.made
