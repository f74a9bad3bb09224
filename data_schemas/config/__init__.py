"""Configuration: one class a concern, each field with its meaning, unit and bounds.

The same classes are the options of `kame`, the form of the Prefect deployment and the YAML of `--config`. Profiles
(`data_schemas/profiles.py`) return a full configuration; what matters for identity is told in `fingerprint.py`.
"""

from pydantic import Field, field_validator

from data_schemas.config.base import Config, at_home
from data_schemas.config.chat import BudgetConfig, ChatConfig, OracleConfig, PriceConfig
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
    """All there is to say about making or refreshing a dataset."""

    out: str = Field(
        default="dataset",
        title="Folder of the dataset",
        description="Where it is written; an existing one is gone on with.",
    )
    sources: list[SourceConfig] = Field(default_factory=list, description="Question sets to read.")
    limit: int | None = Field(
        default=None,
        ge=1,
        title="Items of each source",
        description="Items read per source, before rejection; empty: all.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of every choice: voices, speeds, gaps, sampling.")
    variants: float = Field(
        default=1.0, ge=1, le=8, title="Dialogues of each item", description="Dialogues made from one item, on average."
    )
    workers: int = Field(default=0, ge=0, le=256, description="Processes for speech and alignment; 0: one a core.")
    executor: str = Field(
        default=LOCAL, description="Where those run: local, or a cluster as dask://HOST:PORT or ray://HOST:PORT."
    )
    resources: ResourcesConfig = Field(
        default_factory=ResourcesConfig, description="What a part of each stage takes on a cluster."
    )
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
    budget: BudgetConfig = Field(default_factory=BudgetConfig, description="What a run's new answers may take at most.")

    _expanded = field_validator("out")(at_home)
    _known = field_validator("executor")(check_executor)
