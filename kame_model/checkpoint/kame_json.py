"""`kame.json`: all of a checkpoint that is ours and that stock moshi must not see."""

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, ValidationError

from data_schemas.code_layout import CodeLayout
from data_schemas.config.base import Config
from data_schemas.config.model import SamplingConfig
from data_schemas.config.serving import Voice
from data_schemas.errors import StoreError

FORMAT: Final = 4
"""Version of `kame.json` and of the folder around it. 2: sampling and the delays of training. 3: the codes' layout.
4: licences."""


class CodecFacts(Config):
    """The codec whose codes the model speaks."""

    name: str = Field(description="Name in the registry of back-ends.")
    digest: str = Field(description="The codec's own digest; another one means other codes.")
    options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Options to build it with, less its files, which are in the folder."
    )
    files: list[str] | None = Field(
        default=None,
        description="Its files in the folder, all in one place, which is its option `path`; none: options are enough. "
        "null: those of a Mimi that config.json names, as before files were told here.",
    )
    package: str = Field(default="", description="Package and version that brought it; empty: it is one of ours.")
    is_mimi: bool = Field(
        default=True,
        description="Whether stock moshi loads it, from mimi.safetensors beside the weights; the LM it does.",
    )


class TrainingFacts(Config):
    """Where the weights come from."""

    run: str = Field(default="", description="Identity of the run: of all its settings that decide what it learns.")
    stage: str = Field(default="", description="Last stage of training, such as dialogues.")
    step: int = Field(default=0, ge=0, description="Optimiser steps of that run.")
    data: list[str] = Field(default_factory=list, description="Fingerprints of the token rows trained on.")
    codec_digest: str | None = Field(
        default=None, description="Of the codec that the data was encoded with, whether or not it is in the folder."
    )
    init_from: str | None = Field(default=None, description="Weights that the run began with; empty: random.")
    lora: bool = Field(default=False, description="Whether adapters were trained, and merged here.")
    licences: dict[str, str | None] | None = Field(
        default=None,
        description="Licences of all that it learnt from and of the weights it began with, by part; null: not known.",
    )
    figures: dict[str, float] = Field(
        default_factory=dict, description="Figures on validation by name, losses in nats."
    )
    figures_step: int | None = Field(
        default=None, description="Step at which they were taken, the last look before `step`; empty: not known."
    )


class TrainedDelays(Config):
    """How long the back-end took in training, from a tick to its oracle's first token."""

    min_s: float = Field(ge=0, description="Shortest, seconds.")
    max_s: float = Field(ge=0, description="Longest, seconds.")


Measure = Literal["said_once", "right_first", "said", "said_at_last", "heard"]


class FreeShare(Config):
    """In how many held-out dialogues the model gave the true answer when it was run freely."""

    measure: Measure = Field(
        description="said: in its text, its inner monologue; said_once: once, and no other answer beside it; "
        "right_first: before any other answer; said_at_last: last, once the wrong oracle was corrected; heard: by a "
        "recogniser, in its sound."
    )
    oracle: str = Field(description="What it was told: right, none, wrong or corrected.")
    group: str = Field(description="Whether the question itself holds the answer.")
    delay_s: float | None = Field(default=None, description="How long the back-end took; empty: not told.")
    n: int = Field(ge=0, description="Items with the answer.")
    of: int = Field(ge=1, description="Items that it was asked of.")
    low: float = Field(description="Lower bound of its interval of 95 %, over items.")
    high: float = Field(description="Upper bound of that interval.")

    @property
    def name(self) -> str:
        """What it is a share of."""
        delay = "" if self.delay_s is None else f" after {self.delay_s:g} s"
        return f"{self.measure.replace('_', ' ')}, {self.oracle} oracle{delay}, {self.group}"

    @property
    def value(self) -> float:
        """The share itself."""
        return self.n / self.of

    def __str__(self) -> str:
        return f"{self.value:.0%} [{self.low:.0%}, {self.high:.0%}] of {self.of}"


class KameJson(Config):
    """A checkpoint's facts."""

    format: Literal[1, 2, 3, 4] = FORMAT
    preset: str = Field(description="Name of the shape.")
    oracle: Literal["table", "tied"] = Field(description="How the oracle embedding was trained; the file has a table.")
    cue: bool = Field(
        default=False,
        description="Whether the model is given its cue, the oracle's first token that it has not said; what serves it "
        "works it out frame by frame (kame_model/frames/cue.py), and the file has oracle_cue.weight.",
    )
    tie_text_head: bool = Field(description="Whether the text head is the text embedding; the file has both.")
    text_card: int = Field(ge=4, description="Size of the vocabulary; the id that starts an oracle.")
    card: int = Field(ge=1, description="Entries of a codebook.")
    n_codebooks: int = Field(ge=1, description="Codebooks of one voice.")
    layout: CodeLayout | None = Field(
        default=None,
        description="How the codes are read and said; empty: as Mimi's are, with the delays of config.json.",
    )
    tokenizer_digest: str | None = Field(default=None, description="Digest of tokenizer.model; empty: there is none.")
    codec: CodecFacts | None = Field(default=None, description="The codec in the folder; empty: there is none.")
    training: TrainingFacts = Field(default_factory=TrainingFacts, description="Where the weights come from.")
    sampling: SamplingConfig = Field(
        default_factory=SamplingConfig,
        description="How tokens are chosen where nobody says otherwise; folders that do not say have moshi's way.",
    )
    voice: Voice = Field(
        default="decoded", description="How users are to hear it where nobody says otherwise (`ServeConfig.voice`)."
    )
    trained_delays: TrainedDelays | None = Field(
        default=None, description="Delays of the back-end that it was trained with; empty: not known."
    )
    free_running: list[FreeShare] = Field(
        default_factory=list, description="What free runs came to; empty: there were none before it was registered."
    )
    versions: dict[str, str] = Field(default_factory=dict, description="Versions of what wrote the folder.")

    @property
    def codec_digest(self) -> str | None:
        """Digest of the codec whose codes the model speaks; None: not known."""
        return self.training.codec_digest if self.codec is None else self.codec.digest


def read_versions() -> dict[str, str]:
    """The installed versions of what decides a checkpoint; ours is missing in a checkout that was never installed."""
    found: dict[str, str] = {}
    for package in ("kame-pipeline", "moshi", "torch", "safetensors"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found


def read_kame_json(path: Path) -> KameJson:
    """The facts of a folder.

    Raises:
        StoreError: the file cannot be read, is damaged, or is of a newer kame.
    """
    try:
        content: Any = json.loads(path.read_bytes())
        found = content.get("format") if isinstance(content, dict) else None
        if isinstance(found, int) and found > FORMAT:
            raise StoreError(
                f"{path} is of format {found}; this kame reads {FORMAT}.", "Update kame-pipeline to read it."
            )
        return KameJson.model_validate_json(path.read_bytes())
    except (OSError, ValueError, ValidationError, RecursionError) as error:
        raise StoreError(f"{path} cannot be read: {error}.", "Export the checkpoint again.") from error


def sampling_of(facts: KameJson | None, told: SamplingConfig) -> SamplingConfig:
    """How tokens are to be chosen: as the facts say (moshi's way where there are none), but for what somebody set.

    Args:
        told: of which only the fields count that were given when it was made.
    """
    own = SamplingConfig() if facts is None else facts.sampling
    return own.model_copy(update=told.model_dump(exclude_unset=True))


def voice_of(facts: KameJson | None, told: Voice | None) -> Voice:
    """How users hear the front-end: as somebody said, else as the facts say; decoded where there are none."""
    return told or ("decoded" if facts is None else facts.voice)
