"""The parent of a server of several processes: accepts callers, distributes them, and restarts processes.

It loads no model and reads nothing that callers send: a caller's socket is passed to a process unread, and that process
does TLS, HTTP and the conversation.
"""

import asyncio
import logging
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from data_schemas import errors
from data_schemas.config.serving import ServeConfig
from data_schemas.errors import BackendError, KameError
from kame_model.serve.processes.channel import END, RETIRE, Report, read_reports, send_order, send_socket
from kame_model.serve.processes.shared_counts import SharedCounts
from kame_model.serve.processes.siblings import get_socket_path
from kame_model.serve.web.accepting import accept_clients

_LOG = logging.getLogger(__name__)
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0
"""Delay before a process that died is restarted; it doubles each time a process dies before it has served."""
_GRACE_S = 30.0
"""Seconds beyond its callers' time that a process may take to end before it is killed."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a process is started.

    Attributes:
        command: the command line, without the process's own options.
        environment: of each process, by its number.
    """

    command: Sequence[str]
    environment: Callable[[int], Mapping[str, str]]


@dataclass(eq=False, slots=True)
class ProcessSlot:
    """A slot for one process of the server and its successors.

    Attributes:
        config: of the next process.
        report: the last one of the current process.
        n_given: sockets given to it.
        is_end_requested: whether its end was requested.
        launched: the configuration of the last started process.
        hurry: set to skip the delay before the next process.
        changed: set, and replaced, whenever a report has arrived or the process has ended.
    """

    number: int
    config: ServeConfig
    process: asyncio.subprocess.Process | None = None
    channel: socket.socket | None = None
    report: Report = field(default_factory=Report)
    n_given: int = 0
    is_end_requested: bool = False
    launched: ServeConfig | None = None
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_alive(self) -> bool:
        """Whether there is a process that takes sockets, which it also does while it drains, to refuse the callers."""
        return self.channel is not None and self.report.phase in ("serving", "draining")

    @property
    def rank(self) -> tuple[bool, bool, bool, bool, int]:
        """The rank by which new callers are distributed: they go to the slot with the lowest one.

        It is a slot that is not ending, has room, and has the fewest connections.

        If all are ending, those with callers come first: the others may be gone in a moment.
        """
        n_waiting = self.n_given - self.report.n_taken
        n_entering = self.report.n_connections - self.report.n_sessions + n_waiting
        has_room = not self.report.unready and self.report.n_free > n_entering
        may_be_gone = self.is_end_requested and not self.report.n_sessions
        n_connections = self.report.n_connections + n_waiting
        return self.is_end_requested, may_be_gone, not has_room, bool(self.report.unready), n_connections

    def note(self, report: Report) -> None:
        """Stores a report, and wakes those who wait for `changed`."""
        self.report = report
        self.changed.set()
        self.changed = asyncio.Event()


class ProcessGroup:
    """The processes of one server.

    Args:
        config: of each; `processes` is their number.
        launch: how one is started.
        listener: the address that all share.
        folder: private; for the processes' sockets and shared counts.
        counts: in that folder.
    """

    def __init__(
        self, config: ServeConfig, launch: Launch, listener: socket.socket, folder: Path, counts: SharedCounts
    ) -> None:
        self._launch, self._listener, self._folder, self._counts = launch, listener, folder, counts
        self._slots = [ProcessSlot(number, config) for number in range(config.processes)]
        self._tasks: list[asyncio.Task[None]] = []
        self._has_started = self._is_ending = False

    @property
    def n_sessions(self) -> int:
        """The number of open sessions in all processes."""
        return sum(slot.report.n_sessions for slot in self._slots if slot.is_alive)

    @property
    def pids(self) -> list[int | None]:
        """The process ids; None for one that is being restarted."""
        return [None if slot.process is None else slot.process.pid for slot in self._slots]

    async def start(self) -> None:
        """Starts the first process, then the others, and then accepts callers.

        Raises:
            KameError: a process did not start; none is left.
        """
        try:
            for slots in (self._slots[:1], self._slots[1:]):
                self._tasks += [asyncio.create_task(self._keep_running(slot)) for slot in slots]
                await asyncio.gather(*(self._wait_until_served(slot) for slot in slots))
        except BaseException:
            await self.end(now=True)
            raise
        self._has_started = True
        self._tasks.append(asyncio.create_task(accept_clients(self._listener, self._assign_caller)))

    async def wait_until_broken(self) -> None:
        """Waits until the parent itself fails, and raises its error; after `end`, returns or raises CancelledError."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def restart(self, config: ServeConfig) -> None:
        """Restarts the processes with `config`, one after another, each as soon as its callers have left.

        New callers go to the others. If a new process does not start, an error is logged, its slot goes back to its
        previous configuration, and the remaining old ones continue.
        """
        for slot in self._slots:
            others = [each for each in self._slots if each is not slot]
            while not any(each.is_alive and not each.is_end_requested for each in others):
                await _wait_for_change(self._slots)
            previous, slot.config, slot.is_end_requested = slot.config, config, True
            slot.hurry.set()
            _LOG.warning(
                "Process %d will be restarted when its %d callers have left.", slot.number, slot.report.n_sessions
            )
            self._counts.record_state(slot.number, "draining")
            if slot.channel is not None:
                await send_order(slot.channel, RETIRE)
            while slot.launched is not config:
                await slot.changed.wait()
            try:
                await self._wait_until_served(slot)
            except KameError as error:
                slot.config = previous
                slot.hurry.set()
                _LOG.error(
                    "Process %d does not start; it goes back to its previous configuration, and the other processes "
                    "are not restarted: %s",
                    slot.number,
                    error,
                )
                return
            _LOG.warning("Process %d serves again.", slot.number)

    async def end(self, now: bool = False) -> None:
        """Ends all processes: admits no more callers, waits for open sessions as long as configured, and returns.

        Args:
            now: whether to end sessions at once. May be called during a call that waits.
        """
        self._is_ending = True
        running = [slot for slot in self._slots if slot.process is not None]
        await asyncio.gather(*(self._end_process(slot, now) for slot in running))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _end_process(self, slot: ProcessSlot, now: bool) -> None:
        """Asks a process to end, at once or when its sessions have, and waits; one that takes too long is killed."""
        process = slot.process
        slot.is_end_requested = True
        if process is None:
            return
        self._counts.record_state(slot.number, "draining")
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_GRACE_S + (0 if now else slot.config.limits.drain_s)):
                if now and slot.channel is not None:
                    await send_order(slot.channel, END)
                await process.wait()
        except TimeoutError:
            _LOG.error("Process %d did not end, and is killed.", slot.number)
            process.kill()
            await process.wait()

    def _assign_caller(self, accepted: socket.socket) -> None:
        """Passes a caller to the best process, or closes the connection if none takes it."""
        for slot in sorted((each for each in self._slots if each.is_alive), key=lambda each: each.rank):
            if slot.channel is not None and send_socket(slot.channel, accepted):
                slot.n_given += 1
                return
        accepted.close()

    async def _wait_until_served(self, slot: ProcessSlot) -> None:
        """Waits until a slot's process serves.

        Raises:
            KameError: it ended before that.
        """
        while slot.report.phase != "serving":
            if slot.report.phase == "failed":
                kind = getattr(errors, slot.report.error_kind, BackendError)
                raise kind(slot.report.error_what, slot.report.error_remedy)
            await slot.changed.wait()

    async def _keep_running(self, slot: ProcessSlot) -> None:
        """Starts a slot's process, and restarts it whenever it has ended, until the server ends.

        After a failure it waits before it does so, longer each time that the process has not served.
        """
        wait_s = _FIRST_WAIT_S
        while not self._is_ending:
            has_served = await self._run_once(slot)
            if self._is_ending:
                return
            wait_s = _FIRST_WAIT_S if has_served else min(2 * wait_s, _LONGEST_WAIT_S)
            if not (slot.is_end_requested and has_served):
                with suppress(TimeoutError):
                    await asyncio.wait_for(slot.hurry.wait(), wait_s)

    async def _run_once(self, slot: ProcessSlot) -> bool:
        """Runs one process from its start to its end; returns whether it has served, False if it cannot start.

        Cancelling this kills the process.
        """
        channel, process_end = socket.socketpair()
        channel.setblocking(False)
        get_socket_path(self._folder, slot.number).unlink(missing_ok=True)
        self._counts.record_state(slot.number, "loading")
        own = ["--channel", str(process_end.fileno()), "--number", str(slot.number), "--folder", str(self._folder)]
        with channel:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._launch.command,
                    *own,
                    stdin=subprocess.PIPE,
                    env=dict(self._launch.environment(slot.number)),
                    pass_fds=[process_end.fileno()],
                    process_group=0,  # Ctrl-C is for the parent, which ends the others
                )
            except OSError as error:
                what = f"Process {slot.number} of the server cannot be started: {error.strerror or error}."
                slot.note(Report(phase="failed", error_kind="BackendError", error_what=what))
                return False
            finally:
                process_end.close()
            slot.process, slot.channel, slot.n_given, slot.is_end_requested = process, channel, 0, self._is_ending
            slot.launched = slot.config
            slot.hurry.clear()
            slot.note(Report())
            _write_config(process, slot)
            has_served = False
            try:
                async for report in read_reports(channel):
                    if report.phase == "serving" and not has_served:
                        has_served = True
                        self._counts.record_state(slot.number, "serving")
                    slot.note(report)
                status = await process.wait()
            except asyncio.CancelledError:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
                raise
            finally:
                slot.channel = slot.process = None
        self._record_end(slot, process.pid, status)
        return has_served

    def _record_end(self, slot: ProcessSlot, pid: int, status: int) -> None:
        """Records the end of a slot's process in the counts and as its report; an unexpected one is also logged."""
        n_lost = self._counts.forget_process(pid)
        get_socket_path(self._folder, slot.number).unlink(missing_ok=True)
        failed = slot.report
        if failed.phase != "failed":
            how = f"by signal {-status}" if status < 0 else f"with exit status {status}"
            failed = Report(
                phase="failed",
                error_kind="BackendError",
                error_what=f"Process {slot.number} of the server has ended {how}.",
                error_remedy="Its last messages are above.",
            )
        is_expected = slot.is_end_requested and status == 0
        if not is_expected and self._has_started and not self._is_ending:
            self._counts.record_state(slot.number, "dead")
            _LOG.error("%s It is restarted; %d callers lost their connection.", failed.error_what, n_lost)
        slot.note(Report() if is_expected else failed)


def _write_config(process: asyncio.subprocess.Process, slot: ProcessSlot) -> None:
    """Sends a process its configuration on stdin, with a folder for its recordings alone, as it deletes the partial
    files there when it starts. `Recordings` knows this folder by its name.
    """
    record = slot.config.record
    if record.folder is not None:
        record = record.model_copy(update={"folder": str(Path(record.folder) / f"process-{slot.number}")})
    own = slot.config.model_copy(update={"processes": 1, "record": record})
    if process.stdin is not None:
        process.stdin.write(own.model_dump_json().encode())
        process.stdin.close()


async def _wait_for_change(slots: Sequence[ProcessSlot]) -> None:
    """Waits until a report has arrived from one of the slots, or its process has ended."""
    waits = [asyncio.create_task(slot.changed.wait()) for slot in slots]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
