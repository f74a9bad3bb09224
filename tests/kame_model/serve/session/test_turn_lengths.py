"""Where turns end that do not end by a silence: one without end, as of a noise, and one whose end is said."""

import asyncio
from collections.abc import Sequence

import pytest

from backends.engine import Samples
from backends.listener.protocol import Heard, Window
from data_schemas.config.serving import ListenerConfig
from data_schemas.units import FRAME_S
from kame_model.serve.session.hearing import TurnRecogniser, TurnTaking
from tests.support.serving import LoudnessDetector, LoudnessRecogniser, saying


@pytest.mark.looptime
async def test_a_turn_without_end_is_parted_and_no_frame_of_it_is_lost() -> None:
    recogniser = LoudnessRecogniser()
    turns: list[str] = []
    texts: list[Heard] = []
    fed = 0
    ears = TurnRecogniser(
        recogniser,
        LoudnessDetector(),
        TurnTaking.from_config(ListenerConfig()),
        texts.append,
        turns.append,
        lambda reason: None,
    )
    (stream,) = recogniser.listeners
    feed = stream.feed

    def counted(samples: Samples, windows: Sequence[Window] | None = None) -> None:
        nonlocal fed
        fed += 1
        feed(samples, windows)

    stream.feed = counted  # type: ignore[method-assign]
    n_frames = round(300 / FRAME_S)
    for n_past in range(1, n_frames + 1):
        ears.recognise_frame(saying("alpha"), n_past)
        await asyncio.sleep(0)
    assert turns == ["started", "stopped", "started", "stopped", "started"]
    assert fed == n_frames
    assert sum(heard.is_final for heard in texts) == 2
    ears.close()


@pytest.mark.looptime
async def test_a_turn_is_ended_behind_the_frames_that_came_before() -> None:
    texts: list[Heard] = []
    ended: list[tuple[int, bool]] = []
    ears = TurnRecogniser(
        LoudnessRecogniser(),
        LoudnessDetector(),
        TurnTaking.from_config(ListenerConfig()),
        texts.append,
        lambda turn: None,
        lambda reason: None,
    )
    ears.end_turn(5, lambda has_ended: ended.append((5, has_ended)))
    ears.end_turn(9, lambda has_ended: ended.append((9, has_ended)))
    ears.end_turn(9, lambda has_ended: ended.append((9, has_ended)))
    for n_past, word in enumerate(["alpha"] * 5 + ["bravo"] * 5, 1):
        assert all(place < n_past for place, _ in ended)
        ears.recognise_frame(saying(word), n_past)
        await asyncio.sleep(FRAME_S)
    assert ended == [(5, True), (9, True), (9, False)]
    assert [heard.text for heard in texts if heard.is_final] == ["alpha alpha", "bravo"]


@pytest.mark.looptime
async def test_a_turn_whose_end_was_dropped_ends_before_the_next_frame_that_was_not() -> None:
    texts: list[Heard] = []
    ears = TurnRecogniser(
        LoudnessRecogniser(),
        LoudnessDetector(),
        TurnTaking.from_config(ListenerConfig()),
        texts.append,
        lambda turn: None,
        lambda reason: None,
    )
    ears.recognise_frame(saying("alpha"), 1)
    ears.end_turn(3, lambda has_ended: None)
    ears.recognise_frame(saying("bravo"), 7)
    await asyncio.sleep(FRAME_S)
    assert [heard.text for heard in texts if heard.is_final] == ["alpha"]
