"""`kame.json`: the metadata of a checkpoint that stock moshi does not know and would reject in `config.json`."""

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, ValidationError

from data_schemas.code_layout import CodeLayout
from data_schemas.config.base import Config
from data_schemas.config.front_end import SEED_PREFIX
from data_schemas.config.model import SamplingConfig
from data_schemas.config.serving import Voice
from data_schemas.errors import StoreError
from data_schemas.guesses import Guesses
from kame_model.checkpoint.files import encode_json

FORMAT: Final = 5
"""Version of `kame.json` and of its folder. Added in 2: sampling and delays of training; 3: layout of the codes;
4: licences; 5: guesses."""

WEIGHTS_OF: Final = "weights of "
"""Begins the name of a part that is licensed, if it is other weights."""


def name_weights(place: str) -> str:
    """Returns a name for weights that can be published, because it does not contain folders of this machine.

    Args:
        place: a name on the Hub, which is returned unchanged, as is any relative path of at most two parts; or another
            path, of which the last part is returned. For such a path inside a training, the parts from the training's
            name on are returned (`NAME/seed-0/copy`).
    """
    path = Path(place)
    if not path.is_absolute() and len(path.parts) <= 2 and not {"..", "~"} & {*path.parts}:
        return place
    last = next((at for at, part in enumerate(path.parts) if part.startswith(SEED_PREFIX)), len(path.parts))
    return "/".join(path.parts[last - 1 :])


def _name_parts(licences: dict[str, str | None]) -> dict[str, str | None]:
    """Returns the licences with folders removed from the names of weights, which files of earlier versions contain."""
    return {
        f"{WEIGHTS_OF}{name_weights(part.removeprefix(WEIGHTS_OF))}" if part.startswith(WEIGHTS_OF) else part: licence
        for part, licence in licences.items()
    }


class CodecFacts(Config):
    """The codec whose codes the model reads and writes."""

    name: str = Field(description="Name in the registry of back-ends.")
    digest: str = Field(description="Digest of the codec; a different one means different codes.")
    options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Options to build it with, except the paths of its files."
    )
    files: list[str] | None = Field(
        default=None,
        description="Its files in this folder, all in one directory, which becomes its option `path`; empty: it needs "
        "no files; null: the Mimi files that config.json names, as in older versions of this format.",
    )
    package: str = Field(default="", description="Package and version that provides it; empty: it is part of kame.")
    is_mimi: bool = Field(
        default=True,
        description="Whether stock moshi can load it, from mimi.safetensors beside the weights.",
    )


class TrainingFacts(Config):
    """Where the weights come from."""

    run: str = Field(default="", description="Identity of the run: a hash of all settings that affect the weights.")
    stage: str = Field(default="", description="Last stage of training, for example dialogues.")
    step: int = Field(default=0, ge=0, description="Number of optimiser steps of that run.")
    data: list[str] = Field(default_factory=list, description="Fingerprints of the token rows trained on.")
    codec_digest: str | None = Field(
        default=None, description="Digest of the codec that the data was encoded with, also if the folder has no codec."
    )
    init_from: Annotated[str, AfterValidator(name_weights)] | None = Field(
        default=None, description="Name of the weights that the run started from, without folders; empty: random."
    )
    lora: bool = Field(default=False, description="Whether LoRA adapters were trained and merged into the weights.")
    licences: Annotated[dict[str, str | None], AfterValidator(_name_parts)] | None = Field(
        default=None,
        description="Licences of the training data and of the initial weights, by part; null: unknown.",
    )
    figures: dict[str, float] = Field(
        default_factory=dict, description="Validation metrics by name; losses are in nats."
    )
    figures_step: int | None = Field(
        default=None, description="Step of that validation, the last one up to `step`; empty: unknown."
    )


class TrainedDelays(Config):
    """Range of the back-end's delay in training, from a tick to the first token of its oracle."""

    min_s: float = Field(ge=0, description="Shortest, seconds.")
    max_s: float = Field(ge=0, description="Longest, seconds.")


Measure = Literal["said_once", "right_first", "said", "said_stranger", "said_at_last", "heard"]


class FreeShare(Config):
    """The share of held-out dialogues in which the free-running model gave an answer, usually the true one."""

    measure: Measure = Field(
        description="said: in its text, its inner monologue; said_once: once, and no other answer beside it; "
        "right_first: before any other answer; said_stranger: the answer of the wrong oracle; said_at_last: last, once "
        "the wrong oracle was corrected; heard: by a recogniser, in its sound."
    )
    oracle: str = Field(description="Which oracle it was fed: right, none, wrong or corrected.")
    group: str = Field(description="Whether the question itself contains the answer.")
    delay_s: float | None = Field(default=None, description="Delay of the back-end, seconds; empty: no oracle was fed.")
    n: int = Field(ge=0, description="Number of items with the answer.")
    of: int = Field(ge=1, description="Number of items that were evaluated.")
    low: float = Field(description="Lower bound of the 95 % confidence interval over items.")
    high: float = Field(description="Upper bound of that interval.")

    @property
    def name(self) -> str:
        """What the share measures, under which oracle, delay and group."""
        delay = "" if self.delay_s is None else f" after {self.delay_s:g} s"
        said = "the oracle's answer said" if self.measure == "said_stranger" else self.measure.replace("_", " ")
        return f"{said}, {self.oracle} oracle{delay}, {self.group}"

    @property
    def value(self) -> float:
        """The share itself."""
        return self.n / self.of

    def __str__(self) -> str:
        return f"{self.value:.0%} [{self.low:.0%}, {self.high:.0%}] of {self.of}"


class KameJson(Config):
    """The contents of `kame.json`."""

    format: Literal[1, 2, 3, 4, 5] = FORMAT
    preset: str = Field(description="Name of the model preset.")
    oracle: Literal["table", "tied"] = Field(description="How the oracle embedding was trained; the file has a table.")
    cue: bool = Field(
        default=False,
        description="Whether the model takes a cue as input: the oracle's first token that it has not said. The server "
        "computes it for each frame (kame_model/frames/cue.py); the weights have oracle_cue.weight.",
    )
    tie_text_head: bool = Field(description="Whether the text head is the text embedding; the file has both.")
    text_card: int = Field(ge=4, description="Size of the vocabulary; also the id that starts an oracle.")
    card: int = Field(ge=1, description="Number of entries of a codebook.")
    n_codebooks: int = Field(ge=1, description="Number of codebooks of one voice.")
    layout: CodeLayout | None = Field(
        default=None,
        description="Layout of the codes; empty: Mimi's layout, with the delays of config.json.",
    )
    tokenizer_digest: str | None = Field(default=None, description="Digest of tokenizer.model; empty: there is none.")
    codec: CodecFacts | None = Field(default=None, description="The codec in the folder; empty: there is none.")
    training: TrainingFacts = Field(default_factory=TrainingFacts, description="Where the weights come from.")
    sampling: SamplingConfig = Field(
        default_factory=SamplingConfig,
        description="Default sampling parameters; folders without them use moshi's defaults.",
    )
    voice: Voice = Field(default="decoded", description="Default of `ServeConfig.voice`: how users hear the model.")
    trained_delays: TrainedDelays | None = Field(
        default=None, description="Delays of the back-end in training; empty: unknown."
    )
    guesses: Guesses | None = Field(
        default=None,
        description="Default of `cycle.guesses`: how training treated answers to the unfinished question; empty: not "
        "known.",
    )
    free_running: list[FreeShare] = Field(
        default_factory=list, description="Results of free running; empty: not evaluated before it was registered."
    )
    versions: dict[str, str] = Field(default_factory=dict, description="Versions of the packages that wrote it.")

    def to_bytes(self) -> bytes:
        """Returns the contents of the file."""
        return encode_json(self.model_dump(mode="json"))

    @property
    def codec_digest(self) -> str | None:
        """Digest of the codec that the model was trained with; None: unknown."""
        return self.training.codec_digest if self.codec is None else self.codec.digest


def read_versions() -> dict[str, str]:
    """Returns the installed versions, by name, of the packages that affect a checkpoint; "unknown": not installed."""
    found: dict[str, str] = {}
    for package in ("kame-pipeline", "moshi", "torch", "safetensors"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found


def read_kame_json(path: Path) -> KameJson:
    """Reads a checkpoint's `kame.json`.

    Raises:
        StoreError: the file cannot be read, is damaged, or was written by a newer version of kame.
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


def choose_sampling(facts: KameJson | None, overrides: SamplingConfig) -> SamplingConfig:
    """Returns the sampling parameters: those set explicitly, then those of the facts, then moshi's defaults.

    Args:
        facts: the checkpoint's `kame.json`; None: it has none.
        overrides: overrides; only the fields that were set explicitly are used.
    """
    own = SamplingConfig() if facts is None else facts.sampling
    return own.model_copy(update=overrides.model_dump(exclude_unset=True))


def choose_guesses(facts: KameJson | None, override: Guesses | None) -> Guesses:
    """Returns how answers to an unfinished question are treated: `override` if given, else as in training.

    If that is not known, the result is "withdraw": they are withdrawn when the user's turn has ended.
    """
    return override or (None if facts is None else facts.guesses) or "withdraw"


def choose_voice(facts: KameJson | None, override: Voice | None) -> Voice:
    """Returns how users hear the front-end: `override` if given, else the checkpoint's default, else "decoded"."""
    return override or ("decoded" if facts is None else facts.voice)
