"""From datasets to a registered checkpoint: the parameters of `kame front-end` and of the Prefect flow `train`."""

from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

from pydantic import AfterValidator, Field, field_validator, model_validator
from pydantic.config import JsonDict

from data_schemas.config.base import Config, at_home
from data_schemas.config.recall import Split
from data_schemas.config.serving import Voice
from data_schemas.presets import PRESETS

SEED_PREFIX, RUN, EVALUATION = "seed-", "run", "evaluation"
"""OUT/seed-N/run, that of the last stage, and OUT/seed-N/evaluation; other stages have folders of their names."""


def find_seed_folders(out: str | Path) -> dict[int, Path]:
    """The folders of the seeds that were trained in OUT, by seed."""
    named = {each.name.removeprefix(SEED_PREFIX): each for each in Path(out).glob(f"{SEED_PREFIX}*/")}
    return {int(seed): each for seed, each in named.items() if seed.isdecimal()}


class DatasetShare(NamedTuple):
    """One dataset of a mixture as it is named: its folder, whose oracles (None: its own), how often it is met."""

    folder: str
    oracle_version: str | None = None
    weight: float = 1.0


def with_weight(text: str) -> tuple[str, float]:
    """`NAME=WEIGHT`, or a name alone, which weighs 1; behind an equals sign of a name itself stands no number."""
    name, equals, weight = text.rpartition("=")
    try:
        return (name, float(weight)) if equals else (text, 1.0)
    except ValueError:
        return text, 1.0


def dataset_share(text: str) -> DatasetShare:
    """`FOLDER`, `FOLDER@VERSION`, `FOLDER=WEIGHT` or `FOLDER@VERSION=WEIGHT`; FOLDER/ where its name holds an @."""
    name, weight = with_weight(text)
    folder, at, version = name.rpartition("@")
    if at and folder and version and "/" not in version:
        return DatasetShare(str(at_home(folder)), version, weight)
    return DatasetShare(str(at_home(name)), None, weight)


def _known_preset(name: str) -> str:
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}; choose one of: {', '.join(PRESETS)}")
    return name


def _offer_presets(schema: JsonDict) -> None:
    """Makes the field of a form a choice."""
    schema["enum"] = list(PRESETS)


class FrontEndConfig(Config):
    """All that a run from shards to a checkpoint is told; what is left empty is made from the datasets themselves."""

    datasets: list[str] = Field(
        default_factory=list,
        title="Datasets",
        description="Folders that `kame refresh` wrote, or hf://datasets/owner/name, trained on together. "
        "FOLDER@VERSION=WEIGHT names a version of its oracles and how often it is met; a folder may be named with "
        "several versions.",
    )
    held_out: str | None = Field(
        default=None,
        title="Held-out dataset",
        description="FOLDER or FOLDER@VERSION of other items, for the evaluation alone; empty: the held-out dialogues "
        "of the first dataset.",
    )
    speech: str | None = Field(
        default=None,
        title="Speech of the assistant's voice",
        description="Folder that `kame speech` wrote: learnt first, and mixed with the dialogues. Vocabulary and codec "
        "are then those of the folder.",
    )
    out: str = Field(
        default="front-end",
        title="Folder of the run",
        description="Vocabulary, codec and token rows, and for each seed its training runs and evaluation; an "
        "existing one is gone on with.",
    )
    checkpoints: str = Field(
        default="checkpoints",
        title="Folder of checkpoints",
        description="Where the finished checkpoint is put and registered, in index.json.",
    )
    preset: Annotated[str, AfterValidator(_known_preset)] = Field(
        default="nano",
        title="Size",
        description="nano: a laptop's CPU; small: one GPU; moshi-7b: from Kyutai's weights.",
        json_schema_extra=_offer_presets,
    )
    oracle_version: str | None = Field(
        default=None, title="Oracles", description="Version where none stands behind a folder; empty: its own."
    )
    tokenizer: str | None = Field(
        default=None,
        title="Vocabulary",
        description="SentencePiece file; empty: trained on what the datasets say, for moshi-7b Moshi's own.",
    )
    vocabulary: int = Field(
        default=1500, ge=200, le=64_000, title="Pieces", description="Pieces of a vocabulary that is trained here."
    )
    codec: str = Field(
        default="codec2-learnt",
        title="Codec",
        description="codec2-learnt: Codec 2, for small models; mimi: Kyutai's, as moshi-7b needs it; others: `kame "
        "backends` lists them.",
    )
    codec_options: dict[str, str | int | float | bool] = Field(
        default_factory=dict,
        title="Codec's options",
        description="Its own options, but for path and device; `kame backends options codec NAME` lists them.",
    )
    codec_path: str | None = Field(
        default=None,
        title="Codec's weights",
        description="Folder or file; empty: codec2-learnt's codebooks are learnt from the datasets' voices, mimi comes "
        "from the Hub, others have none.",
    )
    max_steps: int | None = Field(
        default=None,
        ge=1,
        le=10_000_000,
        title="Training, steps",
        description="Optimiser steps of the last stage, on dialogues; empty: as the size's plan has it.",
    )
    max_hours: float | None = Field(
        default=None,
        gt=0,
        le=10_000,
        title="Training, hours",
        description="The last stage ends by then; empty: by steps.",
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
        default=["validation"],
        min_length=1,
        title="Evaluation, splits",
        description="Whose dialogues are run: test alone, or others; of a held-out dataset all others.",
    )
    listen: bool = Field(
        default=False, title="Listen", description="Whether a recogniser listens to what the evaluation says."
    )
    workers: int = Field(
        default=0, ge=0, le=256, title="Processes", description="That encode sound, a codec each; 0: one a core."
    )
    seed: int = Field(
        default=0,
        ge=0,
        title="Seed",
        description="Of weights, order and everything drawn in training; vocabulary, codec and token rows are the same "
        "for all.",
    )
    device: str = Field(default="auto", title="Device", description="cpu, cuda, or auto: cuda where there is one.")
    settings: dict[str, str | int | float | bool] = Field(
        default_factory=dict,
        title="Other settings of training",
        description="By dotted name, such as optim.learning_rate or data.swap_share (docs/training.md), for the last "
        "stage; behind the name of another, such as speak.max_hours or copy.max_steps, for that one (0: it is left "
        "out); those of model, hardware and copying for all.",
    )
    evaluation_settings: dict[str, str | int | float | bool | list[str | float]] = Field(
        default_factory=dict,
        title="Other settings of the evaluation",
        description="By dotted name, such as delays_s or channels (docs/evaluation.md).",
    )
    sampling_settings: dict[str, str | int | float | bool] = Field(
        default_factory=dict,
        title="Settings of the sampling",
        description="How the checkpoint is to be run, by servers and evaluations, such as temp_text; its kame.json "
        "says so.",
    )
    voice: Voice = Field(
        default="decoded",
        title="Voice",
        description="How servers let the checkpoint be heard: decoded, by its own sound, or synthesised, its text by "
        "text-to-speech; its kame.json says so.",
    )

    @property
    def shares(self) -> list[DatasetShare]:
        """The datasets of the mixture, each with the version of its oracles."""
        return [self._share(each) for each in self.datasets]

    @property
    def held_out_share(self) -> DatasetShare | None:
        """The dataset of the evaluation, where it is one of its own."""
        return None if self.held_out is None else self._share(self.held_out)

    @property
    def of_seed(self) -> Path:
        """The folder of what differs from seed to seed."""
        return Path(self.out) / f"{SEED_PREFIX}{self.seed}"

    def _share(self, text: str) -> DatasetShare:
        share = dataset_share(text)
        return share._replace(oracle_version=share.oracle_version or self.oracle_version)

    @field_validator("out", "checkpoints", "speech", "tokenizer", "codec_path", "init_from")
    @classmethod
    def _expanded(cls, path: str | None) -> str | None:
        return at_home(path)

    @model_validator(mode="before")
    @classmethod
    def _begun_as_its_preset(cls, fields: Any) -> Any:
        name = fields.get("preset", cls.model_fields["preset"].default) if isinstance(fields, dict) else None
        if isinstance(name, str) and name in PRESETS and PRESETS[name].begins_with:
            return {**PRESETS[name].begins_with, **{key: each for key, each in fields.items() if each is not None}}
        return fields

    @model_validator(mode="after")
    def _holds(self) -> Self:
        if not self.datasets:
            raise ValueError("datasets: name at least one folder")
        if any(each.weight <= 0 for each in self.shares):
            raise ValueError("datasets: a weight is more than 0")
        begun = PRESETS[self.preset].begins_with
        if "init_from" in begun and self.codec != begun["codec"]:
            raise ValueError(f"codec: {self.preset} speaks {begun['codec']} alone; choose it")
        return self
