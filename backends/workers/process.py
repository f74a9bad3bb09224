"""Client side of a worker process: one process per engine and options, started on first use, stopped at exit."""

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from backends.engine import Samples
from backends.workers.environments import SERVE, get_environment
from backends.workers.frames import Frame, FrameError, read_frame, write_frame
from data_schemas.errors import BackendError, ConfigError

_LOG_TAIL_BYTES = 4096
_ENDING_S = 5.0  # time from a closed pipe to the exit of its process
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}  # processes, not threads, fill the cores


class WorkerRefusal(Exception):
    """The engine cannot handle this request through no fault of its own; the message says why."""


class Worker:
    """One engine in a process of its own environment.

    Args:
        name: its name in messages.
        python: the environment's interpreter.
        engine_file: the file whose class `ENGINE` runs there.
        options: the options of that class; JSON.
        timeout_s: timeout of one request, seconds; the first one also loads the model.

    Raises:
        ConfigError: the engine rejects these options.
        BackendError: it does not start, or the engine does not load.
    """

    def __init__(
        self, name: str, python: Path, engine_file: Path, options: Mapping[str, Any], timeout_s: float
    ) -> None:
        self.name = name
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process; closed with the last reference
        try:
            self._process = subprocess.Popen(  # noqa: S603
                [str(python), "-I", str(SERVE), str(engine_file), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=_ONE_THREAD | os.environ,
            )
        except OSError as error:
            raise BackendError(f"The worker {name} does not start: {error}.", self._find_remedy()) from error
        try:
            self.call("open", options)
        except WorkerRefusal as refusal:
            self.close()
            raise ConfigError(f"The worker {name} does not take its options: {refusal}.", "Correct them.") from refusal
        except BackendError:
            self.close()
            raise

    def is_running(self) -> bool:
        """Returns whether the process is running."""
        return self._process.poll() is None

    def call(self, method: str, arguments: Mapping[str, Any], samples: Samples | None = None) -> tuple[Any, Samples]:
        """Calls a method of the engine with arguments and audio; returns an object and audio, which may be empty.

        Raises:
            WorkerRefusal: the engine cannot handle this request.
            BackendError: the engine failed, or its process died, timed out or sent an invalid reply and was stopped.
        """
        sound = b"" if samples is None else np.ascontiguousarray(samples, dtype="<f4").tobytes()
        reply = self._send_request(Frame({"call": method, "arguments": dict(arguments)}, sound))
        if "refused" in reply.header:
            raise WorkerRefusal(reply.header["refused"])
        if "done" not in reply.header:
            raise BackendError(f"The worker {self.name} failed: {reply.header.get('failed')}.", self._find_remedy())
        return reply.header["done"], np.frombuffer(reply.sound, dtype="<f4").astype(np.float32)

    def close(self) -> None:
        """Kills the process; the worker cannot be used any more."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # unsent data to a dead process
                    stream.close()

    def _send_request(self, request: Frame) -> Frame:
        """Sends a request and returns the reply; requests of several threads wait for each other.

        Raises:
            BackendError: the process died, timed out or sent an invalid reply.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock, self._limit_time() as timed_out:
            try:
                write_frame(self._process.stdin, request)
                reply, why = read_frame(self._process.stdout), "it ended"
            except (OSError, ValueError) as error:  # a closed pipe
                reply, why = None, f"it ended ({error})"
            except FrameError as error:
                reply, why = None, f"it sent an invalid reply: {error}"
                self._process.kill()
        if reply is None:
            raise self._make_error(f"no answer in {self._timeout_s:g} s" if timed_out.is_set() else why)
        return reply

    @contextmanager
    def _limit_time(self) -> Iterator[threading.Event]:
        """Kills the process if the block takes longer than the timeout; yields an event that is set in that case."""
        timed_out = threading.Event()

        def give_up() -> None:
            timed_out.set()
            self._process.kill()

        timer = threading.Timer(self._timeout_s, give_up)
        timer.daemon = True
        timer.start()
        try:
            yield timed_out
        finally:
            timer.cancel()

    def _make_error(self, why: str) -> BackendError:
        """Stops the process and makes the error about it: why, its exit status, and the last line of its log."""
        with suppress(subprocess.TimeoutExpired):  # then it is killed
            self._process.wait(_ENDING_S)
        self.close()
        n_bytes = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, n_bytes - _LOG_TAIL_BYTES))
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        last = f"; its last line: {lines[-1]}" if lines else ""
        what = f"The worker {self.name} is gone: {why}. Exit status {self._process.returncode}{last}."
        return BackendError(what, self._find_remedy())

    def _find_remedy(self) -> str:
        return f"Run again; if that does not help, type: kame backends install {self.name} --again"


def get_worker(environment_name: str, options: Mapping[str, Any], timeout_s: float) -> Worker:
    """Returns the worker of an environment's engine with these options, after starting it if necessary.

    A process of KAME has one worker for each environment and options; after it has died, the next call starts another.

    Args:
        options: the engine's options, JSON.
        timeout_s: timeout of each request, seconds; a running worker keeps the one that it was started with.

    Raises:
        ConfigError: the engine rejects these options, or there is no such environment.
        BackendError: the environment is not installed, or the worker does not start.
    """
    key = (os.getpid(), environment_name, json.dumps(dict(options), sort_keys=True))
    with _starting:
        running = _RUNNING.get(key)
        if running is None or not running.is_running():
            running = _RUNNING[key] = _start(environment_name, options, timeout_s)
    return running


_RUNNING: dict[tuple[int, str, str], Worker] = {}
"""The key includes our process id: a forked process must not use its parent's pipe."""

_starting = threading.Lock()


def _start(environment_name: str, options: Mapping[str, Any], timeout_s: float) -> Worker:
    """Starts and returns a worker of an environment; raises as `get_worker`."""
    place = get_environment(environment_name)
    engine_file = place.find_engine_file()
    if engine_file is None:
        raise ConfigError(f"No engine runs behind a pipe in the environment {environment_name}.")
    if not place.is_installed():
        raise BackendError(
            f"The worker environment {environment_name} is not installed.",
            f"Type: kame backends install {environment_name}",
        )
    return Worker(environment_name, place.get_python(), engine_file, options, timeout_s)
