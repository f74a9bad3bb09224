"""The front-end's vocabulary."""

from pydantic import Field

from data_schemas.config.base import Config


class TextTrainConfig(Config):
    """How a vocabulary is made from the texts of datasets."""

    vocabulary: int = Field(
        default=1000,
        ge=100,
        le=32000,
        description="Pieces, special ones among them (1000-2000 for nano; Moshi's own has 32000).",
    )
    whole_words: list[str] = Field(
        default_factory=list, description="Words that are one piece each, besides the number words."
    )
