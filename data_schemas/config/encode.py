"""Shards to token rows: what is encoded, with what, and where to."""

from pydantic import Field, field_validator

from data_schemas.config.base import Config, at_home


class EncodeConfig(Config):
    """How a dataset becomes token rows.

    None of it counts for the rows' identity by itself: the shards' checksums and the digests of codec and tokenizer do.
    """

    dataset: str = Field(description="Folder of the dataset, or hf://datasets/owner/name[@revision].")
    out: str = Field(description="Folder of the token rows.")
    oracle_version: str | None = Field(default=None, description="Oracles to encode; empty: the dataset's own.")
    codec: str = Field(default="mimi", description="Codec back-end (`kame backends` lists them).")
    codec_options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="The codec's own options, as path and device (docs/codec.md lists them)."
    )
    tokenizer: str = Field(description="SentencePiece model of the text and the oracles.")
    workers: int = Field(
        default=0, ge=0, le=256, description="Processes with a codec each; 0: one a core, or one where a GPU encodes."
    )
    window_s: float = Field(
        default=300.0, gt=0, le=360_000, description="Sound a process is given at once, seconds of dialogue."
    )
    codes_from: list[str] = Field(
        default_factory=list,
        description="Other folders of token rows: what this codec made of the same sound there is copied.",
    )

    _expanded = field_validator("dataset", "out", "tokenizer")(at_home)

    @field_validator("codes_from")
    @classmethod
    def _all_expanded(cls, folders: list[str]) -> list[str]:
        return [str(at_home(each)) for each in folders]
