"""How many frames there are in the bytes of a web socket, found by their headers alone (RFC 6455, 5.2)."""

_LONGER = {126: 2, 127: 8}
"""Values of the 7-bit length that say how many bytes of a longer one follow."""
_MASK_BYTES = 4


class WsFrameCounter:
    """Counts a client's frames, control frames among them, before any of them is parsed; bytes may be cut anywhere."""

    def __init__(self) -> None:
        self._head = b""  # of a frame whose header has not come whole
        self._n_payload = 0  # bytes of the last frame's payload that are still to come

    def count(self, data: bytes, most: float = float("inf")) -> int:
        """How many frames' headers end in the next bytes of the connection.

        Args:
            most: where there are more, one more is counted, and the rest is not looked at.
        """
        data, at, n_frames = self._head + data, self._n_payload, 0
        while n_frames <= most:
            if at + 2 > len(data):
                break
            length = data[at + 1] & 0x7F
            n_longer = _LONGER.get(length, 0)
            end = at + 2 + n_longer + (_MASK_BYTES if data[at + 1] & 0x80 else 0)
            if end > len(data):
                break
            n_frames += 1
            at = end + (int.from_bytes(data[at + 2 : at + 2 + n_longer]) if n_longer else length)
        self._head, self._n_payload = data[at:], max(0, at - len(data))
        return n_frames
