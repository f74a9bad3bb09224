"""Pools of worker processes: what ends with them."""

import signal
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

import pytest

from backends.processes import WorkerPool, leave_with_parent

pytestmark = pytest.mark.full


def interrupt_work(pool: WorkerPool, works: list[Future[None]]) -> None:
    """Begins work that never ends, and raises an error beside it."""
    with pool:
        works.append(pool.get_started().submit(signal.pause))
        raise KeyError


def test_an_error_ends_the_work_of_the_pool_and_no_other_process() -> None:
    context = get_context("spawn")
    may_end = context.Event()
    bystander = context.Process(target=may_end.wait)
    bystander.start()
    works: list[Future[None]] = []
    with pytest.raises(KeyError):
        interrupt_work(WorkerPool(1, leave_with_parent), works)
    assert isinstance(works[0].exception(), BrokenProcessPool)
    may_end.set()
    bystander.join()
    assert bystander.exitcode == 0
