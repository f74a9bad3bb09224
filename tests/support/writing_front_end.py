"""A front-end that writes known text on known frames, whatever it hears, with a loud sound of its own."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from data_schemas.units import FRAME_N_SAMPLES
from kame_model.frames.ids import PADDING_ID
from kame_model.serve.device.engine import FrameIn, FrameOut

OWN_LOUDNESS = 0.9
"""Of its own sound, which no other voice here reaches."""

Script = Mapping[int, str]
"""Pieces of text by the frame of the session on which they are written."""


class WritingEngine:
    """Stands in for the server's `FrontEndEngine`; takes a script for each slot, and then its arguments."""

    def __init__(
        self, scripts: list[Script], front_end: Any, codec: Any, tokenizer: Any, n_slots: int, *_: Any
    ) -> None:
        self.n_slots = n_slots
        self._scripts = scripts
        self._n_frames = [0] * n_slots

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """There is nothing to give back."""

    def measure(self) -> float:
        return 0.001

    def reset(self, slot: int) -> None:
        self._n_frames[slot] = 0

    def step(self, inputs: Mapping[int, FrameIn]) -> dict[int, FrameOut]:
        """Returns a loud frame for each slot, with the text that its script has for this frame."""
        said = {}
        for slot in inputs:
            text = self._scripts[slot].get(self._n_frames[slot], "")
            self._n_frames[slot] += 1
            said[slot] = FrameOut(np.full(FRAME_N_SAMPLES, OWN_LOUDNESS, np.float32), PADDING_ID, text)
        return said


def words_from(frame: int, text: str, every: int = 3) -> dict[int, str]:
    """Returns a script that writes a word of a text every `every` frames, from a frame on."""
    return {frame + every * number: f" {word}" for number, word in enumerate(text.split())}
