"""Kills runs on deterministic test doubles at random moments, runs them again, and compares every byte.

    python -m benchmarks.kill --n 100 [--seed 0]

A run is killed by SIGKILL in one of two ways: before a random file operation (so that short steps are hit as often as
they write); or, one run in five, after a random time as the real command with two worker processes, of which none may
be left. The same run is started again at once, and its result must be that of a run that was never killed. The first
ones are forked from a process that has imported all modules, so that they take little more time than one run.
"""

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
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.command import make_parser, print_figures
from data_schemas.config import RefreshConfig
from flows.runs.refresh import run_refresh
from pipelines.run.stages import STAGES
from tests.support.runs import RunError, Silent, assert_all_gone, assert_same, config_on_doubles, start_command

KINDS = ("operation", "command")

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


def find_reached_step(out: Path, whole: Path) -> str:
    """Returns the step in which a run was killed, by comparing the files in `out` with those of a whole run."""
    if not (out / ".store" / "lock").exists():
        return "start"
    for step, patterns in _STEPS.items():
        if any(len(list(out.glob(each))) < len(list(whole.glob(each))) for each in patterns):
            return step
    return "run record"


class KilledRuns:
    """Makes a reference dataset without interruption, and then kills runs that make the same dataset.

    Raises:
        RunError: an uninterrupted run fails, or the real command makes another dataset.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.whole = folder / "whole"
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOAD)
        receiver, sender = self._context.Pipe(duplex=False)
        self._finish(self.whole, sender)
        self._n_operations: int = receiver.recv()
        started_s = time.monotonic()
        with start_command(config_on_doubles(folder / "command", workers=2), folder) as process:
            said, _ = process.communicate()
        self._command_s = time.monotonic() - started_s
        if process.returncode:
            raise RunError(f"The uninterrupted command ended with {process.returncode}: {said}")
        assert_same(folder / "command", self.whole)

    def kill(self, kind: str, share: float, number: int) -> str:
        """Kills a run after a share of a whole run, runs it again, checks its result, and returns the step it reached.

        If a run ends before it is killed, another one is started.

        Raises:
            RunError: the dataset differs, processes are left, or ten runs ended before they were killed.
        """
        for attempt in range(10):
            step, out = None, self.folder / f"killed-{number}-{attempt}"
            if kind == "command":
                step = self._kill_command(out, share)
            elif self._fork(out, 1 + int(share * self._n_operations)) == -signal.SIGKILL:
                step = self._finish(out)
            if step is not None:
                assert_same(out, self.whole)
            shutil.rmtree(out, ignore_errors=True)
            if step is not None:
                return step
        raise RunError(f"Ten runs ended before they could be killed at {share:.0%} of their time.")

    def _kill_command(self, out: Path, share: float) -> str | None:
        """Kills the real command after a share of its time, and runs it again; no process may be left.

        Returns the step that the killed run had reached, or None if it ended first; its time is the new estimate.
        """
        started_s = time.monotonic()
        with start_command(config_on_doubles(out, workers=2), self.folder) as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=share * self._command_s)
                self._command_s = time.monotonic() - started_s
            process.kill()  # its workers are left to themselves
            step = self._finish(out) if process.wait() == -signal.SIGKILL else None
            assert_all_gone(process)
        return step

    def _finish(self, out: Path, sender: "Connection[int, int] | None" = None) -> str:
        """Runs a refresh to its end, and returns the step that an earlier one had reached."""
        step = find_reached_step(out, self.whole)
        if code := self._fork(out, sender=sender):
            raise RunError(f"An uninterrupted run ended with {code}; its error is above.")
        return step

    def _fork(self, out: Path, last: int | None = None, sender: "Connection[int, int] | None" = None) -> int | None:
        """Runs `_run` in a forked process, and returns its exit code."""
        process = self._context.Process(target=_run, args=(config_on_doubles(out), last, sender))
        process.start()
        process.join()
        return process.exitcode


def _run(config: RefreshConfig, last: int | None, sender: "Connection[int, int] | None") -> None:
    """Runs a refresh, before whose file operation `last` this process is killed, and sends the number of these."""
    count = 0

    def count_change(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event not in _CHANGES or not str(arguments[0]).startswith(config.out):
            return
        if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
        count += 1
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count_change)
    run_refresh(config, Silent())
    if sender is not None:
        sender.send(count)


def kill_many(folder: Path, n: int, seed: int) -> Iterator[tuple[str, str]]:
    """Kills `n` runs, one in five as the real command; yields kind and step of each after its result was checked.

    The moments of each kind are spread evenly over the run, each at random within its share.

    Raises:
        RunError: at the first run with a wrong result.
    """
    killing, drawn, n_of = KilledRuns(folder), random.Random(seed), {"operation": n - n // 5, "command": n // 5}
    for number, (kind, at) in enumerate([(name, at) for name in KINDS for at in range(n_of[name])]):
        share = (at + drawn.random()) / n_of[kind]
        step = killing.kill(kind, share, number)
        print(f"{number + 1:4d}  {kind:<9}  at {share:5.1%}  in {step}: same bytes", file=sys.stderr, flush=True)
        yield kind, step


def main() -> None:
    """Kills runs and counts them by step; exit code 1 at the first difference, whose datasets are not deleted."""
    parser = make_parser(__doc__)
    parser.add_argument("--n", type=int, default=100, help="number of runs to kill; one in five is the real command")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kame-kill-"))
    started_s = time.monotonic()
    try:
        n_killed = Counter(kill_many(folder, options.n, options.seed))
    except RunError as error:
        sys.exit(str(error))
    shutil.rmtree(folder)
    steps = {step: {kind: n_killed[kind, step] for kind in KINDS} for step in ("start", *_STEPS, "run record")}
    print_figures({"same_bytes": n_killed.total(), "s": time.monotonic() - started_s, "steps": steps}, options.json)


if __name__ == "__main__":
    main()
