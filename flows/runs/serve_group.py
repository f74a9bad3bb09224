"""A server of several processes: starts and restarts them; loads no model itself."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from data_schemas.config.serving import ServeConfig
from data_schemas.errors import ConfigError, KameError
from flows.runs.listening import catch_end_signals, check_certificate, format_url, open_listener, wait_for_first
from kame_model.serve.processes.group import Launch, ProcessGroup
from kame_model.serve.processes.shared_counts import COUNTS, SharedCounts

_LOG = logging.getLogger(__name__)
_COUNT_GPUS = "import torch; print(torch.cuda.device_count())"


@dataclass(frozen=True, slots=True)
class ServingGroup:
    """A running server of several processes and its `url` (http or https)."""

    url: str
    group: ProcessGroup


async def run_group(
    config: ServeConfig,
    read_again: Callable[[], ServeConfig],
    on_ready: Callable[[ServingGroup], None],
    on_drain: Callable[[ServingGroup], None],
) -> None:
    """Serves from several processes until SIGTERM or SIGINT, then lets sessions finish; a second signal ends them.

    SIGHUP restarts the processes in turn.

    Args:
        read_again: reads the current configuration at each SIGHUP.
        on_ready: called when the server accepts connections.
        on_drain: called when new callers are refused and running sessions may finish.

    Raises:
        KameError: a process did not start, the address is not available, or the certificate cannot be read.
    """
    check_certificate(config.care)
    launch = Launch([sys.executable, "-m", "flows.runs.serve_process"], make_environment(config))
    with open_listener(config) as listener, tempfile.TemporaryDirectory(prefix="kame-serve-") as folder:
        counts = SharedCounts(Path(folder) / COUNTS)
        group = ProcessGroup(config, launch, listener, Path(folder), counts)
        running = ServingGroup(format_url(config, listener), group)
        with catch_end_signals() as asked:
            await wait_for_first(group.start(), asked.wait())
            if not asked.is_set():
                on_ready(running)
                with _restart_on_signal(group, config, read_again):
                    await wait_for_first(asked.wait(), group.wait_until_broken())
            on_drain(running)
            asked.clear()
            ending = asyncio.create_task(group.end())
            await wait_for_first(asyncio.wait([ending]), asked.wait())
            if not ending.done():
                await group.end(now=True)
            await ending
        counts.close()


def make_environment(config: ServeConfig) -> Callable[[int], Mapping[str, str]]:
    """Returns a function that makes the environment variables of a process from its number.

    Each process gets one GPU, if there are any, and an equal share of the cores.

    An OMP_NUM_THREADS that is set already is kept.
    """
    gpus = [] if config.device == "cpu" else find_gpus()
    if gpus and len(gpus) < config.processes:
        _LOG.warning("%d processes share %d GPUs: each loads the model's weights.", config.processes, len(gpus))
    n_threads = max(1, (os.cpu_count() or 1) // config.processes)

    def make_process_environment(number: int) -> Mapping[str, str]:
        own = {"CUDA_VISIBLE_DEVICES": gpus[number % len(gpus)]} if gpus else {}
        return {"OMP_NUM_THREADS": str(n_threads), **os.environ, **own}

    return make_process_environment


def find_gpus() -> list[str]:
    """Returns the GPUs that may be used, as CUDA_VISIBLE_DEVICES names them; none if torch finds none or fails.

    torch counts them in another process.
    """
    done = subprocess.run([sys.executable, "-c", _COUNT_GPUS], capture_output=True, text=True, check=False)  # noqa: S603
    n_gpus = int(done.stdout) if done.returncode == 0 else 0
    named = [each.strip() for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each.strip()]
    return (named or [str(number) for number in range(n_gpus)])[:n_gpus]


@contextmanager
def _restart_on_signal(
    group: ProcessGroup, config: ServeConfig, read_again: Callable[[], ServeConfig]
) -> Iterator[None]:
    """Makes SIGHUP restart the processes in turn with the current configuration, for the duration of a `with` block.

    A configuration that is invalid, or has another host, port or number of processes, is logged, and nothing restarts.
    """
    loop, restarts = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def restart() -> None:
        """Begins a restart with the current configuration; only logs if that is invalid or a restart is going on."""
        if restarts:
            _LOG.warning("The processes are already being restarted; send SIGHUP again when that has finished.")
            return
        try:
            new = read_again()
            for name in ("host", "port", "processes"):
                if getattr(new, name) != getattr(config, name):
                    raise ConfigError(f"{name} cannot change while the server runs.", "Stop it and start it again.")
            check_certificate(new.care)
        except KameError as error:
            _LOG.error("Nothing is restarted: %s", error)
            return
        task = asyncio.create_task(group.restart(new))
        restarts.add(task)
        task.add_done_callback(restarts.discard)

    loop.add_signal_handler(signal.SIGHUP, restart)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        for task in list(restarts):
            task.cancel()
