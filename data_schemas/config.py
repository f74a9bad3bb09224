"""Configuration: one class a concern, each field with its meaning, unit and bounds.

The same classes are the options of `kame`, the form of the Prefect deployment and the YAML of `--config`. Profiles
(`data_schemas/profiles.py`) return a full configuration; what matters for identity is told in `fingerprint.py`.
"""

from itertools import pairwise
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


def _at_home(path: str | None) -> str | None:
    """A path with `~` written out, which shells leave in `--out=~/x` and YAML always."""
    return None if path is None else str(Path(path).expanduser()) if path.startswith("~") else path


class Config(BaseModel):
    """Base of all configuration: immutable, strictly typed, unknown fields refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SourceConfig(Config):
    """One question set."""

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_]*$",
        description="gsm8k, mmlu_pro, hssbench, or a name of your own for questions with `columns`.",
    )
    path: str | None = Field(
        default=None, description="JSONL(.gz) or Parquet file; empty: from the Hugging Face Hub (own sources need one)."
    )
    columns: dict[str, str] = Field(
        default_factory=dict,
        description="Own sources: our field (question, answer, id, category, explanation) to the file's column.",
    )
    revision: str | None = Field(default=None, description="Revision of the data set, as provenance and on the Hub.")
    licence: str | None = Field(default=None, description="Licence of the questions, where not the usual one.")

    _expanded = field_validator("path")(_at_home)


class SplitConfig(Config):
    """Who is trained on: a pure function of an item's question group and the seed."""

    validation_share: float = Field(default=0.05, ge=0, le=0.5, description="Share of question groups for validation.")
    test_share: float = Field(default=0.05, ge=0, le=0.5, description="Share of question groups for test.")
    seed: int = Field(default=0, ge=0, description="Seed of the split, apart from the run's seed.")


class PartConfig(Config):
    """Sizes of the units of work."""

    dialogues_per_part: int = Field(default=16, ge=1, le=256, description="Items in a part, the unit of resuming.")
    parts_per_shard: int = Field(default=16, ge=1, le=256, description="Parts compacted into one shard.")


class ScriptConfig(Config):
    """How an item becomes what two people say."""

    max_spoken_options: int = Field(
        default=4, ge=0, le=10, description="Options are read out only when there are at most this many."
    )
    max_option_words: int = Field(default=12, ge=1, description="…and none of them is longer than this, in words.")
    max_question_words: int = Field(default=120, ge=5, description="Longest question spoken, in words.")
    max_answer_words: int = Field(default=60, ge=1, description="Longest answer spoken, in words.")


class FormsConfig(Config):
    """Shapes of dialogues, and how the assistant's answers begin and end."""


class SpeechConfig(Config):
    """Who speaks, and how loud."""

    tts: str = Field(default="kokoro", description="Text-to-speech back-end (`kame backends` lists them).")
    voice_a: str | None = Field(default=None, description="The assistant's voice; empty: the back-end's first.")
    voices_b: list[str] | None = Field(
        default=None, description="The user's voices, drawn by seed; empty: all the back-end has but A's."
    )
    speed_min: float = Field(default=0.95, ge=0.5, le=2, description="Slowest speed of speech (1 = the voice's own).")
    speed_max: float = Field(default=1.1, ge=0.5, le=2, description="Fastest speed of speech (1 = the voice's own).")
    level_dbfs: float = Field(
        default=-27.0,
        ge=-40,
        le=-10,
        description="RMS level of every utterance, in dBFS; above -27 some voices clip.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.speed_min > self.speed_max:
            raise ValueError("speed_min is above speed_max")
        return self


class GateConfig(Config):
    """What speech must pass before it is kept."""


class SurroundingsConfig(Config):
    """What the user's channel is made to sound like."""


class AlignmentConfig(Config):
    """What gives each spoken word its time."""

    aligner: str = Field(default="pocketsphinx", description="Aligner back-end (`kame backends` lists them).")


class MixingConfig(Config):
    """How utterances are laid on the dialogue's clock, in seconds."""

    before_min_s: float = Field(default=0.2, ge=0, le=5, description="Least silence before the first word, seconds.")
    before_max_s: float = Field(default=0.8, ge=0, le=5, description="Most silence before the first word, seconds.")
    gap_min_s: float = Field(default=0.2, ge=0, le=5, description="Least gap between two turns, seconds.")
    gap_max_s: float = Field(default=0.8, ge=0, le=5, description="Most gap between two turns, seconds.")
    after_s: float = Field(default=0.6, ge=0, le=5, description="Silence after the last word, seconds.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.before_min_s > self.before_max_s or self.gap_min_s > self.gap_max_s:
            raise ValueError("before_min_s is above before_max_s, or gap_min_s above gap_max_s")
        return self


class OracleConfig(Config):
    """When the back-end is asked, and what it is told. The defaults are the paper's ladder."""

    version: str = Field(
        default="default", pattern=r"^[a-z0-9][a-z0-9._-]*$", description="Folder under `oracles/` to write to."
    )
    prompt: str = Field(default="v1", description="Prompt set in pipelines/oracle/prompt_sets/, or a path to one.")
    interval_s: float = Field(default=0.5, ge=0.08, le=10, description="Distance of the ticks, seconds.")
    level_bounds: list[float] = Field(
        default=[0.5, 0.65, 0.8, 0.95],
        min_length=4,
        max_length=4,
        description="Greatest spoken ratio of levels 0 to 3; level 4 is below 1, level 5 is 1.",
    )
    max_requests_per_turn: int = Field(default=8, ge=5, le=1000, description="Most requests for one turn.")
    max_words: int = Field(default=30, ge=5, le=200, description="Longest oracle of levels 0 to 4, in words.")
    max_tokens: int = Field(default=48, ge=8, le=4096, description="Most tokens the model may write for one oracle.")
    temperature: float = Field(default=0.0, ge=0, le=2, description="Sampling temperature of the simulator.")

    @model_validator(mode="after")
    def _rising(self) -> Self:
        bounds = self.level_bounds
        if not all(0 < low < high < 1 for low, high in pairwise(bounds)):
            raise ValueError("level_bounds must rise and lie between 0 and 1")
        return self


class ChatConfig(Config):
    """Which chat model answers, and how it is reached. Keys come from the environment, never from here."""

    engine: str = Field(default="llamacpp", description="llamacpp starts the embedded model; openai calls `base_url`.")
    base_url: str | None = Field(default=None, description="OpenAI-compatible base URL, with /v1 (engine openai).")
    model: str | None = Field(default=None, description="Model name to ask for, or a GGUF file (engine llamacpp).")
    endpoint: str | None = Field(default=None, description="Name of the endpoint in cache and provenance.")
    api_key_env: str = Field(default="KAME_LLM_API_KEY", description="Environment variable that holds the key.")
    port: int = Field(default=0, ge=0, le=65535, description="Port of the embedded server; 0: any free one.")
    n_slots: int = Field(default=1, ge=1, le=64, description="Requests the embedded server answers at once.")
    n_context: int = Field(default=2048, ge=256, description="Context of one slot of the embedded server, tokens.")
    max_in_flight: int | None = Field(
        default=None, ge=1, le=1024, description="Requests in flight at once; empty: `n_slots`, or 16 of a server's."
    )
    max_attempts: int = Field(default=5, ge=1, le=20, description="Tries of one request before it counts as failed.")
    timeout_s: float = Field(default=120.0, gt=0, description="Longest wait for one answer, seconds.")

    @property
    def n_in_flight(self) -> int:
        """Requests in flight at once: one for the embedded server, where nothing else is set.

        More gain nothing on two cores and cost repeatability: of 48 greedy answers, 48 came again with one in flight
        and 18 with four.
        """
        return self.max_in_flight or (self.n_slots if self.engine == "llamacpp" else 16)


class RefreshConfig(Config):
    """All there is to say about making or refreshing a dataset."""

    out: str = Field(default="dataset", description="Folder of the dataset.")
    sources: list[SourceConfig] = Field(default_factory=list, description="Question sets to read.")
    limit: int | None = Field(default=None, ge=1, description="Items read per source, before rejection; empty: all.")
    seed: int = Field(default=0, ge=0, description="Seed of every choice: voices, speeds, gaps, sampling.")
    variants: float = Field(default=1.0, ge=1, le=8, description="Dialogues made from one item, on average.")
    workers: int = Field(default=0, ge=0, le=256, description="Processes for speech and alignment; 0: one a core.")
    evaluation_sets: list[str] = Field(
        default_factory=list, description="Files of questions that must not be trained on (JSONL(.gz) or Parquet)."
    )
    split: SplitConfig = Field(default_factory=SplitConfig, description="Train, validation and test.")
    parts: PartConfig = Field(default_factory=PartConfig, description="Sizes of parts and shards.")
    script: ScriptConfig = Field(default_factory=ScriptConfig, description="Items to dialogues.")
    forms: FormsConfig = Field(default_factory=FormsConfig, description="Shapes of dialogues; leads and tails.")
    speech: SpeechConfig = Field(default_factory=SpeechConfig, description="Dialogues to speech.")
    gate: GateConfig = Field(default_factory=GateConfig, description="What speech must pass.")
    alignment: AlignmentConfig = Field(default_factory=AlignmentConfig, description="Speech to word times.")
    mixing: MixingConfig = Field(default_factory=MixingConfig, description="Utterances to two channels.")
    surroundings: SurroundingsConfig = Field(
        default_factory=SurroundingsConfig, description="Level, noise, room and line of the user's channel."
    )
    pictures: ChatConfig | None = Field(
        default=None, description="A chat model that sees; empty: questions that need their picture are rejected."
    )
    wording: ChatConfig | None = Field(
        default=None, description="A chat model that words questions and answers anew; empty: the rules' wording."
    )
    oracle: OracleConfig = Field(default_factory=OracleConfig, description="The oracle ladder.")
    chat: ChatConfig = Field(default_factory=ChatConfig, description="The chat model behind the oracle.")

    _expanded = field_validator("out")(_at_home)
