"""Encoding shards to token rows with a codec and a tokenizer."""

from pydantic import Field, field_validator

from data_schemas.config.base import Config, expand_home


class EncodeConfig(Config):
    """How a dataset becomes token rows.

    No field counts for the fingerprint of the rows; the checksums of the shards and the digests of codec and tokenizer
    do.
    """

    dataset: str = Field(description="Folder of the dataset, or hf://datasets/owner/name[@revision].")
    out: str = Field(description="Folder of the token rows.")
    oracle_version: str | None = Field(
        default=None, description="Version of the oracles to encode; empty: the dataset's default."
    )
    codec: str = Field(default="mimi", description="Codec back-end (`kame backends` lists them).")
    codec_options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Options of the codec, such as path and device (docs/codec.md lists them)."
    )
    tokenizer: str = Field(description="SentencePiece model for text and oracles.")
    workers: int = Field(
        default=0,
        ge=0,
        le=256,
        description="Number of processes, each with a codec; 0: one per core, or one if a GPU encodes.",
    )
    window_s: float = Field(
        default=300.0,
        gt=0,
        le=360_000,
        description="Amount of audio that a process is given at once, in seconds of dialogue.",
    )
    codes_from: list[str] = Field(
        default_factory=list,
        description="Other folders of token rows: codes of the same audio by the same codec are copied from them.",
    )

    _expanded = field_validator("dataset", "out", "tokenizer")(expand_home)

    @field_validator("codes_from")
    @classmethod
    def _expand_all(cls, folders: list[str]) -> list[str]:
        """Expands a leading `~` in each path."""
        return [str(expand_home(each)) for each in folders]
