"""Configuration: one class per concern; each field states its meaning, unit and bounds.

The same classes are the options of `kame`, the form of the Prefect deployment and the YAML of `--config`. Profiles
(`data_schemas/profiles.py`) return a full configuration; `fingerprint.py` says which fields count for the fingerprint.
"""

from pydantic import Field, field_validator

from data_schemas.config.base import Config, expand_home
from data_schemas.config.chat import BudgetConfig, CacheUrl, ChatConfig, OracleConfig, PriceConfig
from data_schemas.config.execution import LOCAL, ResourcesConfig, StageResources, check_executor
from data_schemas.config.script import FormsConfig, FormShares, ScriptConfig
from data_schemas.config.sources import PartConfig, SourceConfig, SplitConfig
from data_schemas.config.speech import AlignmentConfig, GateConfig, MixingConfig, SpeechConfig, SurroundingsConfig

__all__ = [
    "AlignmentConfig",
    "BudgetConfig",
    "ChatConfig",
    "Config",
    "FormShares",
    "FormsConfig",
    "GateConfig",
    "MixingConfig",
    "OracleConfig",
    "PartConfig",
    "PriceConfig",
    "RefreshConfig",
    "ResourcesConfig",
    "ScriptConfig",
    "SourceConfig",
    "SpeechConfig",
    "SplitConfig",
    "StageResources",
    "SurroundingsConfig",
]


class RefreshConfig(Config):
    """All settings for making or refreshing a dataset."""

    out: str = Field(
        default="dataset",
        title="Folder of the dataset",
        description="Folder that the dataset is written to. An existing dataset is resumed.",
    )
    sources: list[SourceConfig] = Field(default_factory=list, description="Question sets to read.")
    limit: int | None = Field(
        default=None,
        ge=1,
        title="Items of each source",
        description="Maximum number of items read per source, before any are rejected; empty: all.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of every random choice: voices, speeds, gaps, sampling.")
    variants: float = Field(
        default=1.0,
        ge=1,
        le=8,
        title="Dialogues of each item",
        description="Average number of dialogues made from one item.",
    )
    workers: int = Field(
        default=0, ge=0, le=256, description="Number of processes for speech and alignment; 0: one per core."
    )
    executor: str = Field(
        default=LOCAL,
        description="Executor of these processes: local, or a cluster: dask://HOST:PORT or ray://HOST:PORT.",
    )
    resources: ResourcesConfig = Field(
        default_factory=ResourcesConfig,
        description="Cores, memory and GPUs that one part of each stage requests on a cluster.",
    )
    evaluation_sets: list[str] = Field(
        default_factory=list,
        description="Files of evaluation questions (JSONL(.gz) or Parquet); the same questions are rejected from "
        "training.",
    )
    split: SplitConfig = Field(
        default_factory=SplitConfig, description="Sizes of the train, validation and test splits."
    )
    parts: PartConfig = Field(default_factory=PartConfig, description="Sizes of parts and shards.")
    script: ScriptConfig = Field(default_factory=ScriptConfig, description="How items become dialogues.")
    forms: FormsConfig = Field(
        default_factory=FormsConfig, description="Forms of dialogue, and the leads and tails of answers."
    )
    speech: SpeechConfig = Field(default_factory=SpeechConfig, description="Text-to-speech engines and voices.")
    gate: GateConfig = Field(default_factory=GateConfig, description="Quality checks that speech must pass.")
    alignment: AlignmentConfig = Field(default_factory=AlignmentConfig, description="How word timings are found.")
    mixing: MixingConfig = Field(
        default_factory=MixingConfig, description="How utterances are mixed into two channels."
    )
    surroundings: SurroundingsConfig = Field(
        default_factory=SurroundingsConfig,
        description="Loudness, noise, reverberation and telephone band of the user's channel.",
    )
    pictures: ChatConfig | None = Field(
        default=None,
        description="Vision chat model that describes pictures; empty: questions that need their picture are rejected.",
    )
    wording: ChatConfig | None = Field(
        default=None, description="Chat model that rewords questions and answers; empty: they are worded by rules."
    )
    oracle: OracleConfig = Field(
        default_factory=OracleConfig, description="When oracles are requested, and which hints the prompts hold."
    )
    chat: ChatConfig = Field(default_factory=ChatConfig, description="Chat model that writes the oracles.")
    budget: BudgetConfig = Field(
        default_factory=BudgetConfig, description="Maximum cost of the new answers of one run."
    )
    cache_url: CacheUrl | None = Field(
        default=None,
        description="PostgreSQL database (postgresql://USER@HOST/DATABASE) for the answers of all chat models, without "
        "its password, which is in PGPASSWORD or ~/.pgpass; empty: a file in the dataset's folder.",
    )

    _expanded = field_validator("out")(expand_home)
    _known = field_validator("executor")(check_executor)
