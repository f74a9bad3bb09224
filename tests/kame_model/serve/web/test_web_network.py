"""What only a real network can do to a socket: frames that are none, clients that vanish; and the logs of it."""

import asyncio
import logging
import socket
import struct

import pytest

from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.web.app import keep_tokens_out_of_logs
from tests.support.raw_sockets import BINARY, CONTINUED, RESERVED, TEXT, connected, frame
from tests.support.served import served
from tests.support.serving import until

BAD = {
    "no UTF-8": frame(TEXT, b"\xff\xfe"),
    "no UTF-8 in parts": frame(TEXT, b'{"\xe2', is_last=False) + frame(CONTINUED, b'("}'),
    "unmasked": frame(TEXT, b"{}", is_masked=False),
    "reserved": frame(RESERVED, b"x"),
    "a gigabyte": b"\x82\xff" + struct.pack(">Q", 10**9) + b"maskxxxx",
    "continues nothing": frame(CONTINUED, b"x"),
}


@pytest.mark.asyncio
async def test_frames_that_are_none_and_clients_that_vanish(
    checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    limits = {"max_sessions": 2, "max_sessions_per_address": 2}
    async with served(checkpoint, limits=limits) as running, asyncio.timeout(60):
        logging.getLogger("uvicorn.error").addHandler(caplog.handler)
        n_tasks = len(asyncio.all_tasks())
        for path in ("/api/chat", "/v1/realtime"):
            for bad in BAD.values():
                reader, writer = await connected(running.place, path)
                writer.write(bad)
                await reader.read()  # until the server closes
                writer.close()
            _, writer = await connected(running.place, path)
            writer.write(frame(BINARY, b"\x01half a frame")[:5])
            # SO_LINGER of 0: the connection is reset, as when a machine loses its network
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.close()
        await until(lambda: not running.server.sessions)
        await until(lambda: len(asyncio.all_tasks()) <= n_tasks)
        logging.getLogger("uvicorn.error").removeHandler(caplog.handler)
    assert [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR] == []


def test_tokens_stay_out_of_the_logs(caplog: pytest.LogCaptureFixture) -> None:
    keep_tokens_out_of_logs()
    log = logging.getLogger("uvicorn.error")
    log.addHandler(caplog.handler)
    log.error('%s - "WebSocket %s" [accepted]', "192.0.2.1", "/api/chat?mode=tandem&token=s3cret&events=1")
    log.removeHandler(caplog.handler)
    assert "/api/chat?mode=tandem&token=...&events=1" in caplog.text
    assert "s3cret" not in caplog.text
