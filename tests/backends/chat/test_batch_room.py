"""How large batches are: by what the provider takes, and while its queue is full."""

import asyncio
from pathlib import Path

import pytest

from backends.chat.batch import BatchRoom
from backends.chat.protocol import ChatReply
from data_schemas.errors import BackendError
from tests.backends.chat.chatting import QUICK, asking, batch_config, endpoint_at, n_lines, numbered, use
from tests.support.chat_server import Behaviour, ChatServer, served


async def settled() -> None:
    """Lets all that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_refused_batch_waits_for_the_end_of_one_that_was_taken() -> None:
    room, under_way = BatchRoom(100, 3, QUICK), {"taken", "refused too"}
    waiting = asyncio.create_task(room.wait(50, under_way, "lab"))
    await settled()
    under_way.remove("refused too")
    room.notify_change()
    await settled()
    assert not waiting.done()  # nothing has left the queue
    under_way.remove("taken")
    room.record_success()
    await waiting
    assert room.n_most == 100


async def test_it_waits_for_none_that_was_refused_as_well() -> None:
    room, under_way = BatchRoom(100, 3, QUICK), {"refused too"}
    waiting = asyncio.create_task(room.wait(50, under_way, "lab"))
    await settled()
    assert not waiting.done()
    under_way.clear()
    room.notify_change()
    await settled()
    assert waiting.done()
    await waiting
    assert room.n_most == 100  # others were refused with it, so its own size need not be at fault


def test_alone_it_is_halved_until_one_passes_and_grows_again() -> None:
    async def work() -> list[int]:
        room, sizes = BatchRoom(20, 3, QUICK), []
        for _ in range(3):
            await room.wait(room.n_most, (), "lab")
            sizes.append(room.n_most)
        for _ in range(4):
            room.record_success()
            sizes.append(room.n_most)
        return sizes

    assert asyncio.run(work()) == [10, 5, 2, 4, 8, 16, 20]


async def test_single_requests_that_are_refused_stop_the_run() -> None:
    room = BatchRoom(1, 3, QUICK)
    for _ in range(2):
        await room.wait(1, (), "lab")
    with pytest.raises(BackendError, match=r"'lab' accepts no batch.*run again"):
        await room.wait(1, (), "lab")


def sizes(server: ChatServer) -> list[int]:
    """Requests of each batch."""
    made = server.batches.batches.values()
    return sorted(server.batches.files[batch["input_file_id"]].count("\n") for batch in made)


def test_batches_are_no_larger_than_the_provider_takes(tmp_path: Path) -> None:
    with served(Behaviour()) as (root, server):
        config = batch_config(tmp_path, "batch_max_requests: 7\n")
        use(endpoint_at(root), tmp_path, asking(numbered(20)), config)
        assert sizes(server) == [6, 7, 7]
        config = batch_config(tmp_path, "batch_max_bytes: 1000\n")
        use(endpoint_at(root), tmp_path, asking(numbered(20, first=20)), config)
        inputs = {batch["input_file_id"] for batch in server.batches.batches.values()}
        assert 3 + 3 < len(inputs) < 3 + 20
        assert all(len(server.batches.files[each]) <= 2000 for each in inputs)


def test_a_full_queue_at_the_provider_is_waited_for_with_smaller_batches(tmp_path: Path) -> None:
    with served(Behaviour(max_enqueued=6)) as (root, server):
        replies = use(endpoint_at(root), tmp_path, asking(numbered(20)), batch_config(tmp_path))
        assert all(isinstance(reply, ChatReply) for reply in replies)
        assert n_lines(server) == 20  # each paid for once
        assert max(sizes(server)) == 20


def test_a_queue_that_never_empties_stops_the_run(tmp_path: Path) -> None:
    behaviour = Behaviour(batch_status="full")
    with served(behaviour) as (root, _), pytest.raises(BackendError, match=r"enqueued.*run again"):
        use(endpoint_at(root), tmp_path, asking(numbered(3)), batch_config(tmp_path, max_attempts=2))
