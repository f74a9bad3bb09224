"""One refresh from beginning to end; its steps are called as they are or as a scheduler's tasks, in one order."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from backends.chat.protocol import Endpoint
from data_schemas.config import RefreshConfig
from data_schemas.manifest import Manifest, ShardEntry
from flows.runs.record import RunRecord, recorded
from pipelines.figures import Figures
from pipelines.recordings import run as recordings
from pipelines.run import steps
from pipelines.run.chat_stages import chat_servers, run_served
from pipelines.run.execute import OnPart, Part, PartRecord
from pipelines.run.publish import compact_group, publish
from pipelines.run.stages import ORACLE, SERVED_STAGES, STAGES, OnUsage
from pipelines.run.steps import Plan, one_run_at_a_time
from pipelines.run.workers import Workers


class Progress(Protocol):
    """What wants to be told how far a run is."""

    def stage(self, name: str, n_items: int) -> None:
        """A stage begins, on so many items."""

    def part(self, stage: str, part: Part, record: PartRecord) -> None:
        """A stage has a part's output, made now or found."""


def publish_all(config: RefreshConfig, plan: Plan, entries: Sequence[ShardEntry]) -> tuple[Manifest, Figures]:
    """Rejects of all stages, card and manifest of a run whose shards stand."""
    return publish(config, entries, steps.all_rejects(config, plan))


RunServed = Callable[[RefreshConfig, str, Sequence[Part], Endpoint | None, OnPart, OnUsage], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What the steps of a run are, and how they are called. `groups` says which parts a stage is given at once."""

    check: Callable[[RefreshConfig], None] = steps.check_request
    stages: tuple[str, ...] = STAGES
    workers: Callable[[RefreshConfig], Workers] = Workers
    groups: Callable[[Plan], list[list[Part]]] = lambda plan: [plan.parts]
    plan: Callable[[RefreshConfig], Plan] = steps.plan
    run_stage: Callable[[Workers, str, Sequence[Part], OnPart], None] = steps.run_stage
    run_served: RunServed = run_served
    compact_group: Callable[[RefreshConfig, Sequence[Part]], list[ShardEntry]] = compact_group
    publish: Callable[[RefreshConfig, Plan, Sequence[ShardEntry]], tuple[Manifest, Figures]] = publish_all


PLAIN = Steps()
"""Plain calls in this process, each stage on all parts at once."""


OF_RECORDINGS = Steps(
    check=recordings.check_request,
    stages=recordings.STAGES,
    workers=partial(Workers, run_one=recordings.run_here),
    plan=recordings.plan,
    publish=recordings.publish_and_forget,
)
"""The same for what a server has recorded."""


def run_refresh(config: RefreshConfig, progress: Progress, steps: Steps = PLAIN) -> tuple[RunRecord, Manifest, Figures]:
    """Makes or refreshes a dataset; again = resume. The bytes do not depend on `steps`.

    Raises:
        KameError: with cause and remedy; what was finished before stays and is used by the next run.
    """
    steps.check(config)
    with one_run_at_a_time(config), recorded(config) as record, ExitStack() as while_needed:
        with record.timed("plan"):
            plan = steps.plan(config)
            record.n_kept, record.languages_left = plan.n_kept, plan.languages_left
            servers = while_needed.enter_context(chat_servers(config, plan.parts))
        groups, n_items = steps.groups(plan), sum(part.n_items for part in plan.parts)
        with steps.workers(config) as workers:
            for stage in steps.stages:
                progress.stage(stage, n_items)
                with record.timed(stage), servers.endpoint_for(stage) as endpoint:
                    looks_around = stage == ORACLE and endpoint is None and plan.parts  # random ones: in other parts
                    for group in [plan.parts] if looks_around else groups:
                        if stage in SERVED_STAGES:
                            on_usage = record.usages.append
                            steps.run_served(config, stage, group, endpoint, progress.part, on_usage)
                        else:
                            steps.run_stage(workers, stage, group, progress.part)
        with record.timed("publish"):
            entries = [entry for group in plan.groups() for entry in steps.compact_group(config, group)]
            manifest, figures = steps.publish(config, plan, entries)
        return record, manifest, figures
