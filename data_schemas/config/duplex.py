"""How a front-end takes turns: Full-Duplex-Bench, or the same four questions asked of one's own dialogues."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from data_schemas.config.base import at_home
from data_schemas.config.calls import CallsConfig
from data_schemas.config.recall import Split, check_test_stands_alone
from data_schemas.config.serving import Mode

DuplexTask = Literal["pause_handling", "backchannel", "turn_taking", "user_interruption"]
"""Whether it keeps silent in a pause · listens, with a word at times · answers soon · answers who interrupts it."""

TASKS: tuple[DuplexTask, ...] = ("pause_handling", "backchannel", "turn_taking", "user_interruption")


class DuplexConfig(CallsConfig):
    """What a server hears, and how what it says is heard."""

    path: str = Field(
        description="Full-Duplex-Bench's data, version 1: folders such as candor_turn_taking, each with a folder an "
        "item; or a dataset of ours, of whose dialogues the same is asked."
    )
    tasks: list[DuplexTask] = Field(default=list(TASKS), min_length=1, description="Which of the four are asked.")
    modes: list[Mode] = Field(default=["tandem"], min_length=1, description="Modes of the server that are called.")
    n_items: int = Field(default=0, ge=0, description="Items at most of each of the data's folders; 0: all.")
    items_seed: int = Field(default=0, ge=0, description="Seed of which these are; one seed for all that is compared.")
    splits: list[Split] = Field(
        default=["validation"],
        min_length=1,
        description="Of a dataset of ours: whose dialogues; test stands alone, and each look at it is counted.",
    )
    wait_s: float = Field(
        default=8.0,
        gt=0,
        le=60,
        description="Of a dataset of ours: silence after a turn that is to be answered, seconds; the bench's sounds "
        "hold theirs.",
    )
    backchannel_times: str = Field(
        default="",
        description="When people said backchannels: the bench's icc_gt_distribution.json; empty: the one in `path`, if "
        "any. Datasets of ours know it of each dialogue.",
    )

    _expanded = field_validator("path", "backchannel_times")(at_home)

    @model_validator(mode="after")
    def _keeps_test_apart(self) -> Self:
        check_test_stands_alone(self.splits)
        return self
