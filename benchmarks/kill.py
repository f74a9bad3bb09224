"""Kills runs on deterministic test doubles at random moments, runs them again, and compares every byte.

    python -m benchmarks.kill --n 100 [--seed 0]

A run is killed by SIGKILL in one of three ways: after a random time; before a random file operation (so that short
steps are hit as often as they write); or after a random time as the real command with two worker processes, of which
none may be left. The same run is started again at once, and its result must be that of a run that was never killed. The
first two are forked from a process that has imported all modules, so that they take little more time than one run.
"""

import argparse
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from data_schemas.config import RefreshConfig
from flows.runs.refresh import run_refresh
from pipelines.run.stages import STAGES
from tests.support.runs import RunError, Silent, assert_all_gone, assert_same, config_on_doubles, start_command

Kind = Literal["time", "operation", "command"]
KINDS: tuple[Kind, ...] = ("time", "operation", "command")

_STEPS = {
    "plan": (".store/parts/*/items-*.json",),
    **{stage: (f".store/parts/*/{stage}-*.json",) for stage in STAGES},
    "shards": ("data/*.parquet", "oracles/*/*.parquet"),
    "rejects": ("rejects/*.parquet",),
    "card": ("README.md",),
    "manifest": ("dataset.json",),
}
"""Steps of a run in order, with the files whose number shows that a step is done."""

_CHANGES = frozenset({"open", "os.rename", "os.remove", "os.mkdir"})
_PRELOAD = ["flows.runs.refresh", "datasets", "openai", "pyroomacoustics"] + [
    f"backends.{kind}.double" for kind in ("tts", "aligner", "chat")
]
"""Modules that are imported before any run is forked; otherwise they take half of a run's time."""


@dataclass(frozen=True, slots=True)
class Kill:
    """A run that was killed: how, after which share of a whole run, and in which step."""

    kind: Kind
    share: float
    step: str


def find_reached_step(out: Path, whole: Path) -> str:
    """Returns the step in which a run was killed, by comparing the files in `out` with those of a whole run."""
    if not (out / ".store" / "lock").exists():
        return "start"
    for step, patterns in _STEPS.items():
        if any(len(list(out.glob(each))) < len(list(whole.glob(each))) for each in patterns):
            return step
    return "run record"


class Killing:
    """Makes a reference dataset without interruption, and then kills runs that make the same dataset.

    Args:
        folder: folder of all datasets; those that are right are deleted.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.whole = folder / "whole"
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOAD)
        self._run_forked(_run, config_on_doubles(folder / "first"))  # starts the fork server, so that it is not timed
        receiver, sender = self._context.Pipe(duplex=False)
        fork_s = self._run_forked(_run_counting, config_on_doubles(self.whole), sender)
        self._n_operations: int = receiver.recv()
        self._whole_s: dict[Kind, float] = {"time": fork_s, "command": self._time_command()}

    def kill(self, kind: Kind, share: float, number: int) -> Kill:
        """Kills a run after a share of a whole run, runs it again, checks its result, and returns how it was killed.

        If a run ends before it is killed, its duration becomes the new estimate, and another run is started.

        Raises:
            RunError: the dataset differs, processes are left, or ten runs ended before they were killed.
        """
        for attempt in range(10):
            out = self.folder / f"killed-{number}-{attempt}"
            step = self._kill_command(out, share) if kind == "command" else self._kill_fork(kind, out, share)
            if step is not None:
                assert_same(out, self.whole)
            shutil.rmtree(out, ignore_errors=True)
            if step is not None:
                return Kill(kind, share, step)
        raise RunError(f"Ten runs ended before they could be killed at {share:.0%} of their time.")

    def _kill_fork(self, kind: Kind, out: Path, share: float) -> str | None:
        """Kills a forked run after a share of a whole run's time or file operations, and runs it again.

        Returns the step that the killed run had reached, or None if it ended first.
        """
        config = config_on_doubles(out)
        target: Callable[..., None] = _run
        arguments: tuple[Any, ...] = (config,)
        if kind == "operation":
            target, arguments = _run_until, (config, 1 + int(share * self._n_operations))
        started_s = time.monotonic()
        process = self._context.Process(target=target, args=arguments)
        process.start()
        process.join(timeout=None if kind == "operation" else share * self._whole_s["time"])
        process.kill()
        process.join()
        if process.exitcode != -signal.SIGKILL:
            self._whole_s[kind] = time.monotonic() - started_s
            return None
        return self._run_again(out)

    def _kill_command(self, out: Path, share: float) -> str | None:
        """Kills the real command after a share of its time, and runs it again; no process may be left.

        Returns the step that the killed run had reached, or None if it ended first.
        """
        started_s = time.monotonic()
        with start_command(config_on_doubles(out, workers=2), self.folder) as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=share * self._whole_s["command"])
                self._whole_s["command"] = time.monotonic() - started_s
            process.kill()  # its workers are left to themselves
            step = self._run_again(out) if process.wait() == -signal.SIGKILL else None
            assert_all_gone(process)
        return step

    def _time_command(self) -> float:
        """Runs the command without interruption, checks its dataset, and returns its duration in seconds.

        Raises:
            RunError: it failed, or the dataset differs.
        """
        started_s = time.monotonic()
        out = self.folder / "command"
        with start_command(config_on_doubles(out, workers=2), self.folder) as process:
            said, _ = process.communicate()
        took_s = time.monotonic() - started_s
        if process.returncode:
            raise RunError(f"The uninterrupted command ended with {process.returncode}: {said}")
        assert_same(out, self.whole)
        return took_s

    def _run_again(self, out: Path) -> str:
        """Runs a killed run to its end, and returns the step in which it was killed."""
        step = find_reached_step(out, self.whole)
        self._run_forked(_run, config_on_doubles(out))
        return step

    def _run_forked(self, target: Callable[..., None], *arguments: Any) -> float:
        """Runs a refresh to its end in a forked process, and returns its duration in seconds.

        Raises:
            RunError: it failed.
        """
        started_s = time.monotonic()
        process = self._context.Process(target=target, args=arguments)
        process.start()
        process.join()
        if process.exitcode != 0:
            raise RunError(f"An uninterrupted run ended with {process.exitcode}; its error is above.")
        return time.monotonic() - started_s


def kill_many(folder: Path, n: int, n_commands: int, seed: int = 0) -> Iterator[Kill]:
    """Kills `n` runs, `n_commands` of them as the real command, and yields each kill after its result was checked.

    The moments of each kind are spread evenly over the run, each at random within its share.

    Raises:
        RunError: at the first run with a wrong result.
    """
    killing = Killing(folder)
    drawn = random.Random(seed)
    n_times = (n - n_commands) // 2
    number = 0
    for kind, n_of_kind in zip(KINDS, (n_times, n - n_commands - n_times, n_commands), strict=True):
        for place in range(n_of_kind):
            yield killing.kill(kind, (place + drawn.random()) / n_of_kind, number)
            number += 1


def _run(config: RefreshConfig) -> None:
    """Runs a refresh in this process, without output."""
    run_refresh(config, Silent())


def _run_counting(config: RefreshConfig, sender: "Connection[int, int]") -> None:
    """Runs a refresh, and sends the number of its file operations."""
    count = _count_operations(config.out, None)
    _run(config)
    sender.send(count[0])


def _run_until(config: RefreshConfig, n_operations: int) -> None:
    """Makes a refresh in this process, which is killed before its n-th file operation."""
    _count_operations(config.out, n_operations)
    _run(config)


def _count_operations(folder: str, last: int | None) -> list[int]:
    """Starts to count the file operations of this process in a folder, and to kill the process before the `last` one.

    Returns a list with the count, which is updated; with `last` None, nothing is killed.
    """
    count = [0]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _CHANGES or not str(arguments[0]).startswith(folder):
            return
        if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
        count[0] += 1
        if count[0] == last:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return count


def main() -> None:
    """Kills runs and counts them by step; exit code 1 at the first difference, whose datasets are not deleted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kill", description="Kills runs and compares bytes.")
    parser.add_argument("--n", type=int, default=100, help="number of runs to kill; one in five is the real command")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kame-kill-"))
    started_s = time.monotonic()
    kills: list[Kill] = []
    try:
        for kill in kill_many(folder, options.n, options.n // 5, options.seed):
            kills.append(kill)
            print(f"{len(kills):4d}  {kill.kind:<9}  at {kill.share:5.1%}  in {kill.step}: same bytes", flush=True)
    except RunError as error:
        sys.exit(f"After {len(kills)} kills: {error}")
    shutil.rmtree(folder)
    print(f"\n{len(kills)} runs killed and run again in {time.monotonic() - started_s:.0f} s; all bytes the same.")
    by_step = Counter((kill.step, kill.kind) for kill in kills)
    print(f"{'step':<12}" + "".join(f"{kind:>11}" for kind in KINDS))
    for step in ("start", *_STEPS, "run record"):
        print(f"{step:<12}" + "".join(f"{by_step[step, kind]:>11}" for kind in KINDS))


if __name__ == "__main__":
    main()
