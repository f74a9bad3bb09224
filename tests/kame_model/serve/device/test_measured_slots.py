"""How many callers a server bears is measured again: while nobody is there, and after steps were late."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from data_schemas.errors import StoreError
from data_schemas.units import FRAME_S
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.device import slots as slots_module
from kame_model.serve.device.engine import FrontEndEngine, RunInThread
from kame_model.serve.device.slots import MEASURE_AGAIN_S, MEASURE_EVERY_S, Slots, measure_idle_device
from kame_model.serve.server import KameServer
from kame_model.serve.session.session import Session
from tests.support.serving import Client, doubles, inline, serve_config

pytestmark = [pytest.mark.looptime, pytest.mark.full]


class Machine:
    """A device whose steps take what this says, whatever this machine takes.

    Attributes:
        slot_s: what a step takes for each of the engine's slots, seconds.
        noise: by what share of that each measurement as a whole is off, at random: a normal distribution's deviation.
        n_measured: steps measured with one caller or more, one by one.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slot_s: float, noise: float = 0.0) -> None:
        self.slot_s, self.n_measured = slot_s, 0
        chance, off = random.Random(0), dict[float, float]()
        self.comes: Callable[[], None] = lambda: None
        monkeypatch.setattr(slots_module, "measure_idle_device", measure_idle_device)  # the real one, on steps of this

        def step_s(engine: FrontEndEngine, *_: object) -> float:
            now_s = asyncio.get_running_loop().time()  # it stands still while the device is measured
            return self.slot_s * engine.n_slots * off.setdefault(now_s, chance.gauss(1, noise))

        monkeypatch.setattr(FrontEndEngine, "measure", step_s)

        def timed(engine: FrontEndEngine, n_callers: int) -> float:
            self.n_measured += 1
            self.comes()
            return step_s(engine)

        monkeypatch.setattr(FrontEndEngine, "time_step", timed)


@asynccontextmanager
async def serving(checkpoint: Checkpoint, run: RunInThread = inline, **limits: Any) -> AsyncIterator[KameServer]:
    config = serve_config(limits={"max_sessions": 0, "max_sessions_per_address": 9, **limits})
    async with KameServer(checkpoint, config, doubles(), run=run) as server:
        yield server


def reason(server: KameServer) -> str | None:
    """Why the server is not ready; None: it is."""
    unreadiness = server.find_unreadiness()
    return None if unreadiness is None else unreadiness.reason


def steps_of_one(server: KameServer, n_steps: int, step_s: float, late_s: float = 0.0) -> None:
    """One caller's steps, which have been just now."""
    for _ in range(n_steps):
        server.meter.add(asyncio.get_running_loop().time(), step_s, late_s, 1)


async def test_a_server_that_began_on_a_busy_machine_gets_its_slots_once_it_is_idle(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, slot_s=0.050)
    async with serving(checkpoint) as server:
        assert (server.n_slots, reason(server)) == (1, None)
        machine.slot_s = 0.005
        await asyncio.sleep(MEASURE_EVERY_S + 2)
        assert (server.n_slots, reason(server)) == (8, None)
        clients = [Client(await server.open_session("here")) for _ in range(8)]
        await asyncio.gather(*(each.talk([None] * 3) for each in clients))
        assert [len(each.frames) for each in clients] == [3] * 8
        for each in clients:
            await each.session.close("bye")


async def test_a_machine_that_became_slow_has_fewer_slots_and_then_is_not_ready(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, slot_s=0.005)
    async with serving(checkpoint) as server:
        assert server.n_slots == 8
        machine.slot_s = 0.030
        await asyncio.sleep(MEASURE_EVERY_S + 2)
        assert (server.n_slots, reason(server)) == (2, None)
        machine.slot_s = 1.1 * FRAME_S
        await asyncio.sleep(MEASURE_EVERY_S + 2)
        assert (server.n_slots, reason(server), server.is_ready) == (1, "too_slow", False)
        await talk_a_little(server)  # who has no other machine hears gaps
        machine.slot_s = 0.005
        await asyncio.sleep(MEASURE_AGAIN_S + 2)  # whoever is not ready looks sooner
        assert (server.n_slots, server.is_ready) == (8, True)


@pytest.mark.parametrize("slot_s", [0.0079, 0.0091, 0.016, 0.032, 0.064])
async def test_slots_at_the_edge_of_the_budget_stay_as_they_are_though_measurements_differ(
    slot_s: float, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8, 7, 4, 2 slots or one take almost exactly the 64 ms of the budget."""
    machine = Machine(monkeypatch, slot_s, noise=0.03)
    async with serving(checkpoint) as server:
        n_slots = server.n_slots
        n_opened = opened_by(monkeypatch)
        await asyncio.sleep(60 * MEASURE_EVERY_S)
        assert machine.n_measured > 50 * 13, "it has been measured all the time"
        assert (server.n_slots, len(n_opened)) == (n_slots, 0)


@pytest.mark.parametrize(
    ("max_sessions", "n_slots", "found_s", "step_s", "wants"),
    [
        (0, 1, 0.050, 0.020, True),  # two would take 40 ms of the 64 at most
        (0, 1, 0.050, 0.040, False),
        (0, 4, 0.040, 0.050, True),  # five: 62.5 ms
        (0, 4, 0.040, 0.055, False),  # five: 69 ms
        (0, 4, 0.040, 0.070, True),  # not even four fit any more
        (0, 1, 0.050, 0.070, False),
        (0, 8, 0.060, 0.001, False),  # there are no more than eight
        (4, 4, 0.040, 0.001, False),  # as configured
        (4, 4, 0.040, 0.070, False),
        (0, 4, 0.040, 0.045, False),  # a step takes 13 % longer, as measurements of one machine may differ
        (0, 4, 0.040, 0.047, True),  # 18 %
    ],
)
async def test_another_number_of_slots_is_looked_for_where_it_is_likely_to_fit_better(
    checkpoint: Checkpoint,
    monkeypatch: pytest.MonkeyPatch,
    max_sessions: int,
    n_slots: int,
    found_s: float,
    step_s: float,
    wants: bool,
) -> None:
    """A search at the start finds `n_slots`; a later one would find another number, and shows by that."""
    other = 1 if n_slots == 8 else 8
    monkeypatch.setattr(slots_module, "measure_idle_device", measure_idle_device)
    monkeypatch.setattr(FrontEndEngine, "time_step", lambda engine, n_callers: found_s)
    monkeypatch.setattr(FrontEndEngine, "measure", lambda engine, *_: found_s if engine.n_slots <= n_slots else 1.0)
    async with serving(checkpoint, max_sessions=max_sessions) as server:
        assert server.n_slots == n_slots
        monkeypatch.setattr(FrontEndEngine, "time_step", lambda engine, n_callers: step_s)
        monkeypatch.setattr(FrontEndEngine, "measure", lambda engine, *_: 0.001 if engine.n_slots <= other else 1.0)
        await asyncio.sleep(MEASURE_EVERY_S + 2)
        assert server.n_slots == (other if wants else n_slots)


async def test_a_configured_number_of_slots_stays_whatever_their_steps_take(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, slot_s=0.005)
    async with serving(checkpoint, max_sessions=4) as server:
        n_opened = opened_by(monkeypatch)
        for machine.slot_s in (0.030, 0.001):
            await asyncio.sleep(MEASURE_EVERY_S + 2)
        assert (server.n_slots, n_opened) == (4, [])


async def test_slots_are_not_looked_for_again_and_again_where_one_more_costs_more_than_the_others(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In proportion five would fit where four take 40 ms; but five take 80, as where a cache has room for four."""
    machine = Machine(monkeypatch, slot_s=0.010)
    monkeypatch.setattr(
        FrontEndEngine, "measure", lambda engine, *_: 0.010 * engine.n_slots * (1 + (engine.n_slots > 4))
    )
    async with serving(checkpoint) as server:
        assert server.n_slots == 4
        n_opened = opened_by(monkeypatch)
        await asyncio.sleep(10 * MEASURE_EVERY_S)
        assert (server.n_slots, n_opened) == (4, [])
        machine.slot_s = 0.008
        await asyncio.sleep(2 * MEASURE_EVERY_S)
        assert n_opened[0] == 4, "the machine has become faster, so it is tried"


def opened_by(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of slots of all searches from now on."""
    n_slots: list[int] = []
    look = Slots._open

    def noted(slots: Slots, wanted: int = 0) -> FrontEndEngine:
        engine = look(slots, wanted)
        n_slots.append(engine.n_slots)
        return engine

    monkeypatch.setattr(Slots, "_open", noted)
    return n_slots


async def test_a_server_on_which_one_caller_had_gaps_is_ready_again_once_it_is_measured(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, slot_s=0.030)
    for step_s, late_s in ((0.150, 0.0), (0.030, 0.2)):  # slow steps; short ones that begin late
        async with serving(checkpoint, max_sessions=1) as server:
            client = Client(await server.open_session("here"))
            steps_of_one(server, 115, step_s, late_s)
            await client.session.close("bye")
            assert reason(server) == "too_slow"
            n_measured = machine.n_measured
            await asyncio.sleep(MEASURE_AGAIN_S + 2)
            assert machine.n_measured > n_measured
            assert reason(server) is None, "what was slow then is over"


async def test_a_machine_that_is_still_slow_when_it_is_measured_is_not_ready(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, slot_s=0.030)
    async with serving(checkpoint, max_sessions=1) as server:
        steps_of_one(server, 100, 0.150)
        machine.slot_s = 0.150
        n_at_start = machine.n_measured
        await asyncio.sleep(MEASURE_AGAIN_S + 2)
        assert reason(server) == "too_slow"
        n_steps = machine.n_measured - n_at_start  # of one measurement
        await asyncio.sleep(3 * MEASURE_EVERY_S)
        assert reason(server) == "too_slow"
        n_before = machine.n_measured
        await asyncio.sleep(60 * MEASURE_EVERY_S)
        assert 0 < machine.n_measured - n_before <= 61 * n_steps, "no oftener than a server that is ready"


async def test_half_a_second_of_slow_steps_leaves_the_server_ready(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    Machine(monkeypatch, slot_s=0.030)
    async with serving(checkpoint, max_sessions=1) as server:
        steps_of_one(server, 94, 0.030)
        steps_of_one(server, 6, 0.100)
        assert reason(server) is None


async def test_gaps_that_others_brought_about_keep_nobody_out_once_they_have_left(checkpoint: Checkpoint) -> None:
    async with serving(checkpoint, max_sessions=4) as server:
        for _ in range(115):
            server.meter.add(asyncio.get_running_loop().time(), 2 * FRAME_S, 0.2, 4)
        assert reason(server) is None


async def test_who_comes_while_it_is_measured_waits_for_one_step_and_begins_in_a_clean_slot(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, slot_s=0.005)
    reset: list[int] = []
    forget = FrontEndEngine.reset

    def noted(engine: FrontEndEngine, slot: int) -> None:
        reset.append(slot)
        forget(engine, slot)

    monkeypatch.setattr(FrontEndEngine, "reset", noted)

    async def as_in_a_thread(work: Callable[[], Any]) -> Any:
        done = work()
        await asyncio.sleep(0.001)  # others have their turn
        return done

    async with serving(checkpoint, as_in_a_thread, max_sessions=4) as server:
        coming: list[asyncio.Task[Session]] = []

        def come() -> None:
            machine.comes = lambda: None
            coming.append(asyncio.get_running_loop().create_task(server.open_session("here")))

        machine.comes = come
        n_measured = machine.n_measured
        await asyncio.sleep(MEASURE_EVERY_S + 2)
        assert machine.n_measured == n_measured + 1
        client = Client(await coming[0])
        await client.talk([None] * 3)
        assert len(client.frames) == 3
        assert 0 in reset, "what was measured in its slot is forgotten before its first step"
        await client.session.close("bye")


class Failing:
    """A callable that raises as often as it is told to, and else does what it did before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, error: Exception) -> None:
        self.n_left, before = 0, getattr(owner, name)

        def called(*args: Any, **kwargs: Any) -> Any:
            if self.n_left:
                self.n_left -= 1
                raise error
            return before(*args, **kwargs)

        monkeypatch.setattr(owner, name, called)


async def test_a_measurement_that_fails_leaves_the_server_as_it_was_and_is_made_again(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(monkeypatch, slot_s=0.005)
    step = Failing(monkeypatch, FrontEndEngine, "time_step", RuntimeError("CUDA error: out of memory"))
    async with serving(checkpoint, max_sessions=4) as server:
        step.n_left = 1
        await asyncio.sleep(MEASURE_EVERY_S + 2)
        assert (server.n_slots, reason(server)) == (4, None)
        (told,) = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
        assert "tries again in 5 s" in told
        n_measured = machine.n_measured
        await asyncio.sleep(MEASURE_AGAIN_S + 2)
        assert machine.n_measured > n_measured
        await talk_a_little(server)


@pytest.mark.parametrize("n_failures", [1, 2], ids=["the search fails", "the old engine does not open either"])
async def test_slots_that_cannot_be_made_anew_leave_the_server_with_those_it_had(
    n_failures: int, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(monkeypatch, slot_s=0.030)
    opener = Failing(monkeypatch, Slots, "_create_engine", StoreError("The Hub does not answer.", "Try again."))
    async with serving(checkpoint) as server:
        assert server.n_slots == 2
        machine.slot_s, opener.n_left = 0.005, n_failures
        await asyncio.sleep(MEASURE_EVERY_S + 2)
        assert (server.n_slots, reason(server)) == (2, None if n_failures == 1 else "measuring")
        assert len([each for each in caplog.records if each.levelno >= logging.ERROR]) == 1
        if n_failures == 1:
            await talk_a_little(server)
        await asyncio.sleep(MEASURE_AGAIN_S + 2)
        assert (server.n_slots, reason(server)) == (8, None)
        await talk_a_little(server)


async def test_codec_and_vocabulary_are_read_once(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, slot_s=0.030)
    reads: list[str] = []
    read = Checkpoint.load_codec

    def noted(checkpoint: Checkpoint, device: str = "cpu") -> Any:
        reads.append(device)
        return read(checkpoint, device)

    monkeypatch.setattr(Checkpoint, "load_codec", noted)
    async with serving(checkpoint) as server:
        machine.slot_s = 0.005
        await asyncio.sleep(MEASURE_EVERY_S + 2)
        assert (server.n_slots, len(reads)) == (8, 1)


async def talk_a_little(server: KameServer) -> None:
    """A caller comes, is answered, and goes."""
    client = Client(await server.open_session("here"))
    await client.talk([None] * 3)
    assert len(client.frames) == 3
    await client.session.close("bye")
