"""A run as tasks: in their order, each list made of what those before it made, and nothing left open by an error."""

from functools import partial
from operator import add
from pathlib import Path

import pytest

from data_schemas.config import OracleConfig
from flows.runs.refresh import run_refresh
from flows.runs.tasks import Task, Tasks, run_tasks
from tests.support.runs import Silent, config_on_doubles


def count_to(n: int, events: list[str]) -> Tasks[int]:
    """One number, then so many sums at once; a run that holds something open meanwhile."""
    events.append("open")
    try:
        first = Task("first", "", lambda: 1)
        yield [first]
        sums = [Task("sum", f"part-{k}", partial(add, first.made, k)) for k in range(n)]
        yield [*sums]
        return sum(each.made for each in sums)
    finally:
        events.append("closed")


def test_what_a_run_holds_open_is_closed_before_an_error_of_a_task_goes_on() -> None:
    events: list[str] = []

    def run_task(each: Task[int]) -> None:
        if each.name == "sum":
            raise ZeroDivisionError
        each.run()

    with pytest.raises(ZeroDivisionError):
        run_tasks(count_to(2, events), run_task)
    assert events == ["open", "closed"]


@pytest.mark.full
def test_random_oracles_are_one_task_since_they_look_into_all_shards(tmp_path: Path) -> None:
    titles: list[str] = []

    def run_task(each: Task[object]) -> None:
        titles.append(each.title)
        each.run()

    random = {"oracle": OracleConfig(simulator="random", version="random")}
    config = config_on_doubles(tmp_path / "dataset").model_copy(update=random)
    _, manifest, _ = run_refresh(config, Silent(), run_task, by_shard=True)
    assert manifest.counts.events > 0
    assert [each for each in titles if each.startswith("oracle")] == ["oracle"]
    assert all("-s0" in each for each in titles if each not in ("plan", "oracle", "publish"))
