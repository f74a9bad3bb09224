"""A task of a run as one of Prefect's: what the flows that consist of tasks have in common."""

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
"""The concurrency limit of Prefect that says how many tasks may ask chat models at once; without it: any number."""
_LEASE_S: Final = 60.0
"""So long after a process was killed its place is taken; Prefect's least."""


def run_as_task(each: Task[Any], call: Callable[[], None] | None = None, asks_chat: bool = False) -> None:
    """Runs a task of ours as one of Prefect's, of the same name.

    Args:
        call: what runs it, with what else belongs inside Prefect's task; None: the task alone.
        asks_chat: it waits until `CHAT_MODEL` has room for it.
    """

    def run() -> None:
        if asks_chat:
            with _hold_chat_model_place():
                (call or each.run)()
        else:
            (call or each.run)()

    of_prefect = task(name=each.name, task_run_name=lambda: each.title, cache_policy=NO_CACHE, persist_result=False)
    of_prefect(run)()


@contextmanager
def _hold_chat_model_place() -> Iterator[None]:
    """Holds one place of the limit, if the server has it."""
    with get_client(sync_client=True) as client:
        try:
            limit = client.read_global_concurrency_limit_by_name(CHAT_MODEL)
        except ObjectNotFound:
            yield
            return
    if limit.active_slots >= limit.limit:
        get_run_logger().info("Waits for the chat model: %d at once (limit %s).", limit.limit, CHAT_MODEL)
    with concurrency(CHAT_MODEL, lease_duration=_LEASE_S):
        yield
