"""Dask and Ray clusters on this machine, and tasks that kill a worker or the scheduler once."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from backends.chat.child_server import find_free_port
from data_schemas.config import RefreshConfig
from data_schemas.store import TEMPORARY
from pipelines.run.execute import run_on_part
from pipelines.run.parts import Part, PartRecord

ROOT = Path(__file__).resolve().parents[2]
START_S = 300.0
"""How long a cluster may take to start: 6 s where this was written, with nobody else at work."""

ITSELF = 0
"""The victim that is the worker in which the task runs."""


def kill_once(config: RefreshConfig, stage: str, part: Part) -> PartRecord:
    """Runs a stage on a part by `run_on_part`, but first kills a process group if the file `OUT.victim` exists.

    The file holds the id of the group, or `ITSELF`. It is renamed to `OUT.killed`, so that only one task kills. A file
    that is half written is left in the dataset.
    """
    victim = Path(f"{config.out}.victim")
    killed = Path(f"{config.out}.killed")
    with suppress(FileNotFoundError):
        victim.rename(killed)  # one task gets it
        (Path(config.out) / f"half.parquet.0123{TEMPORARY}").write_bytes(b"half")
        group = int(killed.read_text())
        if group == ITSELF:
            os.kill(os.getpid(), signal.SIGKILL)
        os.killpg(group, signal.SIGKILL)
    return run_on_part(config, stage, part)


class LocalCluster:
    """A cluster's programs on this machine, which run during a `with` block.

    Args:
        kind: dask or ray.
        folder: for logs and what workers write beside the store.
        port: port of the scheduler, such as that of one that was killed; 0: a free one.
    """

    def __init__(self, kind: str, folder: Path, n_workers: int = 2, port: int = 0) -> None:
        self.kind, self._folder, self._n_workers = kind, folder, n_workers
        self.port = port or find_free_port(0, "test")
        self._programs: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        """What `--executor` takes."""
        return f"{self.kind}://127.0.0.1:{self.port}"

    @property
    def scheduler(self) -> int:
        """The process group of the scheduler, or of Ray's head."""
        return self._programs[0].pid

    def __enter__(self) -> "LocalCluster":
        self._folder.mkdir(parents=True, exist_ok=True)
        if self.kind == "dask":
            self._start("scheduler", "dask", "scheduler", "--host", "127.0.0.1", "--port", self.port, "--no-dashboard")
            for number in range(self._n_workers):
                own = ("--nthreads", 1, "--no-dashboard", "--local-directory", self._folder / f"worker-{number}")
                self._start(f"worker-{number}", "dask", "worker", f"tcp://127.0.0.1:{self.port}", *own)
            return self
        ports = ("--port", find_free_port(0, "test"), "--ray-client-server-port", self.port, "--min-worker-port", 0)
        sizes = ("--num-cpus", self._n_workers, "--object-store-memory", 80_000_000, "--max-worker-port", 0)
        place = ("--node-ip-address", "127.0.0.1", "--temp-dir", self._short_folder())
        quiet = ("--include-dashboard", "false", "--disable-usage-stats", "--block")
        self._start("head", "ray", "start", "--head", *ports, *sizes, *place, *quiet)
        self._wait_for_scheduler()
        return self

    def __exit__(self, *error: object) -> None:
        for program in reversed(self._programs):
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                program.wait(timeout=30)
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()
        shutil.rmtree(self._short_folder(), ignore_errors=True)

    def _short_folder(self) -> Path:
        """Returns Ray's folder, of a short path: Ray makes sockets in it, whose names may have a hundred characters."""
        return Path(tempfile.gettempdir()) / f"kame-ray-{os.getpid()}-{self.port}"

    def _start(self, name: str, program: str, *arguments: object) -> None:
        """Starts a program that logs to NAME.log, in its own process group; if it is the scheduler, waits for it."""
        variables = os.environ | {
            "PYTHONPATH": str(ROOT),
            "RAY_memory_monitor_refresh_ms": "0",
            "RAY_raylet_start_wait_time_s": "300",
            "RAY_worker_niceness": "0",
        }
        with (self._folder / f"{name}.log").open("ab") as log:
            self._programs.append(
                subprocess.Popen(
                    [Path(sys.executable).with_name(program), *map(str, arguments)],
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
        if name == "scheduler":
            self._wait_for_scheduler()

    def _wait_for_scheduler(self) -> None:
        """Waits until the scheduler accepts connections.

        Raises:
            RuntimeError: it ended, or does not start within `START_S`.
        """
        until_s = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                if self._programs[0].poll() is not None or time.monotonic() > until_s:
                    log = next(self._folder.glob("[hs]*.log")).read_text()
                    raise RuntimeError(f"The scheduler of {self.kind} does not start: {log[-2000:]}") from None
                time.sleep(0.1)
            else:
                return


@contextmanager
def dying(config: RefreshConfig, group: int) -> Iterator[None]:
    """Makes the next task of `kill_once` in a `with` block kill a process group.

    Raises:
        FileNotFoundError: no task has killed it when the block ends.
    """
    Path(f"{config.out}.victim").write_text(str(group))
    yield
    Path(f"{config.out}.killed").unlink()
