"""Free running on held-out dialogues."""

from typing import Literal

from pydantic import Field

from data_schemas.config.base import Config
from data_schemas.config.model import SamplingConfig

Split = Literal["train", "validation", "test"]


class EvaluationConfig(Config):
    """Which dialogues a model is run on, and how."""

    splits: list[Split] = Field(default=["validation"], min_length=1, description="Whose dialogues are run.")
    n_items: int = Field(
        default=150, ge=1, le=100_000, description="Items at most, the sources in turn, one dialogue of each."
    )
    items_seed: int = Field(
        default=0, ge=0, description="Seed of which these are; one seed, the same ones for all that is compared."
    )
    delay_s: float = Field(default=0.32, ge=0, le=10, description="How long the back-end takes to answer, seconds.")
    seed: int = Field(default=0, ge=0, description="Seed of the sampling.")
    batch_size: int = Field(default=32, ge=1, le=4096, description="Dialogues run side by side.")
    n_sounds: int = Field(default=4, ge=0, le=1000, description="Dialogues kept as sound, of each condition.")
    sampling: SamplingConfig = Field(default_factory=SamplingConfig, description="How tokens are chosen.")
