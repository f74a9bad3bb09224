"""The assistant's voice by itself: what it says, how much of it, and as which tokens it is kept."""

from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from data_schemas.config import GateConfig, SourceConfig, SpeechConfig, SplitConfig
from data_schemas.config.base import Config, at_home
from data_schemas.config.speech import AlignmentConfig

_S_AN_ENTRY: Final = 1.2
"""Speech that an entry of a codebook is learnt from: 0.8 s of it with sound; a quarter of a row is silence."""

SentenceKind = Literal["sentence", "words", "numbers", "lead", "stall"]
"""What an utterance is; the `form` of its token row."""


class SentenceShares(Config):
    """How often each kind of sentence is said, as weights; 0: never. Each default stands with its reason."""

    sentence: float = Field(default=0.7, ge=0, description="Sentences of the sources: how people talk of such things.")
    words: float = Field(default=0.12, ge=0, description="Random words, so that any word can be said after any other.")
    numbers: float = Field(default=0.12, ge=0, description="Numbers of all sizes: answers hang on them.")
    lead: float = Field(default=0.04, ge=0, description="Leads and tails of the pipeline: most answers have one.")
    stall: float = Field(default=0.02, ge=0, description="What is said while nothing is known: there are few.")

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not any(self.model_dump().values()):
            raise ValueError("at least one kind of sentence needs a share above 0")
        return self


class SpeechRowsConfig(Config):
    """Hours of the assistant's voice as token rows, one utterance a row."""

    out: str = Field(description="Folder of the token rows.")
    sources: list[SourceConfig] = Field(min_length=1, description="Question sets whose sentences and words are said.")
    limit: int | None = Field(default=None, ge=1, description="Items read per source; empty: all.")
    hours: float = Field(gt=0, le=1000, description="Hours of rows, their silence included; more of them add parts.")
    seed: int = Field(default=0, ge=0, description="Seed of every choice: sentences, words, numbers, speeds, silences.")
    shares: SentenceShares = Field(default_factory=SentenceShares, description="How often each kind is said.")
    min_words: int = Field(default=2, ge=1, le=50, description="Fewest spoken words of a sentence.")
    max_words: int = Field(default=25, ge=1, le=50, description="Most spoken words of a sentence.")
    split: SplitConfig = Field(default_factory=SplitConfig, description="The pipeline's split; only train items count.")
    without: list[str] = Field(
        default_factory=list, description="Datasets or token rows of whose items no sentence is said."
    )
    validation_share: float = Field(
        default=0.02, ge=0, le=0.5, description="Share of utterances kept for validation, drawn by seed."
    )
    before_s: float = Field(
        default=0.08, ge=0, le=1, description="Silence before an utterance, seconds; one frame has the end of padding."
    )
    after_min_s: float = Field(default=0.3, ge=0, le=5, description="Least silence behind an utterance, seconds.")
    after_max_s: float = Field(default=1.0, ge=0, le=5, description="Most silence behind an utterance, seconds.")
    speech: SpeechConfig = Field(default_factory=SpeechConfig, description="Who speaks; `voice_a` alone is heard.")
    gate: GateConfig = Field(
        default_factory=lambda: GateConfig(asr="none"),
        description="What each utterance must pass; nobody listens by default, for random words are misheard.",
    )
    alignment: AlignmentConfig = Field(
        default_factory=lambda: AlignmentConfig(aligner="synthesiser"),
        description="Word times: the synthesiser's own, where it tells them, else an aligner's.",
    )
    lexicon: str | None = Field(default=None, description="TSV file of readings, as `script.lexicon` of a refresh.")
    tokenizer: str | None = Field(
        default=None, description="SentencePiece model of the text; empty: one is trained on the first sentences."
    )
    vocabulary: int = Field(default=1000, ge=8, description="Pieces of a vocabulary that is trained.")
    codec: str = Field(default="codec2-learnt", description="Codec back-end (`kame backends` lists them).")
    codec_options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="The codec's own options; codec2-learnt without `path` is learnt first."
    )
    codec_minutes: float = Field(default=20.0, gt=0, le=600, description="Speech that codebooks are learnt from.")
    codec_stages: int = Field(default=2, ge=1, le=8, description="Stages of learnt codebooks for the spectrum.")
    codec_card: int = Field(default=512, ge=2, le=4096, description="Entries of each learnt codebook.")
    workers: int = Field(default=0, ge=0, le=256, description="Processes that speak and encode; 0: one a core.")

    _expanded = field_validator("out", "tokenizer", "lexicon")(at_home)

    @field_validator("without")
    @classmethod
    def _all_expanded(cls, folders: list[str]) -> list[str]:
        return [str(at_home(each)) for each in folders]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_words > self.max_words or self.after_min_s > self.after_max_s:
            raise ValueError("min_words is above max_words, or after_min_s above after_max_s")
        if 60 * self.codec_minutes < _S_AN_ENTRY * self.codec_card:
            least = _S_AN_ENTRY * self.codec_card / 60
            raise ValueError(f"codec_minutes: {self.codec_card} entries need {least:.1f} minutes at least")
        return self
