"""The refresh as a Prefect flow: one task a stage and shard, so that its page shows what is done and how long it took.

Prefect schedules and shows; it remembers nothing for us. Tasks are given ids and fingerprints, never data; its caching
and its stored results are off, because the records of the store are the truth: a flow run that is started again resumes
like `kame refresh`. Tasks run one after the other, each spreading a shard's parts over worker processes, so the server
never has more than one in flight, however large the corpus.
"""

import logging
import os
from collections.abc import Sequence

# Prefect reads these when it is imported.
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")

from data_schemas.errors import BackendError, KameError

try:
    from prefect import flow, get_run_logger, task
    from prefect.artifacts import create_markdown_artifact, create_table_artifact
    from prefect.cache_policies import NO_CACHE
    from prefect.client.orchestration import get_client
    from prefect.logging.handlers import PrefectConsoleHandler
except ModuleNotFoundError as error:
    raise BackendError("Prefect is not installed.", "Type: pip install 'kame-pipeline[flows]'") from error

from backends.chat.protocol import Endpoint
from data_schemas.config import RefreshConfig
from data_schemas.manifest import Manifest, ShardEntry
from flows.runs.record import RunRecord
from flows.runs.refresh import Steps, publish_all, run_refresh
from pipelines.figures import Figures, tables
from pipelines.run import chat_stages
from pipelines.run import publish as publishing
from pipelines.run import steps as pipeline
from pipelines.run.card import render
from pipelines.run.execute import OnPart, Part, PartRecord
from pipelines.run.stages import STAGES, OnUsage
from pipelines.run.steps import Plan
from pipelines.run.workers import Workers

N_STEPS_A_SHARD = len(STAGES) + 1
"""Tasks that each shard costs: its stages, and compacting."""
N_STEPS_A_RUN = 2
"""Tasks that each run costs: plan and publish."""


def n_tasks(n_shards: int) -> int:
    """Tasks of a flow run over so many shards (a shard holds 256 dialogues unless configured otherwise)."""
    return N_STEPS_A_SHARD * n_shards + N_STEPS_A_RUN


@task(name="plan", task_run_name="plan", cache_policy=NO_CACHE, persist_result=False)
def plan(config: RefreshConfig) -> Plan:
    """Reads the sources and lays down the parts, each with the fingerprints of what it will become."""
    return pipeline.plan(config)


@task(name="stage", task_run_name="{stage} {parts[0].shard_id}", cache_policy=NO_CACHE, persist_result=False)
def run_stage(workers: Workers, stage: str, parts: Sequence[Part], on_part: OnPart) -> None:
    """One processor stage on one shard's parts, in the worker processes that all tasks of the flow run share."""
    pipeline.run_stage(workers, stage, parts, on_part)


@task(name="served", task_run_name="{stage} {parts[0].shard_id}", cache_policy=NO_CACHE, persist_result=False)
def run_served(
    config: RefreshConfig,
    stage: str,
    parts: Sequence[Part],
    endpoint: Endpoint | None,
    on_part: OnPart,
    on_usage: OnUsage,
) -> None:
    """A stage that may ask a chat model on one shard's parts; the model is up for all its tasks."""
    chat_stages.run_served(config, stage, parts, endpoint, on_part, on_usage)


@task(name="compact", task_run_name="compact {group[0].shard_id}", cache_policy=NO_CACHE, persist_result=False)
def compact_group(config: RefreshConfig, group: Sequence[Part]) -> list[ShardEntry]:
    """One shard's parts to its files."""
    return publishing.compact_group(config, group)


@task(name="publish", task_run_name="publish", cache_policy=NO_CACHE, persist_result=False)
def publish(config: RefreshConfig, plan: Plan, entries: Sequence[ShardEntry]) -> tuple[Manifest, Figures]:
    """Rejects, card and manifest; then what is superseded goes."""
    return publish_all(config, plan, entries)


AS_TASKS = Steps(
    groups=Plan.groups,
    plan=plan,
    run_stage=run_stage,
    run_served=run_served,
    compact_group=compact_group,
    publish=publish,
)


class LoggedProgress:
    """One line a stage in the log of the flow run; Prefect adds one a task."""

    def stage(self, name: str, n_items: int) -> None:
        """Says that a stage begins."""
        get_run_logger().info("%s: %d items", name, n_items)

    def part(self, stage: str, part: Part, record: PartRecord) -> None:
        """Says nothing: a part is a sixteenth of a task."""


@flow(name="refresh", persist_result=False)
def refresh(config: RefreshConfig) -> tuple[RunRecord, Manifest, Figures]:
    """Makes or refreshes a dataset of spoken dialogues with oracles. Running again resumes.

    Args:
        config: What to make, from what, and with which back-ends. Paths are as the worker sees them.
    """
    record, manifest, figures = run_refresh(config, LoggedProgress(), AS_TASKS)
    for each in tables(figures):
        rows = [dict(zip(each.head, row, strict=True)) for row in each.rows]
        create_table_artifact(rows, key=each.key, description=f"{each.title}, {config.out}")
    create_markdown_artifact(card(manifest, figures), key="dataset-card", description=f"Card of {config.out}")
    return record, manifest, figures


def card(manifest: Manifest, figures: Figures) -> str:
    """The dataset's card without the head, which is for programs."""
    return render(manifest, figures).split("\n---\n", 1)[1]


def run_as_flow(config: RefreshConfig) -> tuple[RunRecord, Manifest, Figures]:
    """The flow run from this process, at the server of `PREFECT_API_URL` or one started for this run alone.

    Raises:
        BackendError: the server cannot be reached, or was lost.
        KameError: as in a plain run.
    """
    if (fault := _fault_of_server()) is not None:
        raise BackendError(
            f"Prefect's server cannot be reached: {fault}.",
            "Start the one PREFECT_API_URL names (`prefect server start`), or unset it to have one for this run.",
        )
    _leave_errors_to_the_caller()
    try:
        return refresh(config)
    except KameError:
        raise
    except Exception as error:
        if (fault := _fault_of_server()) is None:
            raise
        raise BackendError(
            f"Prefect's server was lost during the run: {fault}.", "Start it and run again; what is finished stays."
        ) from error


def _fault_of_server() -> str | None:
    """Why the server does not answer, if it does not."""
    try:
        with get_client(sync_client=True) as client:
            fault = client.api_healthcheck()
    except (RuntimeError, ValueError) as error:  # it does not start, is of another version, or none is configured
        fault = error
    return None if fault is None else str(fault).rstrip(".")


def _leave_errors_to_the_caller() -> None:
    """Keeps from this process's console what the command says itself; the server is told of everything."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, PrefectConsoleHandler):
            handler.addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """Neither an error of the run, which is raised to the caller, nor a word after the caller's last."""
    said = record.getMessage()
    of_run = record.name in ("prefect.flow_runs", "prefect.task_runs")
    raised = of_run and (record.levelno >= logging.ERROR or said.startswith("Finished in state Failed"))
    return not raised and not said.startswith("Stopping temporary server")
