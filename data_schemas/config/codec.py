"""Learning the codebooks of Codec 2 from speech."""

from typing import Literal

from pydantic import Field

from data_schemas.config.base import Config


class CodecLearnConfig(Config):
    """How codebooks for Codec 2 are learnt from a dataset's voices; every field affects the result."""

    speakers: Literal["A", "B", "AB"] = Field(
        default="AB",
        description="Speakers to learn from: A (the assistant), B (the user), or AB: both, but the user in only a "
        "quarter of the dialogues, because the model needs to notice the user's speech, but not to reproduce it.",
    )
    most_speech_s: float = Field(
        default=3600.0,
        gt=0,
        description="Maximum amount of speech to learn from, in seconds; dialogues are drawn by seed.",
    )
    n_stages: int = Field(
        default=2, ge=1, le=8, description="Number of stages (codes) for the spectrum of each frame of 40 ms."
    )
    card: int | None = Field(
        default=None,
        ge=2,
        le=4096,
        description="Number of entries of each codebook; empty: 512, or the largest power of two for which there is "
        "enough speech.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of the choice of dialogues and of the search.")


class NeuralCodecConfig(Config):
    """How the networks of `codec2-neural` are trained on a voice; every field affects the result."""

    n_steps: int = Field(default=4_000, ge=400, description="Number of training steps, each of a minute of speech.")
    learning_rate: float = Field(default=1.5e-3, gt=0, description="The highest learning rate.")
    card: int = Field(default=512, ge=2, le=4096, description="Number of entries for what is said in 40 ms.")
    prosody_card: int = Field(default=128, ge=2, le=4096, description="Number of entries for the prosody of 80 ms.")
    width: int = Field(default=192, ge=8, le=1024, description="Width of the networks.")
    seed: int = Field(default=0, ge=0, description="Seed of weights, examples and noise.")
