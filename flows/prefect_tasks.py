"""A task of a run as one of Prefect's: what the flows that consist of tasks have in common."""

from collections.abc import Callable
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from flows.runs.tasks import Task


def run_as_task(each: Task[Any], call: Callable[[], None] | None = None) -> None:
    """Runs a task of ours as one of Prefect's, of the same name.

    Args:
        call: what runs it, with what else belongs inside Prefect's task; None: the task alone.
    """
    of_prefect = task(name=each.name, task_run_name=lambda: each.title, cache_policy=NO_CACHE, persist_result=False)
    of_prefect(call or each.run)()
