"""The parent of several processes: who gets which caller, and what becomes of processes that end."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from data_schemas.config.serving import ServeConfig
from data_schemas.errors import BackendError, ConfigError
from kame_model.serve.processes.group import Launch, ProcessGroup
from kame_model.serve.processes.shared_counts import COUNTS, SharedCounts
from tests.support.serving import until

pytestmark = [pytest.mark.slow]

MEMBER = [sys.executable, "-m", "tests.support.light_member"]
ROOT = Path(__file__).resolve().parents[4]
MOST_S = 60.0


@dataclass
class Caller:
    """Somebody who talks with a process."""

    number: int
    pid: int
    checkpoint: str
    address: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def leave(self) -> None:
        """Ends the call."""
        self.writer.close()
        await self.writer.wait_closed()

    async def is_cut(self) -> bool:
        """Waits until the server has ended the call."""
        async with asyncio.timeout(MOST_S):
            try:
                return await self.reader.read() == b""
            except ConnectionError:
                return True


@dataclass
class Running:
    """A group, what it counts, and where it listens."""

    group: ProcessGroup
    counts: SharedCounts
    port: int

    async def call(self) -> Caller:
        """A new caller, as soon as a process has it."""
        async with asyncio.timeout(MOST_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            number, pid, checkpoint, address = (await reader.readline()).decode().split()
        return Caller(int(number), int(pid), checkpoint, address, reader, writer)

    async def until_sessions(self, n_sessions: int) -> None:
        """Waits until the parent knows of so many callers."""
        await until(lambda: self.group.n_sessions == n_sessions)


def config_of(checkpoint: str = "first", **changes: Any) -> ServeConfig:
    """Two processes of two slots."""
    return ServeConfig.model_validate(
        {"checkpoint": checkpoint, "processes": 2, "limits": {"max_sessions": 2, "drain_s": 60}, **changes}
    )


@asynccontextmanager
async def running(folder: Path, config: ServeConfig, command: list[str] = MEMBER) -> AsyncIterator[Running]:
    """A group that has been started; it is ended, whatever the test has done."""
    counts = SharedCounts(folder / COUNTS)
    launch = Launch(command, lambda number: {**os.environ, "PYTHONPATH": str(ROOT)})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        group = ProcessGroup(config, launch, listener, folder, counts)
        try:
            await group.start()
            yield Running(group, counts, listener.getsockname()[1])
        finally:
            await group.end(now=True)
            counts.close()


async def test_callers_go_where_there_is_room_and_fewest_are(tmp_path: Path) -> None:
    async with running(tmp_path, config_of()) as served:
        callers = [await served.call() for _ in range(4)]
        assert sorted(each.number for each in callers) == [0, 0, 1, 1]
        for each in callers:
            assert each.address == "{}:{}".format(*each.writer.get_extra_info("sockname")), "it stays his own"
        await served.until_sessions(4)
        of_first = [each for each in callers if each.number == 0]
        for each in of_first:
            await each.leave()
        await served.until_sessions(2)
        again = [await served.call() for _ in range(2)]
        assert [each.number for each in again] == [0, 0]
        await served.until_sessions(4)
        beyond = await served.call()  # a process itself says that every place is taken
        assert beyond.number in (0, 1)


async def test_a_process_that_dies_is_started_again_and_only_its_callers_are_cut(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, config_of()) as served:
        callers = {each.number: each for each in [await served.call() for _ in range(2)]}
        before = served.group.pids
        callers[0].writer.write(b"die")
        assert await callers[0].is_cut()
        await until(lambda: served.counts.read_states()[0] == ("serving", 1))
        assert served.group.pids[0] not in (None, before[0])
        assert served.group.pids[1] == before[1]
        assert "Process 0 of the server has ended by signal 9" in caplog.text
        anew = await served.call()
        assert (anew.number, anew.pid) == (0, served.group.pids[0])
        callers[1].writer.write(b"hello")  # it is still there, and ends by its own will
        assert await callers[1].is_cut()


async def test_a_process_that_is_stuck_gets_no_more_than_its_free_places(tmp_path: Path) -> None:
    async with running(tmp_path, config_of()) as served:
        stuck = served.group.pids[0]
        assert stuck is not None
        os.kill(stuck, signal.SIGSTOP)
        try:
            waiting = [asyncio.create_task(served.call()) for _ in range(4)]
            done: set[asyncio.Task[Caller]] = set()
            async with asyncio.timeout(MOST_S):
                while len(done) < 2:
                    done |= (await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED))[0]
            assert {each.result().number for each in done} == {1}
        finally:
            os.kill(stuck, signal.SIGCONT)
        assert sorted([(await each).number for each in waiting]) == [0, 0, 1, 1]


async def test_a_restart_takes_one_after_another_and_cuts_no_call(tmp_path: Path) -> None:
    async with running(tmp_path, config_of()) as served:
        callers = {each.number: each for each in [await served.call() for _ in range(2)]}
        before = served.group.pids
        restarting = asyncio.create_task(served.group.restart(config_of("second")))
        await until(lambda: served.counts.read_states()[0][0] == "draining")
        meanwhile = await served.call()
        assert (meanwhile.number, meanwhile.checkpoint) == (1, "first")
        await meanwhile.leave()
        assert not callers[0].reader.at_eof()
        await callers[0].leave()
        await until(lambda: served.counts.read_states()[1][0] == "draining")
        of_new = await served.call()
        assert (of_new.number, of_new.checkpoint) == (0, "second")
        assert not callers[1].reader.at_eof()
        await callers[1].leave()
        async with asyncio.timeout(MOST_S):
            await restarting
        assert not set(before) & set(served.group.pids)
        assert served.counts.read_states() == {0: ("serving", 0), 1: ("serving", 0)}
        assert not of_new.reader.at_eof()


async def test_a_configuration_that_does_not_start_leaves_all_processes_with_the_previous_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, config_of()) as served:
        before = served.group.pids
        async with asyncio.timeout(MOST_S):
            await served.group.restart(config_of("broken"))
            assert "Process 0 does not start; it goes back to its previous configuration" in caplog.text
            assert "It is broken. Mend it." in caplog.text
        await until(lambda: served.counts.read_states()[0][0] == "serving")
        assert served.group.pids[0] not in (None, before[0])
        assert served.group.pids[1] == before[1]
        callers = [await served.call() for _ in range(2)]
        assert sorted((each.number, each.checkpoint) for each in callers) == [(0, "first"), (1, "first")]
        for each in callers:
            await each.leave()
        async with asyncio.timeout(MOST_S):
            await served.group.restart(config_of("mended"))
        callers = [await served.call() for _ in range(2)]
        assert {each.checkpoint for each in callers} == {"mended"}


async def test_the_end_waits_for_callers_and_takes_no_time_when_they_are_not_waited_for(tmp_path: Path) -> None:
    async with running(tmp_path, config_of()) as served:
        callers = [await served.call() for _ in range(2)]
        callers.sort(key=lambda each: each.number)
        await served.until_sessions(2)
        ending = asyncio.create_task(served.group.end())
        await until(lambda: {state for state, _ in served.counts.read_states().values()} == {"draining"})
        await callers[0].leave()
        await served.until_sessions(1)
        assert not ending.done()
        assert not callers[1].reader.at_eof()
        late = await served.call()  # the other process may be gone already
        assert late.number == 1
        await served.group.end(now=True)
        assert await callers[1].is_cut()
        async with asyncio.timeout(MOST_S):
            await ending
        assert served.group.pids == [None, None]


@pytest.mark.parametrize(
    ("command", "checkpoint", "error", "told"),
    [
        (MEMBER, "broken", ConfigError, "It is broken. Mend it."),
        ([sys.executable, "-c", "raise SystemExit(7)"], "first", BackendError, "has ended with exit status 7"),
        (["/there/is/none"], "first", BackendError, "cannot be started: No such file"),
    ],
)
async def test_a_server_whose_process_does_not_start_ends_with_its_error(
    tmp_path: Path, command: list[str], checkpoint: str, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        async with running(tmp_path, config_of(checkpoint), command):
            pytest.fail("it has not started")
