"""How a front-end reads and says a codec's codes: the codec states it; token rows, runs and checkpoints carry it."""

from collections.abc import Sequence
from typing import Final, Self

from pydantic import Field, model_validator

from data_schemas.config.base import Config

_SEMANTIC_WEIGHT: Final = 100.0
"""Of Mimi's first codebook where another one weighs 1: moshi-finetune, `first_codebook_weight_multiplier`."""


class CodeLayout(Config):
    """One number a codebook, and a temperature.

    A frame's codes may come later than its text: a front-end then knows the words of a sound before it makes the sound.
    What it says is late by the longest delay.
    """

    sizes: tuple[int, ...] = Field(
        min_length=1, description="Entries of each codebook; ids beyond its own are never said."
    )
    delays: tuple[int, ...] = Field(
        description="Frames by which each codebook of the own voice comes after the text of its frame."
    )
    other_delays: tuple[int, ...] = Field(description="Frames by which each one of the other voice comes late.")
    weights: tuple[float, ...] = Field(description="Weight of each codebook in the loss.")
    temp: float = Field(gt=0, le=5, description="Temperature of the codes where nobody says otherwise.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if {len(self.delays), len(self.other_delays), len(self.weights)} != {len(self.sizes)}:
            raise ValueError("sizes, delays, other_delays and weights have one number a codebook each")
        if min(self.sizes) < 2 or min(self.of_rows) < 0:
            raise ValueError("a codebook has two entries at least, and comes no earlier than the text")
        return self

    @classmethod
    def of_mimi(cls, n_codebooks: int, card: int) -> Self:
        """Mimi's, as Moshi has it (arXiv 2410.00037, section 3.4.4), and whatever has a first codebook like Mimi's.

        The first comes with the text and weighs most, the others come a frame later.
        """
        delays = (0, *[1] * (n_codebooks - 1))
        weights = (_SEMANTIC_WEIGHT, *[1.0] * (n_codebooks - 1))
        return cls(sizes=(card,) * n_codebooks, delays=delays, other_delays=delays, weights=weights, temp=0.8)

    @classmethod
    def of_parameters(cls, sizes: Sequence[int], text_lead: int, temp: float) -> Self:
        """That of a codec whose codes of a frame are of one kind: all come at once, and weigh the same.

        Args:
            sizes: entries of each codebook.
            text_lead: frames by which the text is ahead of the own sound. What is heard comes without delay.
            temp: temperature of the codes.
        """
        n = len(sizes)
        return cls(sizes=tuple(sizes), delays=(text_lead,) * n, other_delays=(0,) * n, weights=(1.0,) * n, temp=temp)

    @property
    def n_codebooks(self) -> int:
        """Codebooks of one voice."""
        return len(self.sizes)

    @property
    def card(self) -> int:
        """Entries of the largest codebook; a front-end's heads are of this size."""
        return max(self.sizes)

    @property
    def of_rows(self) -> tuple[int, ...]:
        """Delays of the 1 + 2n rows of a column, text, own voice and other, as `LMModel(delays=…)` takes them."""
        return (0, *self.delays, *self.other_delays)

    @property
    def longest_delay(self) -> int:
        """Frames by which the last code of a frame comes late."""
        return max(self.of_rows)
