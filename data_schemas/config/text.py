"""The front-end's vocabulary."""

from pydantic import Field

from data_schemas.config.base import Config


class TextTrainConfig(Config):
    """How a SentencePiece vocabulary is trained on the texts of datasets."""

    vocabulary: int = Field(
        default=1000,
        ge=100,
        le=32000,
        description="Number of pieces, including special ones (1000-2000 for nano; Moshi's own has 32000).",
    )
    whole_words: list[str] = Field(
        default_factory=list, description="Words that become one piece each, in addition to the number words."
    )
