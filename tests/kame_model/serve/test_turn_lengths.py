"""A turn without end, as of a noise, is ended and begun anew, so that its text does not grow for ever."""

import asyncio
from collections.abc import Sequence

import pytest

from backends.protocols import Heard, Samples
from backends.vad import Window
from data_schemas.config.serving import ListenerConfig
from data_schemas.units import FRAME_S
from kame_model.serve.ears import Ears, TurnTaking
from tests.serving import LoudnessDetector, LoudnessRecogniser, saying


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_turn_without_end_is_parted_and_no_frame_of_it_is_lost() -> None:
    recogniser = LoudnessRecogniser()
    turns: list[str] = []
    texts: list[Heard] = []
    fed = 0
    ears = Ears(
        recogniser,
        LoudnessDetector(),
        TurnTaking.of(ListenerConfig()),
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
    for _ in range(n_frames):
        ears.attend(saying("alpha"))
        await asyncio.sleep(0)
    assert turns == ["started", "stopped", "started", "stopped", "started"]
    assert fed == n_frames
    assert sum(heard.is_final for heard in texts) == 2
    ears.close()
