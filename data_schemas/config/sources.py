"""What is read, how it is split, and the sizes of the units of work."""

from pydantic import Field, field_validator

from data_schemas.config.base import Config, at_home


class SourceConfig(Config):
    """One question set."""

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_]*$",
        title="Question set",
        description="One that `kame backends` lists, or a name of your own for questions with `columns`.",
    )
    path: str | None = Field(
        default=None,
        title="File",
        description="JSONL(.gz) or Parquet file; empty: from the Hugging Face Hub (own: `hub_id`).",
    )
    columns: dict[str, str] = Field(
        default_factory=dict,
        description="What the file calls the source's columns; of own sources: question, answer, options, id, "
        "category, explanation, picture. `a.b` is b in the column a.",
    )
    options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="The source's own; `kame backends options source NAME` lists them."
    )
    revision: str | None = Field(default=None, description="Revision of the data set, as provenance and on the Hub.")
    licence: str | None = Field(default=None, description="Licence of the questions, where not the usual one.")
    languages: list[str] = Field(
        default=["en"], min_length=1, description="Languages to take, of a set that has several."
    )
    pictures: str | None = Field(default=None, description="Folder of the pictures that its rows name.")

    _expanded = field_validator("path", "pictures")(at_home)


class SplitConfig(Config):
    """Who is trained on: a pure function of an item's question group and the seed."""

    validation_share: float = Field(default=0.05, ge=0, le=0.5, description="Share of question groups for validation.")
    test_share: float = Field(default=0.05, ge=0, le=0.5, description="Share of question groups for test.")
    seed: int = Field(default=0, ge=0, description="Seed of the split, apart from the run's seed.")


class PartConfig(Config):
    """Sizes of the units of work."""

    dialogues_per_part: int = Field(
        default=16, ge=1, le=256, description="About how many dialogues a part has, the unit of resuming."
    )
    parts_per_shard: int = Field(default=16, ge=1, le=256, description="Parts compacted into one shard.")
