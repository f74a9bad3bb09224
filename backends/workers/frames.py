"""Pipe protocol between us and a worker: a JSON header and audio. Only the standard library: both sides import it.

A frame is `KAME`, the lengths of header and audio in bytes (little-endian, 4 bytes each), the header (UTF-8 JSON, one
object) and the audio (float32, little-endian). A request's header has `call` (the engine's method) and `arguments`; a
reply's header has one of `done` (an object), `refused` and `failed` (a reason).
"""

import json
import struct
from typing import IO, Any, NamedTuple

_MAGIC = b"KAME"
_HEAD = struct.Struct("<4sII")
_MAX_HEADER_BYTES = 1 << 24
_MAX_SOUND_BYTES = 1 << 30


class Frame(NamedTuple):
    """A message; `sound` is float32 samples as little-endian bytes, often empty."""

    header: dict[str, Any]
    sound: bytes = b""


class FrameError(Exception):
    """Data from the pipe is not a valid frame; the message says why."""


class EngineRefusal(Exception):
    """Raised by an engine that cannot handle a request through no fault of its own; the message says why."""


def write_frame(stream: IO[bytes], frame: Frame) -> None:
    """Sends one frame; blocks until the pipe has taken it."""
    header = json.dumps(frame.header).encode()
    stream.write(_HEAD.pack(_MAGIC, len(header), len(frame.sound)) + header)
    stream.write(frame.sound)
    stream.flush()


def read_frame(stream: IO[bytes]) -> Frame | None:
    """Returns the next frame, or None if the pipe was closed between two frames; blocks until it is complete.

    Raises:
        FrameError: the data is invalid, or the pipe was closed inside a frame.
    """
    head = stream.read(_HEAD.size)
    if not head:
        return None
    if len(head) < _HEAD.size or not head.startswith(_MAGIC):
        raise FrameError(f"it begins with {head!r}")
    _, n_header_bytes, n_sound_bytes = _HEAD.unpack(head)
    if n_header_bytes > _MAX_HEADER_BYTES or n_sound_bytes > _MAX_SOUND_BYTES or n_sound_bytes % 4:
        raise FrameError(f"it announces {n_header_bytes} and {n_sound_bytes} bytes")
    try:
        header = json.loads(_read(stream, n_header_bytes))
    except ValueError as error:
        raise FrameError(f"its header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise FrameError("its header is not a JSON object")
    return Frame(header, _read(stream, n_sound_bytes))


def _read(stream: IO[bytes], n_bytes: int) -> bytes:
    """Reads exactly `n_bytes`; raises FrameError if the stream ends before."""
    found = stream.read(n_bytes)
    if len(found) < n_bytes:
        raise FrameError(f"it ends after {len(found)} of {n_bytes} bytes")
    return found
