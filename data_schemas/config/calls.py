"""Settings shared by all evaluations that call a server."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from data_schemas.config.base import Config
from data_schemas.config.judge import JudgeConfig
from data_schemas.config.serving import NO_CHECKPOINT, Mode, ServeConfig


class CallsConfig(Config):
    """The server that is called, its modes and delays, and the recogniser that transcribes its speech."""

    serving: ServeConfig = Field(
        description="Settings of the server that is called: checkpoint (none: only mode cascade), back-ends and so on."
    )
    modes: list[Mode] = Field(
        default=["direct", "tandem", "cascade"], min_length=1, description="Modes of the server to evaluate."
    )
    delays_s: list[Annotated[float, Field(ge=0, le=60)]] = Field(
        default=[],
        description="Simulated delays of the back-end: its whole answer arrives this long after the request, in "
        "seconds; each is evaluated. Empty: the real times. Mode direct uses no back-end.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of the sampling; for mt-bench also of the voices that ask.")
    recogniser: str = Field(
        default="moonshine",
        description="Speech recogniser that transcribes the assistant's speech; `kame backends` lists them.",
    )
    recogniser_options: dict[str, str | int | float | bool] = Field(
        default={}, description="Options of the recogniser."
    )
    n_sounds: int = Field(default=4, ge=0, le=1000, description="Number of calls of each mode whose audio is kept.")
    judge: JudgeConfig | None = Field(default=None, description="Chat model that judges the answers; empty: no judge.")

    @model_validator(mode="after")
    def _check_checkpoint(self) -> Self:
        """Checks that there is a checkpoint, unless the only mode is cascade."""
        if self.serving.checkpoint == NO_CHECKPOINT and {*self.modes} != {"cascade"}:
            raise ValueError("modes: without a checkpoint, only mode cascade is possible")
        return self
