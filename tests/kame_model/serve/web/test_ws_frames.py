"""Frames of a web socket are counted by their headers, however the network cuts the bytes."""

from hypothesis import given
from hypothesis import strategies as st

from kame_model.serve.web.connections import WsFrameCounter
from tests.support.raw_sockets import BINARY, CONTINUED, PING, TEXT, frame

OPCODES = (0x0, 0x1, 0x2, 0x8, 0x9, 0xA)
FRAMES = st.lists(
    st.builds(
        frame,
        st.sampled_from(OPCODES),
        st.sampled_from([bytes(n) for n in (0, 1, 125, 126, 127, 300, 65_535, 65_536)]),
        st.booleans(),
        st.booleans(),
    ),
    max_size=12,
)


@given(frames=FRAMES, data=st.data())
def test_bytes_cut_anywhere_have_the_same_number_of_frames(frames: list[bytes], data: st.DataObject) -> None:
    sent = b"".join(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=30)))
    pieces = [sent[start:end] for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    counter = WsFrameCounter()
    assert sum(counter.count(piece) for piece in pieces) == len(frames)


def test_bytes_that_come_one_by_one_have_the_same_number_of_frames() -> None:
    sent = (
        frame(PING, b"")
        + frame(BINARY, bytes(70_000))
        + frame(CONTINUED, b"", False) * 3
        + frame(TEXT, bytes(126), True, False)
    )
    counter = WsFrameCounter()
    assert sum(counter.count(sent[at : at + 1]) for at in range(len(sent))) == 6


def test_of_a_flood_no_more_is_counted_than_decides() -> None:
    assert WsFrameCounter().count(frame(PING, b"") * 100_000, most=20.5) == 21
