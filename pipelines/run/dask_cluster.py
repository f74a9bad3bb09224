"""A Dask cluster as a place to run parts: `--executor dask://HOST:PORT`. Needs the extra `dask`.

Dask itself retries a task whose worker died (`distributed.scheduler.allowed-failures` times). Start workers with one
thread each, and with those of the resources CPU, MEMORY (bytes) and GPU that are to be limited.
"""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Executor
from types import TracebackType
from typing import Any, Final, Self

from data_schemas.errors import BackendError

try:
    from distributed import Client, KilledWorker
except ModuleNotFoundError as error:
    raise BackendError("Dask is not installed.", "Type: pip install 'kame-pipeline[dask]'") from error

from data_schemas.config import StageResources
from pipelines.run.executors import AGAIN, GIGABYTE

CONNECT_S: Final = 30
"""Timeout in seconds for the scheduler's answer."""


class _Client(Client):  # type: ignore[misc]
    """Dask's client, except that an interrupted program can end while no scheduler answers."""

    def __del__(self) -> None:
        """Closes the connection, unless it was never made: Dask would then wait for twice `CONNECT_S`."""
        if self.status != "connecting":
            super().__del__()


class DaskCluster:
    """A Dask scheduler and its workers; connects at once, and silences Dask's log messages in this process.

    Args:
        address: the scheduler's address, as HOST:PORT.

    Raises:
        BackendError: nothing answers there, or not a Dask scheduler.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # our own error reports a lost connection, once
        try:
            self._client = _Client(f"tcp://{address}", timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise BackendError(
                f"No Dask scheduler answers at {address}: {error}.", "Start one with `dask scheduler` and its workers."
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close(timeout=CONNECT_S)

    def get_executor(self, needs: StageResources, n_tasks: int) -> Executor:
        """Returns Dask's executor for tasks that request these resources; `n_tasks` does not matter.

        A resource other than a GPU is requested only if some worker declares it.
        """
        executor: Executor = self._client.get_executor(
            pure=False, resources=_select_resources(needs, self._list_workers())
        )
        return executor

    def count_slots(self, needs: StageResources) -> int:
        """Returns how many tasks with these needs all workers can run at once, by their threads and resources."""
        workers = self._list_workers()
        asked = _select_resources(needs, workers).items()
        return sum(
            int(min([worker["nthreads"], *(worker["resources"].get(name, 0) // n for name, n in asked)]))
            for worker in workers
        )

    def find_fault(self, error: BaseException, task: str) -> BackendError | None:
        """Returns the error for a task that killed its workers, or for a lost scheduler; None for any other error."""
        if isinstance(error, KilledWorker):
            return BackendError(
                f"{error.allowed_failures + 1} Dask workers died while they ran {task}, the last at "
                f"{error.last_worker.address}.",
                "Most often memory ran out: start workers with more, and run again; finished parts are kept.",
            )
        return self._make_lost_error() if isinstance(error, CancelledError) else None

    def _list_workers(self) -> list[dict[str, Any]]:
        """Returns what the scheduler knows of its workers; raises `BackendError` if it was lost."""
        if self._client.status != "running":
            raise self._make_lost_error()
        return list(self._client.scheduler_info(n_workers=-1)["workers"].values())

    def _make_lost_error(self) -> BackendError:
        """Makes the error for a lost scheduler."""
        return BackendError(f"The Dask scheduler at {self._address} was lost.", f"Start it and its workers. {AGAIN}")


def _select_resources(needs: StageResources, workers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Returns the resources that a task requests, by name: GPUs, and others only if some worker declares them."""
    counted = {name for worker in workers for name in worker["resources"]} | {"GPU"}
    amounts = {"CPU": needs.cores, "MEMORY": needs.memory_gb * GIGABYTE, "GPU": needs.gpus}
    return {name: n for name, n in amounts.items() if n and name in counted}
