"""What all evaluations share that call a server."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from data_schemas.config.base import Config
from data_schemas.config.judge import JudgeConfig
from data_schemas.config.serving import NO_CHECKPOINT, Mode, ServeConfig


class CallsConfig(Config):
    """Which server is called in which modes, and who writes down what it says."""

    serving: ServeConfig = Field(
        description="The server that is called, its checkpoint (none: mode cascade alone) and back-ends."
    )
    modes: list[Mode] = Field(
        default=["direct", "tandem", "cascade"], min_length=1, description="Modes of the server that are called."
    )
    delays_s: list[Annotated[float, Field(ge=0, le=60)]] = Field(
        default=[],
        description="Whole answers of the back-end come so long after they were asked for, seconds, each in turn; "
        "empty: when they really came. Mode direct asks nobody and has none.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of the sampling; of mt-bench also of the voices that ask.")
    recogniser: str = Field(
        default="moonshine", description="Recogniser that writes down what the assistant said; `kame backends`."
    )
    recogniser_options: dict[str, str | int | float | bool] = Field(
        default={}, description="That recogniser's own options."
    )
    n_sounds: int = Field(default=4, ge=0, le=1000, description="Calls of each mode that are kept as sound.")
    judge: JudgeConfig | None = Field(default=None, description="Chat model that judges; empty: none does.")

    @model_validator(mode="after")
    def _has_front_end(self) -> Self:
        if self.serving.checkpoint == NO_CHECKPOINT and {*self.modes} != {"cascade"}:
            raise ValueError("modes: without a checkpoint there is no mode but cascade")
        return self
