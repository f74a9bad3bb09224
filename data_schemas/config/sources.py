"""Sources, the train/validation/test split, and sizes of parts and shards."""

from pydantic import Field, field_validator

from data_schemas.config.base import Config, expand_home


class SourceConfig(Config):
    """One question set."""

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_]*$",
        title="Question set",
        description="Name of a question set that `kame backends` lists, or a name of your own for questions with "
        "`columns`.",
    )
    path: str | None = Field(
        default=None,
        title="File",
        description="JSONL(.gz) or Parquet file; empty: downloaded from the Hugging Face Hub (own sets: `hub_id`).",
    )
    columns: dict[str, str] = Field(
        default_factory=dict,
        description="Names of the source's columns in the file; for your own sets: question, answer, options, id, "
        "category, explanation, picture. `a.b` is field b of the column a.",
    )
    options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Options of the source; `kame backends options source NAME` lists them."
    )
    revision: str | None = Field(default=None, description="Revision of the dataset, for provenance and for the Hub.")
    licence: str | None = Field(
        default=None, description="Licence of the questions, if it differs from the set's default."
    )
    languages: list[str] = Field(default=["en"], min_length=1, description="Languages to read from a multilingual set.")
    pictures: str | None = Field(default=None, description="Folder of the pictures that the rows refer to.")

    _expanded = field_validator("path", "pictures")(expand_home)


class SplitConfig(Config):
    """Train, validation and test: a pure function of an item's question group and the seed."""

    validation_share: float = Field(default=0.05, ge=0, le=0.5, description="Share of question groups for validation.")
    test_share: float = Field(default=0.05, ge=0, le=0.5, description="Share of question groups for test.")
    seed: int = Field(default=0, ge=0, description="Seed of the split, independent of the run's seed.")


class PartConfig(Config):
    """Sizes of the units of work."""

    dialogues_per_part: int = Field(
        default=16,
        ge=1,
        le=256,
        description="Approximate number of dialogues in a part, the unit of work and of resuming.",
    )
    parts_per_shard: int = Field(
        default=16, ge=1, le=256, description="Number of parts that are compacted into one shard."
    )
