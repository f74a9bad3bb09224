"""Runs the tasks of a run as Prefect tasks; shared by the flows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectNotFound

from flows.runs.tasks import Task

CHAT_MODEL: Final = "chat-model"
"""Prefect concurrency limit of tasks that call chat models; without it on the server, their number is not limited."""
_LEASE_S: Final = 60.0
"""Time in seconds for which a killed process still occupies its slot; Prefect's minimum."""


def run_as_task(each: Task[Any], call: Callable[[], None] | None = None, asks_chat: bool = False) -> None:
    """Runs a task as a Prefect task of the same name.

    Args:
        call: runs the task and what else belongs inside the Prefect task; if None, only the task is run.
        asks_chat: whether it waits for a slot of the concurrency limit `CHAT_MODEL` and occupies it while it runs.
    """

    def run() -> None:
        """Runs the task, in a slot of the chat model if it asks one."""
        if asks_chat:
            with _occupy_chat_slot():
                (call or each.run)()
        else:
            (call or each.run)()

    of_prefect = task(name=each.name, task_run_name=lambda: each.title, cache_policy=NO_CACHE, persist_result=False)
    of_prefect(run)()


@contextmanager
def _occupy_chat_slot() -> Iterator[None]:
    """Waits for a slot of the concurrency limit `CHAT_MODEL`, and occupies it during a `with` block.

    Does nothing if the server has no such limit.
    """
    with get_client(sync_client=True) as client:
        try:
            limit = client.read_global_concurrency_limit_by_name(CHAT_MODEL)
        except ObjectNotFound:
            yield
            return
    if limit.active_slots >= limit.limit:
        get_run_logger().info(
            "Waiting for a slot of the chat model: limit %d (concurrency limit %s).", limit.limit, CHAT_MODEL
        )
    with concurrency(CHAT_MODEL, lease_duration=_LEASE_S):
        yield
