"""Copying in a front-end's training: what its random words are like, and when they become harder."""

from typing import Self

from pydantic import Field, model_validator

from data_schemas.config.base import Config


class CopyConfig(Config):
    """Random words as oracle and as text, no audio.

    The first lesson has words that follow each other at once, in examples of `min_frames`; in the last one all is as
    told here, and in those between a part of it. A run most of whose steps copy goes through the lessons by its
    `accuracy`, any other has the last one alone.
    """

    batch_size: int = Field(
        default=64, ge=1, le=4096, description="Examples of a micro-batch of `min_frames` each; of longer ones fewer."
    )
    lessons: int = Field(default=5, ge=1, le=64, description="Lessons from the easiest to the hardest.")
    smoothing: float = Field(default=0.95, ge=0, lt=1, description="Weight of the past in the running accuracy.")
    min_frames: int = Field(default=75, ge=16, le=5000, description="Length of an example of the first lesson.")
    max_frames: int = Field(
        default=400, ge=16, le=5000, description="Length of an example of the last lesson: about that of a dialogue."
    )
    # Of 438 answers of our own data: 5% have more than 36 words; a quarter of the words of those with more than 20
    # stand in them before; 73% of a word's later pieces come frames after the piece before.
    max_words: int = Field(default=24, ge=1, le=64, description="Most words of an oracle.")
    again_share: float = Field(
        default=0.15, ge=0, le=1, description="How often words of the oracle come again in the place of a new one."
    )
    max_gap_frames: int = Field(default=4, ge=0, le=12, description="Widest gap after a word.")
    slow_share: float = Field(
        default=0.6, ge=0, le=1, description="Share of a word's later pieces that come frames after the one before."
    )
    max_delay_frames: int = Field(default=38, ge=0, le=250, description="Longest delay of a back-end; 38: 3 s.")
    lead_share: float = Field(
        default=0.4, ge=0, le=1, description="Share of delays in which words are said that no oracle tells."
    )
    part_share: float = Field(
        default=0.2, ge=0, le=1, description="How often an oracle comes in parts, as a slow back-end writes it."
    )
    correct_share: float = Field(
        default=0.2, ge=0, le=1, description="Share of oracles in whose midst a new one comes in their place."
    )
    silent_share: float = Field(default=0.1, ge=0, le=1, description="Share of exchanges without any oracle.")
    max_silence_frames: int = Field(
        default=125, ge=0, le=1000, description="Longest silence behind an answer; 125: 10 s."
    )
    slip_share: float = Field(
        default=0.02, ge=0, le=1, description="Share of frames at which something else is said than what was to be."
    )
    own_share: float = Field(
        default=0.5, ge=0, le=1, description="Share of micro-batches in whose past stands what the model itself says."
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min_frames > self.max_frames:
            raise ValueError("min_frames is greater than max_frames")
        return self
