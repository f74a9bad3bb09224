"""Moshi's web socket protocol, as both the server and the client use it: the meaning of a message's first byte.

From Kyutai's rust/protocol.md. Kyutai's Python server sends the first three; the last two are used here for a server's
events and a client's changes, and for the reason why a change was rejected.
"""

from enum import IntEnum
from typing import Final


class Kind(IntEnum):
    """First byte of a message."""

    HANDSHAKE = 0
    AUDIO = 1
    TEXT = 2
    CONTROL = 3
    METADATA = 4
    ERROR = 5


RESTART: Final = b"\x03"
"""The only control message that has a meaning in full duplex."""
