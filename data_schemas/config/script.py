"""Scripts: limits of questions and answers, and the forms of dialogues."""

from typing import Self

from pydantic import Field, field_validator, model_validator

from data_schemas.config.base import Config, expand_home


class ScriptConfig(Config):
    """How an item becomes a spoken question and answer."""

    max_spoken_options: int = Field(
        default=4,
        ge=0,
        le=4,
        description="Maximum number of answer options that are read aloud, including the right one; below 2: no "
        "options are read.",
    )
    max_option_words: int = Field(
        default=45, ge=1, description="Maximum length of one option that is read aloud, in words."
    )
    max_options_words: int = Field(
        default=100, ge=1, description="Maximum length of all options that are read aloud together, in words."
    )
    offer_share: float = Field(
        default=0.25,
        ge=0,
        le=1,
        description="Share of questions that are asked with options although they can be answered without them.",
    )
    max_question_s: float = Field(
        default=44.0,
        ge=2,
        description="Maximum length of a spoken question, including its options, in seconds at 2.5 words a second "
        "(44: 110 words).",
    )
    max_answer_words: int = Field(
        default=80, ge=1, description="Maximum length of a spoken answer, in words (80: about 32 s)."
    )
    lexicon: str | None = Field(
        default=None,
        description="TSV file of written forms and how they are spoken; a third column keeps the word in the text "
        "and gives its spelling for voice and aligner only. It takes precedence over all rules and the built-in "
        "lexicon.",
    )

    _expanded = field_validator("lexicon")(expand_home)


class FormShares(Config):
    """Weights of the forms of dialogue; 0: never. Each description gives the reason for the form.

    To add a form, add a field here and a file of the same name in `pipelines/script/forms/` (docs/extending.md).
    """

    plain: float = Field(
        default=0.28, ge=0, description="Question, answer: the most common form, and the base of all others."
    )
    greeting: float = Field(
        default=0.08, ge=0, description="Both greet first: calls begin like this, and a greeting needs no knowledge."
    )
    two_breaths: float = Field(
        default=0.1, ge=0, description="The question has a short gap: such a gap does not end a turn."
    )
    follow_up: float = Field(
        default=0.12,
        ge=0,
        description="A second question refers to the answer: without it, the history is never needed.",
    )
    interruption: float = Field(
        default=0.12, ge=0, description="The user interrupts and the assistant stops: single turns never teach this."
    )
    self_correction: float = Field(
        default=0.06,
        ge=0,
        description="The user corrects a word: an answer guessed from half a question must be dropped.",
    )
    early_start: float = Field(
        default=0.06,
        ge=0,
        description="The assistant starts before the question ends, without a gap; rare, because it is risky.",
    )
    backchannel: float = Field(
        default=0.08,
        ge=0,
        description='One says "okay" while the other goes on speaking: not every sound takes the turn.',
    )
    thinking_pause: float = Field(
        default=0.1, ge=0, description="The user pauses to think within the question: models interrupt there too often."
    )

    @model_validator(mode="after")
    def _check_any(self) -> Self:
        """Checks that at least one share is above 0."""
        if not any(self.model_dump().values()):
            raise ValueError("at least one form needs a share above 0")
        return self

    def get_relevant_shares(self) -> dict[str, float]:
        """Returns the shares that count for fingerprints.

        A form whose default is 0 is omitted while its share is 0, so that adding a form does not invalidate existing
        datasets. All others always count.
        """
        fields = type(self).model_fields
        return {name: share for name, share in self.model_dump().items() if share or fields[name].default}


class FormsConfig(Config):
    """Forms of dialogue, and leads and tails of the assistant's answers."""

    shares: FormShares = Field(default_factory=FormShares, description="Weights of the forms of dialogue.")
    share_without_lead: float = Field(
        default=0.2, ge=0, le=1, description="Share of answers that start without a lead."
    )
    lead_min_s: float = Field(
        default=0.5, ge=0, le=5, description="Minimum length of a lead, in estimated seconds of speech."
    )
    lead_max_s: float = Field(
        default=3.0, ge=0, le=5, description="Maximum length of a lead, in estimated seconds of speech."
    )
    tail_share: float = Field(
        default=0.15, ge=0, le=1, description="Share of answers that are followed by a short tail."
    )

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        """Checks that lead_min_s is at most lead_max_s."""
        if self.lead_min_s > self.lead_max_s:
            raise ValueError("lead_min_s is above lead_max_s")
        return self
