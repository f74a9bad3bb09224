"""Prefect flow of a refresh, with one task for each stage and shard, so that its page shows progress and times.

Prefect schedules and displays, but stores no state: its caching and its stored results are off, because the records of
the store are authoritative. A flow run that is started again resumes like `kame refresh`. Tasks run in sequence, and
each spreads a shard's parts over worker processes, so that the server has only one in flight, for any size of the
corpus.
"""

import logging
from typing import Any
from uuid import UUID

from data_schemas.errors import BackendError, KameError

try:
    from prefect import flow, get_run_logger
    from prefect.artifacts import (
        create_markdown_artifact,
        create_progress_artifact,
        create_table_artifact,
        update_progress_artifact,
    )
    from prefect.client.orchestration import get_client
    from prefect.logging.handlers import PrefectConsoleHandler
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
except ModuleNotFoundError as error:
    raise BackendError("Prefect is not installed.", "Run: pip install 'kame-pipeline[flows]'") from error

from data_schemas.config import RefreshConfig
from data_schemas.manifest import Manifest
from flows.automations import emit_if_changed
from flows.lost_runs import HEARTBEAT_S
from flows.prefect_tasks import run_as_task
from flows.run_names import make_namer
from flows.runs.record import RunRecord
from flows.runs.refresh import run_refresh
from flows.runs.tasks import Task
from pipelines.figures import Figures, list_tables
from pipelines.run.mirror import get_work_folder
from pipelines.run.parts import Part, PartRecord
from pipelines.run.publish import render_card
from pipelines.run.stages import CHAT_STAGES, STAGES, get_chat_model


class ShownRefreshProgress:
    """Progress of a refresh as lines of the flow run's log and as an artifact, in which each stage has an equal share.

    Args:
        out: folder of the dataset, for the artifact's description.
    """

    PERCENT_EVERY = 1.0
    """Step of the progress artifact in percent: at most a hundred updates a run."""

    def __init__(self, out: str) -> None:
        made: Any = create_progress_artifact(0.0, key="refresh", description=out)
        self._artifact: UUID = made
        self._n_stages = self._n_done = 0
        self._n_items = 1
        self._shown = 0.0

    def begin_stage(self, name: str, n_items: int) -> None:
        """Logs the start of a stage, and counts its finished items from 0."""
        get_run_logger().info("%s: %d items", name, n_items)
        self._n_stages, self._n_done, self._n_items = self._n_stages + 1, 0, max(1, n_items)

    def on_part(self, stage: str, part: Part, record: PartRecord) -> None:
        """Counts the items of a finished part, and updates the progress artifact in steps of `PERCENT_EVERY`."""
        self._n_done += part.n_items
        percent = 100 * (self._n_stages - 1 + self._n_done / self._n_items) / (len(STAGES) + 1)
        if percent >= self._shown + self.PERCENT_EVERY:
            self._shown = percent
            update_progress_artifact(self._artifact, min(100.0, percent), f"{stage}: {self._n_done} of {self._n_items}")


@flow(name="refresh", flow_run_name=make_namer("refresh"), persist_result=False)
def refresh(config: RefreshConfig) -> tuple[RunRecord, Manifest, Figures]:
    """Makes or refreshes a dataset of spoken dialogues with oracles. Running it again resumes.

    Args:
        config: Settings of the dataset, its sources and its back-ends. Paths are as the worker sees them.
    """

    def run_task(each: Task[Any]) -> None:
        """Runs a task as a Prefect task, in a slot of the chat model if it calls one."""
        asks = each.name in CHAT_STAGES and get_chat_model(config, each.name) is not None
        run_as_task(each, asks_chat=asks)

    record, manifest, figures = run_refresh(config, ShownRefreshProgress(config.out), run_task, by_shard=True)
    for each in list_tables(figures):
        rows = [dict(zip(each.head, row, strict=True)) for row in each.rows]
        create_table_artifact(rows, key=each.key, description=f"{each.title}, {config.out}")
    create_markdown_artifact(format_card(manifest, figures), key="dataset-card", description=f"Card of {config.out}")
    if emit_if_changed(get_work_folder(config.out), manifest):
        get_run_logger().info("%s has changed: %d dialogues", config.out, manifest.counts.dialogues)
    return record, manifest, figures


def format_card(manifest: Manifest, figures: Figures) -> str:
    """Returns the dataset's card without its YAML header."""
    return render_card(manifest, figures).split("\n---\n", 1)[1]


def run_as_flow(config: RefreshConfig) -> tuple[RunRecord, Manifest, Figures]:
    """Runs the flow in this process, with the server of `PREFECT_API_URL` or a temporary one, and returns its result.

    Raises:
        BackendError: the server cannot be reached, or was lost.
        KameError: as in a run without Prefect.
    """
    if (fault := _find_server_fault()) is not None:
        raise BackendError(
            f"Prefect's server cannot be reached: {fault}.",
            "Start the server of PREFECT_API_URL (`prefect server start`), or unset it to use a temporary one.",
        )
    _silence_repeated_messages()
    try:
        with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: HEARTBEAT_S}):
            return refresh(config)
    except KameError:
        raise
    except Exception as error:
        if (fault := _find_server_fault()) is None:
            raise
        raise BackendError(
            f"Prefect's server was lost during the run: {fault}.", "Start it, and run the same command again to resume."
        ) from error


def _find_server_fault() -> str | None:
    """Returns why the server of `PREFECT_API_URL` does not answer, or None if it does.

    Without that variable, a temporary server is started.
    """
    try:
        with get_client(sync_client=True) as client:
            fault = client.api_healthcheck()
    except (RuntimeError, ValueError) as error:  # it does not start, is of another version, or none is configured
        fault = error
    return None if fault is None else str(fault).rstrip(".")


def _silence_repeated_messages() -> None:
    """Hides Prefect's console messages that the command reports itself, as long as this process runs.

    The server still receives all of them.
    """
    for handler in logging.getLogger().handlers:
        if isinstance(handler, PrefectConsoleHandler):
            handler.addFilter(_is_new_to_user)


def _is_new_to_user(record: logging.LogRecord) -> bool:
    """Returns whether a log record is to be shown.

    Failures of flow and task runs are not, because they are raised as well, nor is the end of a temporary server.
    """
    said = record.getMessage()
    of_run = record.name in ("prefect.flow_runs", "prefect.task_runs")
    raised = of_run and (record.levelno >= logging.ERROR or said.startswith("Finished in state Failed"))
    return not raised and not said.startswith("Stopping temporary server")
