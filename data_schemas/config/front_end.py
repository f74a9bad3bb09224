"""From datasets to a registered checkpoint: the parameters of `kame train` and of the Prefect flow `train`."""

from math import inf
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

from pydantic import AfterValidator, Field, field_validator, model_validator
from pydantic.config import JsonDict

from data_schemas.config.base import Config, expand_home
from data_schemas.config.recall import Split
from data_schemas.config.serving import Voice
from data_schemas.presets import PRESETS

SEED_PREFIX, RUN, EVALUATION = "seed-", "run", "evaluation"
"""OUT/seed-N/run is the last stage, other stages are beside it by name; OUT/seed-N/evaluation is the evaluation."""
_CODEC = "codec2-learnt"
"""The codec of a run for which nothing determines another one."""


def find_seed_folders(out: str | Path) -> dict[int, Path]:
    """Returns the folders `out`/seed-N by N, whatever they hold; empty if there are none."""
    named = {each.name.removeprefix(SEED_PREFIX): each for each in Path(out).glob(f"{SEED_PREFIX}*/")}
    return {int(seed): each for seed, each in named.items() if seed.isdecimal()}


class DatasetShare(NamedTuple):
    """One dataset of a mixture: its folder, its oracle version (None: the default one), and its sampling weight."""

    folder: str
    oracle_version: str | None = None
    weight: float = 1.0


def parse_weight(text: str) -> tuple[str, float]:
    """Returns name and weight of `NAME=WEIGHT`; if no number follows the last `=`, the whole text and weight 1."""
    name, equals, weight = text.rpartition("=")
    try:
        return (name, float(weight)) if equals else (text, 1.0)
    except ValueError:
        return text, 1.0


def parse_dataset_share(text: str) -> DatasetShare:
    """Parses `FOLDER[@VERSION][=WEIGHT]`; `~` in the folder is expanded.

    Without a version it is None, without a weight 1. A folder whose own name contains an @ is written `FOLDER/`, and so
    is an address on the Hub with a revision, which would be taken for a version.
    """
    name, weight = parse_weight(text)
    folder, at, version = name.rpartition("@")
    if at and folder and version and "/" not in version:
        return DatasetShare(str(expand_home(folder)), version, weight)
    return DatasetShare(str(expand_home(name)), None, weight)


def _check_preset(name: str) -> str:
    """Returns the name of a preset unchanged; raises ValueError if there is none of that name."""
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}; choose one of: {', '.join(PRESETS)}")
    return name


def _offer_presets(schema: JsonDict) -> None:
    """Adds the presets to the JSON schema as an enum, so that forms show a choice."""
    schema["enum"] = list(PRESETS)


class FrontEndConfig(Config):
    """All settings of a run from shards to a checkpoint; what is empty is made from the datasets themselves."""

    datasets: list[str] = Field(
        default_factory=list,
        title="Datasets",
        description="Folders written by `kame refresh`, or hf://datasets/owner/name, which are trained on together. "
        "FOLDER@VERSION=WEIGHT chooses a version of its oracles and a sampling weight; a folder may be given with "
        "several versions.",
    )
    held_out: str | None = Field(
        default=None,
        title="Held-out dataset",
        description="FOLDER or FOLDER@VERSION of other items, used for the evaluation only; empty: the held-out "
        "dialogues of the first dataset.",
    )
    speech: str | None = Field(
        default=None,
        title="Speech of the assistant's voice",
        description="Folder written by `kame speech`: it is trained on first, and then mixed with the dialogues. "
        "Tokenizer and codec are taken from it.",
    )
    out: str = Field(
        default="front-end",
        title="Folder of the run",
        description="Folder for tokenizer, codec and token rows, and the training runs and evaluation of each seed. "
        "An existing one is resumed.",
    )
    checkpoints: str = Field(
        default="checkpoints",
        title="Folder of checkpoints",
        description="Folder in which the finished checkpoint is stored and registered, in index.json.",
    )
    preset: Annotated[str, AfterValidator(_check_preset)] = Field(
        default="nano",
        title="Size",
        description="nano: for a laptop's CPU; small: for one GPU; moshi-7b: starts from Kyutai's weights.",
        json_schema_extra=_offer_presets,
    )
    oracle_version: str | None = Field(
        default=None,
        title="Oracles",
        description="Version of the oracles for folders without @VERSION; empty: the dataset's own.",
    )
    tokenizer: str | None = Field(
        default=None,
        title="Vocabulary",
        description="SentencePiece file; empty: trained on the datasets' texts, for moshi-7b Moshi's own.",
    )
    vocabulary: int = Field(
        default=1500,
        ge=200,
        le=64_000,
        title="Pieces",
        description="Size of the vocabulary, in pieces, if a tokenizer is trained in this run.",
    )
    codec: str | None = Field(
        default=None,
        title="Codec",
        description="codec2-learnt: Codec 2, for small models; mimi: Kyutai's, required by moshi-7b; `kame backends` "
        "lists others. Empty: that of the speech rows; without them mimi for small and moshi-7b, for others that of "
        "the export to start from or of the folder in codec_path, or codec2-learnt.",
    )
    codec_options: dict[str, str | int | float | bool] = Field(
        default_factory=dict,
        title="Codec's options",
        description="Options of the codec except path and device; `kame backends options codec NAME` lists them.",
    )
    codec_path: str | None = Field(
        default=None,
        title="Codec's weights",
        description="Folder or file; empty: codebooks of codec2-learnt are trained on the datasets' voices, mimi is "
        "downloaded from the Hub, other codecs need no weights.",
    )
    max_steps: int | None = Field(
        default=None,
        ge=1,
        le=10_000_000,
        title="Training steps",
        description="Optimiser steps of the last stage, on dialogues; empty: as in the preset's plan.",
    )
    max_hours: float | None = Field(
        default=None,
        gt=0,
        le=10_000,
        title="Training hours",
        description="Maximum duration of the last stage, in hours; empty: it ends by steps.",
    )
    init_from: str | None = Field(
        default=None,
        title="Weights to start from",
        description="A training run, an export, KAME's or Moshi's weights; empty: random weights; with "
        "datasets and moshi-7b: Kyutai's published weights. With datasets, the vocabulary and codec of an "
        "export are used unless others are named.",
    )
    evaluate_items: int = Field(
        default=150,
        ge=0,
        le=100_000,
        title="Evaluation, dialogues",
        description="Number of held-out dialogues to evaluate on; 0: no evaluation.",
    )
    evaluate_splits: list[Split] = Field(
        default=["validation"],
        min_length=1,
        title="Evaluation, splits",
        description="Splits to evaluate on: test alone, or others. Of a held-out dataset: all others.",
    )
    listen: bool = Field(
        default=False,
        title="Listen",
        description="Whether the speech of the evaluation is transcribed by a recogniser as well.",
    )
    workers: int = Field(
        default=0,
        ge=0,
        le=256,
        title="Processes",
        description="Number of processes that encode audio, each with a codec; 0: one per core.",
    )
    seed: int = Field(
        default=0,
        ge=0,
        title="Seed",
        description="Seed of weights, data order and all other random choices of training; tokenizer, codec and token "
        "rows do not depend on it.",
    )
    device: str = Field(default="auto", title="Device", description="cpu, cuda, or auto: cuda if available.")
    settings: dict[str, str | int | float | bool] = Field(
        default_factory=dict,
        title="Other settings of training",
        description="Training settings by dotted name, such as optim.learning_rate or data.swap_share "
        "(docs/training.md), for the last stage; with the name of another stage as prefix, such as speak.max_hours or "
        "copy.max_steps, for that stage (0 skips it); those of model, hardware and copying for all.",
    )
    evaluation_settings: dict[str, str | int | float | bool | list[str | float]] = Field(
        default_factory=dict,
        title="Other settings of the evaluation",
        description="Evaluation settings by dotted name, such as delays_s or channels (docs/evaluation.md).",
    )
    sampling_settings: dict[str, str | int | float | bool] = Field(
        default_factory=dict,
        title="Settings of the sampling",
        description="Sampling settings of the checkpoint for servers and evaluations, such as temp_text; stored in "
        "its kame.json.",
    )
    voice: Voice = Field(
        default="decoded",
        title="Voice",
        description="What callers hear: `decoded` (the model's own audio) or `synthesised` (its text, spoken by "
        "text-to-speech). Stored in the checkpoint's kame.json.",
    )

    @property
    def shares(self) -> list[DatasetShare]:
        """The datasets of the mixture, each with the version of its oracles."""
        return [self._parse_share(each) for each in self.datasets]

    @property
    def held_out_share(self) -> DatasetShare | None:
        """The separate dataset of the evaluation; None if there is none."""
        return None if self.held_out is None else self._parse_share(self.held_out)

    @property
    def codec_name(self) -> str:
        """The name of the codec to use: the configured one, or codec2-learnt."""
        return self.codec or _CODEC

    @property
    def of_seed(self) -> Path:
        """Folder of the files that differ from seed to seed, `OUT/seed-N`."""
        return Path(self.out) / f"{SEED_PREFIX}{self.seed}"

    def _parse_share(self, text: str) -> DatasetShare:
        """Parses one of `datasets`; a share without an oracle version gets `oracle_version`."""
        share = parse_dataset_share(text)
        return share._replace(oracle_version=share.oracle_version or self.oracle_version)

    @field_validator("out", "checkpoints", "speech", "tokenizer", "codec_path", "init_from")
    @classmethod
    def _expand_home(cls, path: str | None) -> str | None:
        """Expands a leading `~` in paths."""
        return expand_home(path)

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, fields: Any) -> Any:
        """Adds the defaults that a preset has for fields that are not given or None (`Preset.begins_with`)."""
        name = fields.get("preset", cls.model_fields["preset"].default) if isinstance(fields, dict) else None
        if isinstance(name, str) and name in PRESETS and PRESETS[name].begins_with:
            return {**PRESETS[name].begins_with, **{key: each for key, each in fields.items() if each is not None}}
        return fields

    @model_validator(mode="after")
    def _check_datasets(self) -> Self:
        """Checks that there are datasets with weights above 0, and that pretrained weights keep their codec."""
        if not self.datasets:
            raise ValueError("datasets: name at least one folder")
        if not all(0 < each.weight < inf for each in self.shares):
            raise ValueError("datasets: a weight must be a number greater than 0")
        begun = PRESETS[self.preset].begins_with
        if "init_from" in begun and self.codec != begun["codec"]:
            raise ValueError(f"codec: {self.preset} requires the codec {begun['codec']!r}; choose it")
        return self
