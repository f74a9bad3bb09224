"""The codec that is made here: whose speech its codebooks are learnt from."""

from typing import Literal

from pydantic import Field

from data_schemas.config.base import Config


class CodecLearnConfig(Config):
    """How codebooks for Codec 2 are learnt from a dataset's voices; all of it decides them."""

    speakers: Literal["A", "B", "AB"] = Field(
        default="AB",
        description="Whose speech: A (the assistant), B (the user), or both; then the user's of a quarter of the "
        "dialogues, who needs no more than to be heard coming.",
    )
    most_speech_s: float = Field(default=3600.0, gt=0, description="Most sound to learn from; dialogues drawn by seed.")
    n_stages: int = Field(default=2, ge=1, le=8, description="Codes for the spectrum of 40 ms.")
    card: int | None = Field(
        default=None,
        ge=2,
        le=4096,
        description="Entries of each codebook; empty: 512, or the power of two that the speech is enough for.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of the choice of dialogues and of the search.")
