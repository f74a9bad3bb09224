"""The parent of a server of several processes: it takes callers, gives each to a process, and keeps processes going.

It loads no model and reads nothing of what callers send: a caller's socket goes to a process as it is, and TLS, HTTP
and the conversation are that process's own.
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
from kame_model.serve.processes.channel import END, RETIRE, Report, give_order, give_socket, read_reports
from kame_model.serve.processes.shared_counts import SharedCounts
from kame_model.serve.processes.siblings import get_socket_path
from kame_model.serve.web.accepting import accept_clients

_LOG = logging.getLogger(__name__)
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0
"""Before a process is started again that has died; each time it dies before it has served, twice as long."""
_GRACE_S = 30.0
"""Beyond what its callers may have, a process may take so long to end before it is killed."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a process is started.

    Attributes:
        command: of the process, without its own options.
        environment: of each process, by its number.
    """

    command: Sequence[str]
    environment: Callable[[int], Mapping[str, str]]


@dataclass(eq=False, slots=True)
class Place:
    """One process of the server, and those that come after it under its number.

    Attributes:
        config: with which the next process is started.
        report: the last of the process that there is.
        n_given: sockets given to it.
        is_told_to_end: it ends because it is to.
        launched: the configuration of the process that was started last.
        hurry: set to start the next process without waiting longer.
        changed: set, and another one put in its place, whenever a report has come or the process has ended.
    """

    number: int
    config: ServeConfig
    process: asyncio.subprocess.Process | None = None
    channel: socket.socket | None = None
    report: Report = field(default_factory=Report)
    n_given: int = 0
    is_told_to_end: bool = False
    launched: ServeConfig | None = None
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_alive(self) -> bool:
        """Whether there is a process that takes sockets."""
        return self.channel is not None and self.report.phase in ("serving", "draining")

    @property
    def rank(self) -> tuple[bool, bool, bool, bool, int]:
        """Callers go to the place whose rank is lowest: it does not end, has room, and has the fewest connections.

        Where all end those that have callers come first: the others may be gone in a moment.
        """
        n_waiting = self.n_given - self.report.n_taken
        n_entering = self.report.n_connections - self.report.n_sessions + n_waiting
        has_room = not self.report.unready and self.report.n_free > n_entering
        may_be_gone = self.is_told_to_end and not self.report.n_sessions
        n_connections = self.report.n_connections + n_waiting
        return self.is_told_to_end, may_be_gone, not has_room, bool(self.report.unready), n_connections

    def note(self, report: Report) -> None:
        """Takes a report."""
        self.report = report
        self.changed.set()
        self.changed = asyncio.Event()


class ProcessGroup:
    """The processes of one server.

    Args:
        config: of each; `processes` says how many there are.
        launch: how one is started.
        listener: the address that all share.
        folder: private; for the processes' sockets and what they count together.
        counts: in that folder.
    """

    def __init__(
        self, config: ServeConfig, launch: Launch, listener: socket.socket, folder: Path, counts: SharedCounts
    ) -> None:
        self._launch, self._listener, self._folder, self._counts = launch, listener, folder, counts
        self._places = [Place(number, config) for number in range(config.processes)]
        self._tasks: list[asyncio.Task[None]] = []
        self._has_started = self._is_ending = False

    @property
    def n_sessions(self) -> int:
        """Callers who talk, with any process."""
        return sum(place.report.n_sessions for place in self._places if place.is_alive)

    @property
    def pids(self) -> list[int | None]:
        """The system's numbers of the processes; None: one is being started again."""
        return [None if place.process is None else place.process.pid for place in self._places]

    async def start(self) -> None:
        """Starts the first process, then the others, and then takes callers.

        Raises:
            KameError: a process did not start; none is left.
        """
        try:
            for places in (self._places[:1], self._places[1:]):
                self._tasks += [asyncio.create_task(self._keep(place)) for place in places]
                await asyncio.gather(*(self._wait_until_served(place) for place in places))
        except BaseException:
            await self.end(now=True)
            raise
        self._has_started = True
        self._tasks.append(asyncio.create_task(accept_clients(self._listener, self._give)))

    async def wait_until_broken(self) -> None:
        """Waits until the parent itself cannot go on; raises what it failed with."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def restart(self, config: ServeConfig) -> None:
        """Ends one process after another, as soon as its callers have ended, and starts it again, by `config`.

        Callers who come meanwhile go to the others. Where a new one does not start those that have not been restarted
        go on as they are, which the log tells.
        """
        for place in self._places:
            others = [each for each in self._places if each is not place]
            while not any(each.is_alive and not each.is_told_to_end for each in others):
                await _wait_for_change(self._places)
            place.config, place.is_told_to_end = config, True
            place.hurry.set()
            _LOG.warning(
                "Process %d is to be started anew; its %d callers may finish.", place.number, place.report.n_sessions
            )
            self._counts.note_state(place.number, "draining")
            if place.channel is not None:
                give_order(place.channel, RETIRE)
            while place.launched is not config:
                await place.changed.wait()
            try:
                await self._wait_until_served(place)
            except KameError as error:
                _LOG.error("Process %d does not start; the others are left as they are: %s", place.number, error)
                return
            _LOG.warning("Process %d serves again.", place.number)

    async def end(self, now: bool = False) -> None:
        """Ends all processes: lets nobody in any more, waits for those who talk as long as they may, and returns.

        Args:
            now: those who talk are not waited for. May be called beside a call that waits.
        """
        self._is_ending = True
        running = [place for place in self._places if place.process is not None]
        await asyncio.gather(*(self._end_one(place, now) for place in running))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _end_one(self, place: Place, now: bool) -> None:
        process = place.process
        place.is_told_to_end = True
        if process is None:
            return
        self._counts.note_state(place.number, "draining")
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        if now and place.channel is not None:
            give_order(place.channel, END)
        try:
            async with asyncio.timeout(_GRACE_S + (0 if now else place.config.limits.drain_s)):
                await process.wait()
        except TimeoutError:
            _LOG.error("Process %d did not end, and is killed.", place.number)
            process.kill()
            await process.wait()

    def _give(self, accepted: socket.socket) -> None:
        """Gives a caller to the process that bears it best; where none takes it, closes it."""
        for place in sorted((each for each in self._places if each.is_alive), key=lambda each: each.rank):
            if place.channel is not None and give_socket(place.channel, accepted):
                place.n_given += 1
                return
        accepted.close()

    async def _wait_until_served(self, place: Place) -> None:
        """Waits until a place's process serves.

        Raises:
            KameError: it has ended before.
        """
        while place.report.phase != "serving":
            if place.report.phase == "failed":
                kind = getattr(errors, place.report.error_kind, BackendError)
                raise kind(place.report.error_what, place.report.error_remedy)
            await place.changed.wait()

    async def _keep(self, place: Place) -> None:
        """Starts a place's process, and again whenever it has ended, until the server ends."""
        wait_s = _FIRST_WAIT_S
        while not self._is_ending:
            has_served = await self._run_once(place)
            if self._is_ending:
                return
            wait_s = _FIRST_WAIT_S if has_served else min(2 * wait_s, _LONGEST_WAIT_S)
            if not (place.is_told_to_end and has_served):
                with suppress(TimeoutError):
                    await asyncio.wait_for(place.hurry.wait(), wait_s)

    async def _run_once(self, place: Place) -> bool:
        """One process, from its start to its end; says whether it has served."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        get_socket_path(self._folder, place.number).unlink(missing_ok=True)
        self._counts.note_state(place.number, "loading")
        own = ["--channel", str(theirs.fileno()), "--number", str(place.number), "--folder", str(self._folder)]
        with ours:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._launch.command,
                    *own,
                    stdin=subprocess.PIPE,
                    env=dict(self._launch.environment(place.number)),
                    pass_fds=[theirs.fileno()],
                    process_group=0,  # Ctrl-C is for the parent, which tells the others
                )
            except OSError as error:
                what = f"Process {place.number} of the server cannot be started: {error.strerror or error}."
                place.note(Report(phase="failed", error_kind="BackendError", error_what=what))
                return False
            finally:
                theirs.close()
            place.process, place.channel, place.n_given, place.is_told_to_end = process, ours, 0, self._is_ending
            place.launched = place.config
            place.hurry.clear()
            place.note(Report())
            _write_config(process, place)
            has_served = False
            try:
                async for report in read_reports(ours):
                    if report.phase == "serving" and not has_served:
                        has_served = True
                        self._counts.note_state(place.number, "serving")
                    place.note(report)
                status = await process.wait()
            except asyncio.CancelledError:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
                raise
            finally:
                place.channel = place.process = None
        self._note_end(place, process.pid, status)
        return has_served

    def _note_end(self, place: Place, pid: int, status: int) -> None:
        """Tells what became of a process that has ended."""
        n_lost = self._counts.forget_process(pid)
        get_socket_path(self._folder, place.number).unlink(missing_ok=True)
        failed = place.report
        if failed.phase != "failed":
            how = f"by signal {-status}" if status < 0 else f"with exit status {status}"
            failed = Report(
                phase="failed",
                error_kind="BackendError",
                error_what=f"Process {place.number} of the server has ended {how}.",
                error_remedy="What it said last stands above.",
            )
        is_expected = place.is_told_to_end and status == 0
        if not is_expected and self._has_started and not self._is_ending:
            self._counts.note_state(place.number, "dead")
            _LOG.error("%s It is started again; %d callers lost their connection.", failed.error_what, n_lost)
        place.note(Report() if is_expected else failed)


def _write_config(process: asyncio.subprocess.Process, place: Place) -> None:
    """Gives a process its configuration: it records into a folder of its own, which no other may sweep."""
    record = place.config.record
    if record.folder is not None:
        record = record.model_copy(update={"folder": str(Path(record.folder) / f"process-{place.number}")})
    own = place.config.model_copy(update={"processes": 1, "record": record})
    if process.stdin is not None:
        process.stdin.write(own.model_dump_json().encode())
        process.stdin.close()


async def _wait_for_change(places: Sequence[Place]) -> None:
    """Waits until something has changed with any of them."""
    waits = [asyncio.create_task(place.changed.wait()) for place in places]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
