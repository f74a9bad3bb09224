"""Messages over a pipe: what is sent is what comes, and anything else is told."""

import io
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.workers.frames import Frame, FrameError, read_frame, write_frame

pytestmark = pytest.mark.full

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
FRAMES = st.builds(
    Frame,
    header=st.dictionaries(st.text(), JSON),
    sound=st.lists(st.floats(width=32)).map(lambda samples: struct.pack(f"<{len(samples)}f", *samples)),
)


def sent(*frames: Frame) -> bytes:
    stream = io.BytesIO()
    for frame in frames:
        write_frame(stream, frame)
    return stream.getvalue()


@settings(max_examples=30)
@given(frames=st.lists(FRAMES, max_size=3))
def test_frames_come_as_they_were_sent(frames: list[Frame]) -> None:
    stream = io.BytesIO(sent(*frames))
    assert [read_frame(stream) for _ in frames] == frames
    assert read_frame(stream) is None


@settings(max_examples=30)
@given(frame=FRAMES, share=st.floats(0, 1, exclude_max=True))
def test_a_frame_cut_off_is_told(frame: Frame, share: float) -> None:
    whole = sent(frame)
    part = whole[: int(share * len(whole))]
    if part:
        with pytest.raises(FrameError):
            read_frame(io.BytesIO(part))


HEADER = b'{"done":{}}'


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"Loading model... 100%\n", "begins with"),
        (struct.pack("<4sII", b"KAME", 2**31, 0), "announces"),
        (struct.pack("<4sII", b"KAME", len(HEADER), 2**31) + HEADER, "announces"),
        (struct.pack("<4sII", b"KAME", len(HEADER), 3) + HEADER + b"123", "announces"),
        (struct.pack("<4sII", b"KAME", 5, 0) + b"hello", "not JSON"),
        (struct.pack("<4sII", b"KAME", 2, 0) + b"[]", "not a JSON object"),
        (struct.pack("<4sII", b"KAME", 2, 0) + b"\xff\xfe", "not JSON"),
        (struct.pack("<4sII", b"KAME", len(HEADER), 8) + HEADER + b"1234", "ends after 4 of 8 bytes"),
    ],
)
def test_what_is_no_frame_is_told(raw: bytes, told: str) -> None:
    with pytest.raises(FrameError, match=told):
        read_frame(io.BytesIO(raw))
