"""Layout of a codec's codes in a front-end: defined by the codec; stored in token rows, runs and checkpoints."""

from collections.abc import Sequence
from typing import Final, Self

from pydantic import Field, model_validator

from data_schemas.config.base import Config

_SEMANTIC_WEIGHT: Final = 100.0
"""Loss weight of Mimi's first codebook, others 1 (moshi-finetune, `first_codebook_weight_multiplier`)."""


class CodeLayout(Config):
    """Sizes, delays and loss weights, one for each codebook, and a sampling temperature.

    A frame's codes may be delayed after its text, so that a front-end knows the words before it generates their audio.
    Its speech is late by the longest delay.
    """

    sizes: tuple[int, ...] = Field(
        min_length=1, description="Number of entries of each codebook; larger ids are never generated."
    )
    delays: tuple[int, ...] = Field(
        description="Delay of each codebook of the own voice after the text of its frame, in frames."
    )
    other_delays: tuple[int, ...] = Field(description="Delay of each codebook of the other voice, in frames.")
    weights: tuple[float, ...] = Field(description="Weight of each codebook in the loss.")
    temp: float = Field(gt=0, le=5, description="Default sampling temperature of the codes.")

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        """Checks that each codebook has delays and a weight and at least two entries, and that no delay is negative."""
        if {len(self.delays), len(self.other_delays), len(self.weights)} != {len(self.sizes)}:
            raise ValueError("sizes, delays, other_delays and weights must each have one number per codebook")
        if min(self.sizes) < 2 or min(self.of_rows) < 0:
            raise ValueError("a codebook must have at least two entries, and its delay must not be negative")
        return self

    @classmethod
    def make_mimi(cls, n_codebooks: int, card: int) -> Self:
        """Returns Mimi's layout, as in Moshi (arXiv 2410.00037, section 3.4.4), for codecs with such a first codebook.

        The first codebook has no delay and the greatest weight; the others are delayed by one frame.
        """
        delays = (0, *[1] * (n_codebooks - 1))
        weights = (_SEMANTIC_WEIGHT, *[1.0] * (n_codebooks - 1))
        return cls(sizes=(card,) * n_codebooks, delays=delays, other_delays=delays, weights=weights, temp=0.8)

    @classmethod
    def make_parametric(cls, sizes: Sequence[int], text_lead: int, temp: float) -> Self:
        """Returns the layout of a codec whose codebooks are all alike: the same delay and weight for each.

        Args:
            sizes: number of entries of each codebook.
            text_lead: delay of the own audio after the text, in frames. The other voice has no delay.
            temp: sampling temperature of the codes.
        """
        n = len(sizes)
        return cls(sizes=tuple(sizes), delays=(text_lead,) * n, other_delays=(0,) * n, weights=(1.0,) * n, temp=temp)

    @property
    def n_codebooks(self) -> int:
        """Number of codebooks of one voice."""
        return len(self.sizes)

    @property
    def card(self) -> int:
        """Number of entries of the largest codebook, which is the size of a front-end's heads."""
        return max(self.sizes)

    @property
    def of_rows(self) -> tuple[int, ...]:
        """Delays in frames of the text, which is 0, of the own and of the other codebooks, for `LMModel(delays=…)`."""
        return (0, *self.delays, *self.other_delays)

    @property
    def longest_delay(self) -> int:
        """Delay of the last code of a frame, in frames."""
        return max(self.of_rows)
