"""What the parent and a process of a server send each other."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kame_model.serve.processes.channel import END, RETIRE, SOCKET, receive_message, send_order

MOST_S = 60.0


Ends = tuple[socket.socket, socket.socket]
"""Of a channel: the parent's end, and that of the process."""


@pytest.fixture
def ends() -> Iterator[Ends]:
    pair = socket.socketpair()
    for each in pair:
        each.setblocking(False)
    yield pair
    for each in pair:
        each.close()


def fill(channel: socket.socket) -> None:
    """Fills the buffer of a channel, as callers do whose process is stuck."""
    with suppress(BlockingIOError):
        while True:
            channel.send(SOCKET)


def read_all(channel: socket.socket) -> list[socket.socket | bytes]:
    """Everything that has arrived."""
    found = []
    with suppress(BlockingIOError):
        while True:
            found.append(receive_message(channel))
    return found


@pytest.mark.parametrize("order", [RETIRE, END])
async def test_an_order_to_a_process_that_is_stuck_arrives_when_it_reads_again(order: bytes, ends: Ends) -> None:
    ours, theirs = ends
    fill(ours)
    sending = asyncio.create_task(send_order(ours, order))
    await asyncio.sleep(0)
    assert not sending.done()
    assert set(read_all(theirs)) == {SOCKET}
    async with asyncio.timeout(MOST_S):
        await sending
    assert read_all(theirs) == [order]


async def test_an_order_to_a_process_that_ends_meanwhile_is_given_up(ends: Ends) -> None:
    ours, theirs = ends
    fill(ours)
    sending = asyncio.create_task(send_order(ours, RETIRE))
    await asyncio.sleep(0)
    theirs.close()
    async with asyncio.timeout(MOST_S):
        await sending
    assert sending.done()
