"""Copying in a front-end's training: random words and their curriculum."""

from typing import Self

from pydantic import Field, model_validator

from data_schemas.config.base import Config


class CopyConfig(Config):
    """Random words as oracle and as text, without audio.

    In the first lesson, words follow each other without gaps in examples of `min_frames`. The last lesson uses all
    settings in full, and the lessons between increase them gradually. A run in which most steps copy goes through the
    lessons by its `accuracy`; any other run uses only the last lesson.
    """

    batch_size: int = Field(
        default=64,
        ge=1,
        le=4096,
        description="Number of examples of `min_frames` in a micro-batch; fewer if examples are longer.",
    )
    lessons: int = Field(default=5, ge=1, le=64, description="Number of lessons, from the easiest to the hardest.")
    smoothing: float = Field(
        default=0.95, ge=0, lt=1, description="Weight of the past in the running mean of the accuracy."
    )
    min_frames: int = Field(
        default=75, ge=16, le=5000, description="Length of an example in the first lesson, in frames."
    )
    max_frames: int = Field(
        default=400,
        ge=16,
        le=5000,
        description="Length of an example in the last lesson, in frames; about that of a dialogue.",
    )
    # Of 438 answers of our own data: 5% have more than 36 words; a quarter of the words of those with more than 20
    # occur in them before; 73% of a word's later pieces come frames after the piece before.
    max_words: int = Field(default=24, ge=1, le=64, description="Maximum number of words of an oracle.")
    again_share: float = Field(
        default=0.15,
        ge=0,
        le=1,
        description="Probability that earlier words of the oracle are repeated instead of a new word.",
    )
    max_gap_frames: int = Field(default=4, ge=0, le=12, description="Maximum gap after a word, in frames.")
    slow_share: float = Field(
        default=0.6,
        ge=0,
        le=1,
        description="Share of a word's later pieces that come with a gap after the previous piece.",
    )
    max_delay_frames: int = Field(
        default=38, ge=0, le=250, description="Maximum delay of a back-end, in frames; 38 is 3 s."
    )
    lead_share: float = Field(
        default=0.4, ge=0, le=1, description="Share of delays in which words are said that are not in the oracle."
    )
    part_share: float = Field(
        default=0.2, ge=0, le=1, description="Probability that an oracle arrives in parts, as from a slow back-end."
    )
    max_guesses: int = Field(
        default=4,
        ge=0,
        le=32,
        description="Maximum number of oracles, of which nothing is said, before the one that is said; 0 for a "
        "front-end whose server feeds no guesses (data.feed.guesses=hold).",
    )
    correct_share: float = Field(
        default=0.2, ge=0, le=1, description="Share of oracles that are replaced by a new one before they end."
    )
    silent_share: float = Field(default=0.1, ge=0, le=1, description="Share of turns without any oracle.")
    max_silence_frames: int = Field(
        default=125, ge=0, le=1000, description="Maximum silence after an answer, in frames; 125 is 10 s."
    )
    slip_share: float = Field(default=0.02, ge=0, le=1, description="Share of frames at which a wrong token is said.")
    own_share: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Share of micro-batches whose past contains the model's own predictions (scheduled sampling).",
    )

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        """Checks that min_frames is at most max_frames."""
        if self.min_frames > self.max_frames:
            raise ValueError("min_frames is greater than max_frames")
        return self
