"""A Ray cluster as a place to run parts: `--executor ray://HOST:PORT`, the port of Ray's client. Needs the extra `ray`.

Ray itself retries a task whose worker or node died (`N_TRIES`).
"""

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from tenacity import Retrying, stop_after_attempt, wait_fixed

from data_schemas.errors import BackendError, KameError

try:
    import ray
    from grpc import RpcError
    from ray import exceptions
except ModuleNotFoundError as error:
    raise BackendError("Ray is not installed.", "Type: pip install 'kame-pipeline[ray]'") from error

from data_schemas.config import StageResources
from pipelines.run.executors import AGAIN, GIGABYTE

N_TRIES: Final = 3
"""Number of retries of a task whose worker has died, and of attempts to connect to a head."""


class RayCluster:
    """A Ray head and its nodes; connects at once, and silences Ray's log messages in this process.

    Args:
        address: the head's client port, as HOST:PORT.

    Raises:
        BackendError: nothing answers there, or it has another version of Ray or Python.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        logging.getLogger("ray").setLevel(logging.CRITICAL)  # our own error reports a lost connection, once
        again = Retrying(stop=stop_after_attempt(N_TRIES), wait=wait_fixed(1), reraise=True)
        try:  # retried, since the process that a head forks for each client may die before it has started
            self._context = again(ray.init, f"ray://{address}", log_to_driver=False, logging_level="CRITICAL")
        except (ConnectionError, RuntimeError) as error:
            raise BackendError(
                f"No Ray head answers at {address}: {str(error).strip().splitlines()[-1]}",
                "Start one with `ray start --head`; its client port is 10001 unless said otherwise.",
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.disconnect()

    def get_executor(self, needs: StageResources, n_tasks: int) -> Executor:
        """Returns an executor that runs Ray tasks with these resources each; the number of tasks does not matter."""
        return RayExecutor(num_cpus=needs.cores, memory=int(needs.memory_gb * GIGABYTE), num_gpus=needs.gpus)

    def count_slots(self, needs: StageResources) -> int:
        """Returns how many tasks with these needs all living nodes can run at once."""
        asked = {"CPU": needs.cores, "memory": needs.memory_gb * GIGABYTE, "GPU": needs.gpus}
        try:
            nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        except (ConnectionError, ValueError, RpcError, exceptions.RayError) as error:  # ValueError: a closed channel
            raise self._make_lost_error() from error
        return sum(int(min(node.get(name, 0) // n for name, n in asked.items() if n)) for node in nodes)

    def find_fault(self, error: BaseException, task: str) -> BackendError | None:
        """Returns the error for a task that killed its workers, or for a lost head; None for any other error."""
        died = (exceptions.WorkerCrashedError, exceptions.NodeDiedError, exceptions.OutOfMemoryError)
        if isinstance(error, died):
            return BackendError(
                f"{N_TRIES + 1} Ray workers died while they ran {task}.",
                "Most often memory ran out: raise resources.<stage>.memory_gb, and run again; finished parts are kept.",
            )
        is_own = isinstance(error, exceptions.RayTaskError)
        return (
            None if is_own or not isinstance(error, ConnectionError | exceptions.RayError) else self._make_lost_error()
        )

    def _make_lost_error(self) -> BackendError:
        """Makes the error for a lost head."""
        return BackendError(f"The Ray head at {self._address} was lost.", f"Start it. {AGAIN}")


class RayExecutor(Executor):
    """Ray tasks behind the interface of `concurrent.futures`.

    Args:
        needs: options of `ray.remote`: `num_cpus`, `memory` (bytes), `num_gpus`.
    """

    def __init__(self, **needs: float) -> None:
        self._remote = _REMOTE.options(**needs)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submits a task and returns its future; cancelling that cancels the task if it has not started."""
        ref = self._remote.remote(fn, args, kwargs)
        future = _RayFuture(ref)
        ref.future().add_done_callback(future.take)
        return future


class _RayFuture(Future[Any]):
    """The future of a Ray task, as `concurrent.futures` has it; cancelling it cancels the task."""

    def __init__(self, ref: Any) -> None:
        super().__init__()
        self._ref = ref

    def cancel(self) -> bool:
        """Cancels the future and Ray's task unless it is done or runs; returns whether the future is cancelled."""
        if not self.done() and super().cancel():
            with suppress(ConnectionError):  # a lost head has no task to cancel
                ray.cancel(self._ref)
        return self.cancelled()

    def take(self, ended: Future[Any]) -> None:
        """Takes over the result or the error of Ray's future when that has ended; the task's own error is unwrapped."""
        if not self.set_running_or_notify_cancel():
            return
        if (error := ended.exception()) is None:
            self.set_result(ended.result())
        else:
            cause = getattr(error, "cause", None)  # the task's own exception, which Ray wraps
            self.set_exception(cause if isinstance(cause, KameError) else error)


def _call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return fn(*args, **kwargs)


# Without max_calls Ray ends a worker, with the model in it, after each task that has a GPU.
_REMOTE = ray.remote(max_calls=0, max_retries=N_TRIES)(_call)
