"""Speech rows: utterances of the assistant's voice as token rows, for pretraining."""

from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from data_schemas.config import GateConfig, SourceConfig, SpeechConfig, SplitConfig
from data_schemas.config.base import Config, expand_home
from data_schemas.config.codec import NeuralCodecConfig
from data_schemas.config.speech import AlignmentConfig

_S_AN_ENTRY: Final = 1.2
"""Seconds of speech needed for each entry of a codebook: 0.8 s of it voiced; a quarter of a row is silence."""

_S_OF_NETWORKS: Final = 75.0
"""Seconds of speech needed for the networks of a codec: a minute, after a twentieth is kept to measure them."""

SentenceKind = Literal["sentence", "words", "numbers", "lead", "stall"]
"""Kind of an utterance; the `form` of its token row."""


class SentenceShares(Config):
    """Weights of the kinds of sentences; 0: never. Each description gives the reason for the kind."""

    sentence: float = Field(default=0.7, ge=0, description="Sentences of the sources: natural language of the domain.")
    words: float = Field(default=0.12, ge=0, description="Random words, so that any word can follow any other.")
    numbers: float = Field(default=0.12, ge=0, description="Numbers of all sizes, which many answers depend on.")
    lead: float = Field(default=0.04, ge=0, description="Leads and tails of the pipeline, which most answers have.")
    stall: float = Field(
        default=0.02, ge=0, description="Phrases said while the answer is not known yet; there are only a few."
    )

    @model_validator(mode="after")
    def _check_any(self) -> Self:
        """Checks that at least one share is above 0."""
        if not any(self.model_dump().values()):
            raise ValueError("at least one kind of sentence needs a share above 0")
        return self


class SpeechRowsConfig(Config):
    """Hours of the assistant's voice as token rows, one utterance a row."""

    out: str = Field(description="Folder of the token rows.")
    sources: list[SourceConfig] = Field(min_length=1, description="Question sets whose sentences and words are spoken.")
    limit: int | None = Field(default=None, ge=1, description="Maximum number of items read per source; empty: all.")
    hours: float = Field(
        gt=0,
        le=1000,
        description="Hours of audio, including silence. A later run with a larger value adds the difference.",
    )
    seed: int = Field(
        default=0, ge=0, description="Seed of every random choice: sentences, words, numbers, speeds, silences."
    )
    shares: SentenceShares = Field(default_factory=SentenceShares, description="Weights of the kinds of sentences.")
    min_words: int = Field(default=2, ge=1, le=50, description="Minimum length of a sentence, in spoken words.")
    max_words: int = Field(default=25, ge=1, le=50, description="Maximum length of a sentence, in spoken words.")
    split: SplitConfig = Field(
        default_factory=SplitConfig, description="The pipeline's split; only items of train are used."
    )
    without: list[str] = Field(default_factory=list, description="Datasets or token rows whose items are excluded.")
    validation_share: float = Field(
        default=0.02, ge=0, le=0.5, description="Share of utterances for validation, drawn by seed."
    )
    before_s: float = Field(
        default=0.08,
        ge=0,
        le=1,
        description="Silence before an utterance, in seconds; one frame is needed for the end-of-padding token.",
    )
    after_min_s: float = Field(default=0.3, ge=0, le=5, description="Minimum silence after an utterance, in seconds.")
    after_max_s: float = Field(default=1.0, ge=0, le=5, description="Maximum silence after an utterance, in seconds.")
    speech: SpeechConfig = Field(
        default_factory=SpeechConfig, description="Text-to-speech engine and voice; only `voice_a` is used."
    )
    gate: GateConfig = Field(
        default_factory=lambda: GateConfig(asr="none"),
        description="Quality checks for each utterance; by default without a recogniser, because random words are "
        "misrecognised.",
    )
    alignment: AlignmentConfig = Field(
        default_factory=lambda: AlignmentConfig(aligner="synthesiser"),
        description="How word timings are found: from the text-to-speech engine if it gives them, else by an aligner.",
    )
    lexicon: str | None = Field(
        default=None, description="TSV file of pronunciations, as `script.lexicon` of a refresh."
    )
    tokenizer: str | None = Field(
        default=None, description="SentencePiece model of the text; empty: trained on the first sentences."
    )
    vocabulary: int = Field(
        default=1000, ge=8, description="Size of the vocabulary, in pieces, if a tokenizer is trained in this run."
    )
    codec: str = Field(default="codec2-neural", description="Codec back-end (`kame backends` lists them).")
    codec_options: dict[str, str | int | float | bool] = Field(
        default_factory=dict,
        description="Options of the codec; codec2-neural and codec2-learnt are learnt first if `path` is not given.",
    )
    codec_minutes: float | None = Field(
        default=None,
        gt=0,
        le=600,
        description="Amount of speech that a codec is learnt from, in minutes; empty: 120, for codec2-learnt 20.",
    )
    codec_stages: int = Field(default=2, ge=1, le=8, description="Number of stages of codec2-learnt for the spectrum.")
    codec_card: int = Field(
        default=512, ge=2, le=4096, description="Number of entries of each codebook of codec2-learnt."
    )
    codec_training: NeuralCodecConfig = Field(
        default_factory=NeuralCodecConfig, description="How the networks of codec2-neural are trained."
    )
    workers: int = Field(
        default=0, ge=0, le=256, description="Number of processes that synthesise and encode; 0: one per core."
    )

    @property
    def learning_minutes(self) -> float:
        """Minutes of speech that a codec is learnt from: `codec_minutes`, or a default that depends on the codec."""
        return self.codec_minutes or (20.0 if self.codec == "codec2-learnt" else 120.0)

    _expanded = field_validator("out", "tokenizer", "lexicon")(expand_home)

    @field_validator("without")
    @classmethod
    def _expand_all(cls, folders: list[str]) -> list[str]:
        """Expands a leading `~` in each path."""
        return [str(expand_home(each)) for each in folders]

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        """Checks that each minimum is at most its maximum, and that there is enough speech to learn the codec from."""
        if self.min_words > self.max_words or self.after_min_s > self.after_max_s:
            raise ValueError("min_words is above max_words, or after_min_s above after_max_s")
        if self.codec == "codec2-neural" and 60 * self.learning_minutes < _S_OF_NETWORKS:
            raise ValueError(f"codec_minutes: networks need at least {_S_OF_NETWORKS / 60:g} minutes")
        if self.codec == "codec2-learnt" and 60 * self.learning_minutes < _S_AN_ENTRY * self.codec_card:
            least = _S_AN_ENTRY * self.codec_card / 60
            raise ValueError(f"codec_minutes: {self.codec_card} entries need at least {least:.1f} minutes")
        return self
