"""Web sockets byte by byte: frames as RFC 6455 has them, good and bad, and connections that send them."""

import asyncio
import base64
import os

TEXT, BINARY, CONTINUED, PING, RESERVED = 1, 2, 0, 9, 5
"""Opcodes."""


def frame(opcode: int, payload: bytes, is_last: bool = True, is_masked: bool = True) -> bytes:
    """Returns the bytes of one frame of a web socket; the mask is random."""
    n = len(payload)
    if n < 126:
        length, more = n, b""
    elif n < 65_536:
        length, more = 126, n.to_bytes(2)
    else:
        length, more = 127, n.to_bytes(8)
    head = bytes([0x80 * is_last | opcode, 0x80 * is_masked | length]) + more
    mask = os.urandom(4)
    return head + (mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload)) if is_masked else payload)


def asking(target: str, place: str = "127.0.0.1", headers: str = "") -> bytes:
    """Returns the bytes of an HTTP request that opens a web socket.

    Args:
        headers: further headers, each with its end of line.
    """
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        f"GET {target} HTTP/1.1\r\nHost: {place}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{headers}\r\n"
    ).encode()


async def connected(place: str, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Opens a web socket at a place (host:port), and asserts that the server accepts it."""
    host, port = place.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(asking(path, place))
    assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    return reader, writer
