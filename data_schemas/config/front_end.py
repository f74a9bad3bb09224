"""From datasets to a registered checkpoint: the parameters of `kame front-end` and of the Prefect flow `train`."""

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from data_schemas.config.base import Config, at_home
from data_schemas.config.evaluation import Split

OF_MOSHI = {
    "init_from": "kyutai/moshiko-pytorch-bf16",
    "tokenizer": "hf://kyutai/moshiko-pytorch-bf16/tokenizer_spm_32k_3.model",
    "codec": "mimi",
}
"""What `moshi-7b` begins with and speaks, where nothing else is said: Kyutai's weights, vocabulary and codec."""


class FrontEndConfig(Config):
    """All that a run from shards to a checkpoint is told; what is left empty is made from the datasets themselves."""

    datasets: list[str] = Field(
        default_factory=list, title="Datasets", description="Folders that `kame refresh` wrote; trained on together."
    )
    out: str = Field(
        default="front-end",
        title="Folder of the run",
        description="Vocabulary, codec, token rows, training runs and evaluation; an existing one is gone on with.",
    )
    checkpoints: str = Field(
        default="checkpoints",
        title="Folder of checkpoints",
        description="Where the finished checkpoint is put and registered, in index.json.",
    )
    preset: Literal["nano", "small", "moshi-7b"] = Field(
        default="nano",
        title="Size",
        description="nano: a laptop's CPU; small: one GPU; moshi-7b: from Kyutai's weights.",
    )
    oracle_version: str | None = Field(
        default=None, title="Oracles", description="Version to train on; empty: each dataset's own."
    )
    tokenizer: str | None = Field(
        default=None,
        title="Vocabulary",
        description="SentencePiece file; empty: trained on what the datasets say, for moshi-7b Moshi's own.",
    )
    vocabulary: int = Field(
        default=1500, ge=200, le=64_000, title="Pieces", description="Pieces of a vocabulary that is trained here."
    )
    codec: Literal["nano-mimi", "mimi"] = Field(
        default="nano-mimi", title="Codec", description="nano-mimi: a small one; mimi: Kyutai's, as moshi-7b needs it."
    )
    codec_path: str | None = Field(
        default=None,
        title="Codec's weights",
        description="Folder or file; empty: nano-mimi is trained on the datasets' speech, mimi comes from the Hub.",
    )
    codec_minutes: float = Field(
        default=10.0, gt=0, le=10_000, title="Codec, minutes", description="How long a nano-mimi is trained."
    )
    copy_steps: int = Field(
        default=0, ge=0, le=10_000_000, title="Copying, steps", description="Steps on random words first; 0: none."
    )
    max_steps: int = Field(
        default=1000, ge=1, le=10_000_000, title="Training, steps", description="Optimiser steps on dialogues."
    )
    init_from: str | None = Field(
        default=None,
        title="Weights to start from",
        description="A run, an export, KAME's or Moshi's; empty: random, for moshi-7b Kyutai's.",
    )
    evaluate_items: int = Field(
        default=150, ge=0, le=100_000, title="Evaluation, dialogues", description="Held-out dialogues run; 0: none."
    )
    evaluate_splits: list[Split] = Field(
        default=["validation", "test"], min_length=1, title="Evaluation, splits", description="Whose dialogues are run."
    )
    listen: bool = Field(
        default=False, title="Listen", description="Whether a recogniser listens to what the evaluation says."
    )
    workers: int = Field(
        default=0, ge=0, le=256, title="Processes", description="That encode sound, a codec each; 0: one a core."
    )
    seed: int = Field(default=0, ge=0, title="Seed", description="Of weights, order and everything drawn.")
    device: str = Field(default="auto", title="Device", description="cpu, cuda, or auto: cuda where there is one.")
    settings: dict[str, str | int | float | bool] = Field(
        default_factory=dict,
        title="Other settings of training",
        description="By dotted name, such as optim.learning_rate or data.swap_share (docs/training.md). Those "
        "of model and hardware go for copying too.",
    )
    copy_settings: dict[str, str | int | float | bool] = Field(
        default_factory=dict, title="Other settings of copying", description="By dotted name, for the copying stage."
    )

    @field_validator("out", "checkpoints", "tokenizer", "codec_path", "init_from")
    @classmethod
    def _expanded(cls, path: str | None) -> str | None:
        return at_home(path)

    @model_validator(mode="before")
    @classmethod
    def _moshis_own(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and fields.get("preset") == "moshi-7b":
            return OF_MOSHI | {name: value for name, value in fields.items() if value is not None}
        return fields

    @model_validator(mode="after")
    def _holds(self) -> Self:
        if not self.datasets:
            raise ValueError("datasets: name at least one folder")
        if self.preset == "moshi-7b" and self.codec != "mimi":
            raise ValueError("codec: moshi-7b speaks mimi alone; choose it")
        return self
