"""Recall evaluation: inference on held-out dialogues, and whether the model says what its oracle holds."""

from collections.abc import Sequence
from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from data_schemas.config.base import Config
from data_schemas.config.model import SamplingConfig
from data_schemas.guesses import Guesses

Split = Literal["train", "validation", "test"]

TEST: Split = "test"
"""The split for which every evaluation is counted in a register."""

Told = Literal["right", "none", "wrong", "corrected"]
"""The model's oracle: the dialogue's own, none, another dialogue's, or another's until the right one comes."""

Channel = Literal["recoded", "noise-20-db", "noise-10-db", "noise-5-db", "room", "telephone"]
"""Degradation of the user's audio before the model hears it. recoded: only encoded by the codec a second time."""


def list_channels() -> list[Channel]:
    """Returns all values of `Channel`."""
    return list(get_args(Channel))


def check_test_stands_alone(splits: Sequence[Split]) -> None:
    """Raises a ValueError if test is combined with other splits."""
    if TEST in splits and len(splits) > 1:
        raise ValueError(
            "splits: test cannot be combined with other splits, so that test figures stay separate; evaluate it alone"
        )


class RecallConfig(Config):
    """Dialogues, oracles, delays and sampling of a recall evaluation."""

    splits: list[Split] = Field(
        default=["validation"], min_length=1, description="Splits to evaluate on; test cannot be combined with others."
    )
    n_items: int = Field(
        default=150,
        ge=1,
        le=100_000,
        description="Maximum number of items, alternating between sources; one dialogue per item.",
    )
    items_seed: int = Field(
        default=0, ge=0, description="Seed of the choice of items; use the same seed for all models that are compared."
    )
    oracles: list[Told] = Field(
        default=["right", "none", "wrong", "corrected"],
        min_length=1,
        description="Oracles that each dialogue is run with.",
    )
    delays_s: list[float] = Field(
        default=[0.1, 0.32, 1.0, 2.0, 3.0],
        min_length=1,
        description="Delays of the back-end with the right oracle, in seconds; each is evaluated.",
    )
    delay_s: float = Field(
        default=0.32,
        ge=0,
        le=10,
        description="Delay of the back-end with the wrong and the corrected oracle, and for channels, in seconds.",
    )
    guesses: Guesses | None = Field(
        default=None,
        description="How guesses (answers to the unfinished question) are treated, as `cycle.guesses` of the server; "
        "empty: as the checkpoint was trained.",
    )
    correction_after_s: float = Field(
        default=1.0,
        ge=0,
        le=10,
        description="Time from the third word of the wrong answer to the correction, in seconds.",
    )
    silence_after_s: float = Field(
        default=6.0,
        ge=0,
        le=60,
        description="Time for which the user waits in silence after the end of the recording, in seconds, so that an "
        "answer to a late or corrected oracle can be finished.",
    )
    channels: list[Channel] = Field(
        default=[],
        description="Degradations of the user's audio, evaluated with the right oracle; empty: only as recorded.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of sampling and noise.")
    batch_size: int = Field(default=32, ge=1, le=4096, description="Number of dialogues that are run in one batch.")
    n_sounds: int = Field(
        default=4, ge=0, le=1000, description="Number of dialogues whose audio is kept, for each oracle and delay."
    )
    sampling: SamplingConfig = Field(
        default_factory=SamplingConfig,
        description="How tokens are sampled; fields that are not set are taken from the checkpoint, as in the server.",
    )

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        """Checks that test is not combined with other splits, and that delays are from 0 to 10 seconds."""
        check_test_stands_alone(self.splits)
        if not all(0 <= delay_s <= 10 for delay_s in self.delays_s):
            raise ValueError("delays_s: each delay must be from 0 to 10 seconds")
        return self
