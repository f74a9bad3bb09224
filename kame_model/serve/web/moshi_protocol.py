"""Moshi's web socket protocol, as far as both of its ends are here: what the first byte of a message says it is.

From Kyutai's rust/protocol.md. Its server in Python sends the first three; the last two are in use here for a server's
events and a client's changes, and for why one of these was not done.
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
"""The one control that means something while both speak at once."""
