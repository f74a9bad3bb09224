"""The server as a whole: who is let in and let go, its slots, its threads, and its end."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from moshi.utils import compile as compiling

from data_schemas.errors import BackendError, ConfigError
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.device.engine import FrontEndEngine
from kame_model.serve.parts import build_parts
from kame_model.serve.server import KameServer, Refused
from tests.support.serving import Client, doubles, inline, saying, serve_config, until

pytestmark = [pytest.mark.full]


def of_limits(checkpoint: Checkpoint, **limits: object) -> KameServer:
    config = serve_config(limits={"max_sessions": 2, "max_sessions_per_address": 9, **limits})
    return KameServer(checkpoint, config, doubles(), run=inline)


async def refusal(server: KameServer) -> str:
    with pytest.raises(Refused) as refused:
        await server.open_session("here")
    return refused.value.reason


@pytest.mark.looptime
async def test_a_caller_who_would_be_too_many_is_refused_before_anybody_hears_a_gap(checkpoint: Checkpoint) -> None:
    async def slow(work: Callable[[], Any]) -> Any:
        await asyncio.sleep(0.025 * len(server.sessions))  # each caller costs 25 of the 64 ms
        return await inline(work)

    config = serve_config(limits={"max_sessions_per_address": 9})
    server = KameServer(checkpoint, config, doubles(), run=slow)
    async with server:
        clients = []
        for _ in range(2):
            clients.append(Client(await server.open_session("here")))
            await asyncio.gather(*(each.talk([None] * 40) for each in clients))
        assert await refusal(server) == "busy"  # the third would make it 75 ms
        assert server.n_dropped == {}
        assert server.meter.n_late == 0
        assert server.admission.n_refused == {"busy": 1}
        await clients.pop().session.close("bye")
        await clients[0].talk([None] * 5)
        clients.append(Client(await server.open_session("here")))
        for each in clients:
            await each.session.close("bye")


@pytest.mark.looptime
async def test_while_the_device_is_behind_callers_miss_stretches_and_nobody_else_is_admitted(
    checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    step_s = 0.12

    async def slow(work: Callable[[], Any]) -> Any:
        await asyncio.sleep(step_s)
        return await inline(work)

    config = serve_config(limits={"max_sessions": 4, "max_sessions_per_address": 9})
    server = KameServer(checkpoint, config, doubles(), run=slow)
    async with server:
        clients = [Client(await server.open_session("here")) for _ in range(2)]
        await asyncio.gather(*(each.talk([None] * 100) for each in clients))
        assert await refusal(server) == "busy"
        assert not server.is_ready
        step_s = 0.02
        await asyncio.gather(*(each.talk([None] * 100) for each in clients))
        n_dropped = server.n_dropped["heard"]
        await asyncio.gather(*(each.talk([None] * 5) for each in clients))
        assert server.n_dropped["heard"] == n_dropped
        await asyncio.sleep(50)
        assert server.is_ready
        for each in clients:
            await each.session.close("bye")
            await each.over()
            lost = [told["n_frames"] for told in each.told("dropped")]
            assert lost == [6] * len(lost)
            assert 3 <= len(lost) <= 6
            assert len(each.frames) + sum(lost) == 205
    assert caplog.text.count("the device is too slow, or too busy, for its callers (now 2)") == 1


@pytest.mark.looptime
async def test_callers_of_the_cascade_take_no_time_of_the_device_until_they_change(checkpoint: Checkpoint) -> None:
    async def slow(work: Callable[[], Any]) -> Any:
        n_on_device = sum(session.mode != "cascade" for session in server.sessions.values())
        await asyncio.sleep(0.025 * n_on_device)  # each costs 25 of the 64 ms
        return await inline(work)

    config = serve_config(limits={"max_sessions": 6, "max_sessions_per_address": 9})
    server = KameServer(checkpoint, config, doubles(), run=slow)
    async with server:
        clients = []
        for mode in ("cascade", "tandem", "cascade", "direct", "cascade"):
            clients.append(Client(await server.open_session("here", mode=mode)))
            await asyncio.gather(*(each.talk([None] * 40) for each in clients))
        assert await refusal(server) == "busy"  # a third on the device would make it 75 ms
        patient = clients[0].session
        with pytest.raises(Refused) as refused:
            patient.change(mode="direct", prompt="You are brief.")
        assert refused.value.reason == "busy"
        assert patient.mode == "cascade"
        await clients[0].talk([None])
        assert clients[0].told("changed") == []
        patient.change(mode="cascade", prompt="You are brief.")  # that is no matter of the device
        clients[1].session.change(mode="cascade")
        patient.change(mode="direct")  # there is room now
        assert server.n_dropped == {}
        assert server.meter.n_late == 0
        assert server.admission.n_refused == {"busy": 2}
        for each in clients:
            await each.session.close("bye")


@pytest.mark.looptime
async def test_a_broken_device_ends_all_and_itself(checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(work: Callable[[], Any]) -> Any:
        if server.sessions:
            raise RuntimeError("CUDA error: device-side assert triggered")
        return await inline(work)

    config = serve_config(limits={"max_sessions_per_address": 9})
    server = KameServer(checkpoint, config, doubles(), run=broken)
    async with server:
        waiting = asyncio.create_task(server.wait_until_broken())
        silent = Client(await server.open_session("here"))
        for _ in range(3):
            assert server.is_ready
            client = Client(await server.open_session("here"))
            await client.talk([None])
            await client.over()
            assert client.told("ended") == [{"reason": "the model's step failed"}]
        with pytest.raises(BackendError, match="device-side assert"):
            await waiting
        assert not server.is_ready
        assert await refusal(server) == "draining"
        await silent.over()
        assert silent.told("ended") == [{"reason": "an error inside the server"}]
    assert "A background task of the server has failed" in caplog.text


@pytest.mark.looptime
async def test_who_sends_nothing_and_who_never_stops_are_let_go(checkpoint: Checkpoint) -> None:
    async with of_limits(checkpoint, idle_s=4, max_session_s=6) as server:
        silent, steady = [Client(await server.open_session("here")) for _ in range(2)]
        await steady.talk([None] * 70)
        assert silent.told("ended") == [{"reason": "no audio arrived for 4 s"}]
        assert not steady.told("ended")
        await steady.talk([None] * 20)
        assert steady.told("ended") == [{"reason": "the session reached the limit of 6 s"}]
        assert not server.sessions


@pytest.mark.looptime
@pytest.mark.parametrize("leaves_itself", [True, False])
async def test_a_draining_server_waits_for_callers_not_for_ever(checkpoint: Checkpoint, leaves_itself: bool) -> None:
    loop = asyncio.get_running_loop()
    async with of_limits(checkpoint, drain_s=30) as server:
        assert server.is_ready
        client = Client(await server.open_session("here"))
        began_s = loop.time()
        draining = asyncio.create_task(server.drain())
        await client.talk([None] * 10)
        assert not server.is_ready
        assert await refusal(server) == "draining"
        assert not draining.done()
        if leaves_itself:
            await client.session.close("bye")
        await draining
        assert loop.time() - began_s == pytest.approx(0.8 if leaves_itself else 30, abs=0.1)
        await client.over()
        assert client.told("ended") == [{"reason": "bye" if leaves_itself else "the server is shutting down"}]


async def test_a_server_in_real_time_leaves_no_thread_and_no_task(checkpoint: Checkpoint) -> None:
    config = serve_config(limits={"max_sessions": 2})
    before = set(threading.enumerate())
    async with KameServer(checkpoint, config, doubles()) as server:
        client = Client(await server.open_session("here"))
        await client.talk(["alpha"] * 4 + [None] * 4)
        await until(lambda: len(client.frames) == 8)
        client.session.hear(saying("alpha"))  # the end comes in the middle of a step
    await client.over()
    assert client.told("ended") == [{"reason": "the server is shutting down"}]
    assert not server.is_ready
    assert [thread.name for thread in set(threading.enumerate()) - before if "engine" in thread.name] == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.looptime
async def test_as_many_slots_as_a_frame_has_time_for(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def measured(engine: FrontEndEngine, n_steps: int = 20) -> float:
        asked.append(engine.n_slots)
        if engine.n_slots == 8:
            raise torch.OutOfMemoryError("no room")
        return 0.015 * engine.n_slots

    monkeypatch.setattr(FrontEndEngine, "measure", measured)
    for budget_share, n_slots, tried in (
        (1.0, 5, [8, 4, 6, 5]),
        (0.8, 4, [8, 4, 6, 5]),
        (0.6, 3, [8, 4, 2, 3]),
        (0.5, 2, [8, 4, 2, 3]),
        (0.1, 1, [8, 4, 2, 1]),
    ):
        asked.clear()
        async with of_limits(checkpoint, max_sessions=0, budget_share=budget_share) as server:
            assert server.n_slots == n_slots
        assert asked == tried
    async with of_limits(checkpoint, max_sessions=6, budget_share=0.1) as server:
        assert server.n_slots == 6  # as was asked for
    with pytest.raises(torch.OutOfMemoryError):
        async with of_limits(checkpoint, max_sessions=8):
            pass


@pytest.mark.looptime
@pytest.mark.parametrize("cuda_graphs", [True, False])
async def test_whether_steps_are_graphs_is_a_setting(checkpoint: Checkpoint, cuda_graphs: bool) -> None:
    async with KameServer(checkpoint, serve_config(cuda_graphs=cuda_graphs), doubles(), run=inline):
        assert compiling._is_cuda_graph_enabled() is cuda_graphs
    assert compiling._is_cuda_graph_enabled()


@pytest.mark.looptime
async def test_a_checkpoint_that_is_not_whole_and_a_classifier_that_is_none_end_it(checkpoint: Checkpoint) -> None:
    assert checkpoint.facts is not None
    without_codec = checkpoint._replace(facts=checkpoint.facts.model_copy(update={"codec": None}))
    for wrong, config, told in (
        (without_codec, serve_config(), "without its codec"),
        (checkpoint, serve_config(classifier="nowhere:nobody"), "nobody"),
    ):
        with pytest.raises(ConfigError, match=told):
            async with KameServer(wrong, config, doubles(), run=inline):
                pass
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_parts_are_built_as_configured_and_a_back_end_that_is_down_stops_nobody(tmp_path: Path) -> None:
    down = {"engine": "openai", "base_url": "http://127.0.0.1:9/v1"}
    config = serve_config(
        listener={"engine": "double"},
        cascade={"tts": "double"},
        back_ends=[
            {"name": "here", "chat": {"engine": "double"}},
            {"name": "again", "chat": {"engine": "double"}},
            {"name": "down", "chat": down},
        ],
        record={"folder": str(tmp_path / "kept")},
    )
    question = {"messages": [{"role": "user", "content": "How many?"}], "max_tokens": 20}
    async with build_parts(config) as parts:
        assert (list(parts.back_ends), parts.recogniser.name) == (["here", "again", "down"], "double")
        assert parts.back_ends["here"].chat is parts.back_ends["again"].chat  # one server for both
        answer = [piece async for piece in parts.back_ends["here"].chat.stream(question)]
        assert len("".join(answer).split()) >= 12
        with pytest.raises(BackendError):
            [piece async for piece in parts.back_ends["down"].chat.stream(question)]
        base_url = parts.back_ends["here"].chat._endpoint.base_url  # type: ignore[attr-defined]
        later = serve_config(back_ends=[{"chat": {**down, "base_url": base_url}}], listener={"engine": "double"})
        async with build_parts(later) as others:  # its model is asked for when it is needed
            assert [piece async for piece in others.back_ends["default"].chat.stream(question)] == answer
        assert parts.detector().feed(saying("alpha")) == []
        assert parts.recordings is not None
        assert parts.speaker is not None
    assert asyncio.all_tasks() == {asyncio.current_task()}
