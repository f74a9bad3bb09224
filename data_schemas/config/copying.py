"""The copying stage of a front-end's training: what its random words are like, and when they become harder."""

from typing import Self

from pydantic import Field, model_validator

from data_schemas.config.base import Config


class CopyConfig(Config):
    """The copying stage: random words as oracle and as text, no audio; harder as accuracy grows."""

    batch_size: int = Field(
        default=64, ge=1, le=4096, description="Short examples of a micro-batch; of long ones as many fewer."
    )
    min_words: int = Field(default=2, ge=1, le=64, description="Fewest words of an oracle.")
    max_words: int = Field(default=10, ge=1, le=64, description="Most words of an oracle, but in the last lessons.")
    max_gap_frames: int = Field(default=4, ge=0, le=12, description="Widest gap after a word, at the end; frames.")
    max_frames: int = Field(
        default=400,
        ge=0,
        le=5000,
        description="Longest example, at the end: as long as a dialogue; 0: none is longer than one oracle's words.",
    )
    # Of 438 answers of our own data: 5% have more than 36 words; a quarter of the words of those with more than 20
    # stand in them before; 73% of a word's later pieces come frames after the piece before.
    long_words: int = Field(
        default=36,
        ge=0,
        le=64,
        description="Most words of an oracle in the last lessons, where words come again and slowly, as in real "
        "answers; 0: no such lessons.",
    )
    again_share: float = Field(
        default=0.15,
        ge=0,
        le=1,
        description="In the last lessons, how often up to three words of the oracle come again in place of a new one.",
    )
    slow_share: float = Field(
        default=0.6,
        ge=0,
        le=1,
        description="In the last lessons, share of a word's later pieces that come frames after the one before.",
    )
    correct_share: float = Field(
        default=0.2, ge=0, le=1, description="Share of examples in which a new oracle comes while one is being said."
    )
    accuracy: float = Field(
        default=0.88,
        gt=0,
        lt=1,
        description="Share of the words' tokens foreseen at which the next lesson begins, and the stage ends.",
    )
    smoothing: float = Field(default=0.95, ge=0, lt=1, description="Weight of the past in the running accuracy.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min_words > self.max_words:
            raise ValueError("min_words is greater than max_words")
        return self
