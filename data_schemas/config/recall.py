"""Free running on held-out dialogues: does the model say what its oracle tells it?"""

from collections.abc import Sequence
from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from data_schemas.config.base import Config
from data_schemas.config.model import SamplingConfig

Split = Literal["train", "validation", "test"]

TEST: Split = "test"
"""The split whose every evaluation is counted."""

Told = Literal["right", "none", "wrong", "corrected"]
"""What the model's oracle is: the dialogue's own, none, another dialogue's, or that one until the right one comes."""

Channel = Literal["recoded", "noise-20-db", "noise-10-db", "noise-5-db", "room", "telephone"]
"""What the user's sound goes through before it is heard. recoded: through the codec a second time and nothing else."""


def list_channels() -> list[Channel]:
    """All channels."""
    return list(get_args(Channel))


def check_test_stands_alone(splits: Sequence[Split]) -> None:
    """Raises a ValueError where test items are asked for beside others."""
    if TEST in splits and len(splits) > 1:
        raise ValueError("splits: test stands alone, so that no figure mixes it with what is looked at every day")


class RecallConfig(Config):
    """Which dialogues a model is run on, and how."""

    splits: list[Split] = Field(
        default=["validation"], min_length=1, description="Whose dialogues are run; test stands alone."
    )
    n_items: int = Field(
        default=150, ge=1, le=100_000, description="Items at most, the sources in turn, one dialogue of each."
    )
    items_seed: int = Field(
        default=0, ge=0, description="Seed of which these are; one seed, the same ones for all that is compared."
    )
    oracles: list[Told] = Field(
        default=["right", "none", "wrong", "corrected"], min_length=1, description="Under which oracles they are run."
    )
    delays_s: list[float] = Field(
        default=[0.1, 0.32, 1.0, 2.0, 3.0],
        min_length=1,
        description="How long the back-end takes to answer, seconds: of the right oracle each.",
    )
    delay_s: float = Field(
        default=0.32, ge=0, le=10, description="The same of the wrong and the corrected oracle, and of channels."
    )
    correction_after_s: float = Field(
        default=1.0,
        ge=0,
        le=10,
        description="The correction comes so long after the third word of the wrong answer was said, seconds.",
    )
    channels: list[Channel] = Field(
        default=[], description="What the users' sound goes through, with the right oracle; empty: only as recorded."
    )
    seed: int = Field(default=0, ge=0, description="Seed of the sampling and of noise.")
    batch_size: int = Field(default=32, ge=1, le=4096, description="Dialogues run side by side.")
    n_sounds: int = Field(default=4, ge=0, le=1000, description="Dialogues kept as sound, of each oracle and delay.")
    sampling: SamplingConfig = Field(
        default_factory=SamplingConfig,
        description="How tokens are chosen; what is not given is as the checkpoint says, as for the server.",
    )

    @model_validator(mode="after")
    def _holds(self) -> Self:
        check_test_stands_alone(self.splits)
        if not all(0 <= delay_s <= 10 for delay_s in self.delays_s):
            raise ValueError("delays_s: each is 0 to 10 s")
        return self
