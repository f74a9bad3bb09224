"""Turn-taking evaluation: Full-Duplex-Bench, or the same four tasks on dialogues of one's own."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from data_schemas.config.base import expand_home
from data_schemas.config.calls import CallsConfig
from data_schemas.config.recall import Split, check_test_stands_alone
from data_schemas.config.serving import Mode

DuplexTask = Literal["pause_handling", "backchannel", "turn_taking", "user_interruption"]
"""Stays silent in a pause · backchannels while it listens · answers soon · answers after an interruption."""

TASKS: tuple[DuplexTask, ...] = ("pause_handling", "backchannel", "turn_taking", "user_interruption")


class DuplexConfig(CallsConfig):
    """Settings of a turn-taking evaluation of a server."""

    path: str = Field(
        description="Folder of Full-Duplex-Bench version 1, with folders such as candor_turn_taking and one folder "
        "per item; or a dataset of `kame refresh`, for the same tasks on its dialogues."
    )
    tasks: list[DuplexTask] = Field(default=list(TASKS), min_length=1, description="Tasks to evaluate.")
    modes: list[Mode] = Field(default=["tandem"], min_length=1, description="Modes of the server that are called.")
    n_items: int = Field(default=0, ge=0, description="Maximum number of items of each of the data's folders; 0: all.")
    items_seed: int = Field(
        default=0, ge=0, description="Seed of the choice of items; use the same seed for all models that are compared."
    )
    splits: list[Split] = Field(
        default=["validation"],
        min_length=1,
        description="For a dataset of `kame refresh`: splits to evaluate on; test cannot be combined with others, "
        "and each evaluation on it is counted.",
    )
    wait_s: float = Field(
        default=8.0,
        gt=0,
        le=60,
        description="For a dataset of `kame refresh`: silence after a turn that should be answered, in seconds; the "
        "bench's audio includes it.",
    )
    backchannel_times: str = Field(
        default="",
        description="Times at which people said backchannels: the bench's icc_gt_distribution.json; empty: the file "
        "in `path`, if any. Datasets of `kame refresh` contain them.",
    )

    _expanded = field_validator("path", "backchannel_times")(expand_home)

    @model_validator(mode="after")
    def _check_splits(self) -> Self:
        """Checks that test is not combined with other splits."""
        check_test_stands_alone(self.splits)
        return self
