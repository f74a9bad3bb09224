"""What is said: the limits of questions and answers, and the forms of dialogues."""

from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from data_schemas.config.base import Config, at_home


class ScriptConfig(Config):
    """How an item becomes what two people say."""

    max_spoken_options: int = Field(
        default=4, ge=0, le=4, description="Most options read out, the right one among them; below 2: none ever."
    )
    max_option_words: int = Field(default=45, ge=1, description="Longest option read out, in words.")
    max_options_words: int = Field(default=100, ge=1, description="…and most words of all that are read out.")
    offer_share: float = Field(
        default=0.25,
        ge=0,
        le=1,
        description="Share of questions that stand alone and are asked with options all the same.",
    )
    max_question_s: float = Field(
        default=44.0,
        ge=2,
        description="Longest question spoken, options included, in seconds at 2.5 words a second (44: 110 words).",
    )
    max_answer_words: int = Field(default=80, ge=1, description="Longest answer spoken, in words (80: about 32 s).")
    lexicon: str | None = Field(
        default=None,
        description="TSV file of written forms and the words said for them; a third column is for a word that is to "
        "stay in the row: its spelling for voice and aligner alone. Comes before all rules and our own lexicon.",
    )

    _expanded = field_validator("lexicon")(at_home)

    @model_validator(mode="before")
    @classmethod
    def _in_seconds(cls, given: Any) -> Any:
        if isinstance(given, dict) and "max_question_words" in given:
            raise ValueError(
                "max_question_words is now max_question_s, in seconds at 2.5 words a second: 300 words are 120.0"
            )
        return given


class FormShares(Config):
    """How often each form of dialogue is made, as weights; 0: never. Each default stands with its reason.

    A form of your own is a field here and a file of its name in `pipelines/script/forms/` (docs/extending.md).
    """

    plain: float = Field(
        default=0.28, ge=0, description="Question, answer: what most callers do, and the form all others build on."
    )
    greeting: float = Field(
        default=0.08, ge=0, description="The two greet first: calls begin so, and a greeting needs no knowledge."
    )
    two_breaths: float = Field(
        default=0.1, ge=0, description="The question in two breaths: a short gap is no end of a turn."
    )
    follow_up: float = Field(
        default=0.12, ge=0, description="A second question leans on the answer: without it no history is ever needed."
    )
    interruption: float = Field(
        default=0.12, ge=0, description="The user cuts in and the assistant stops: single turns never teach that."
    )
    self_correction: float = Field(
        default=0.06, ge=0, description="The user takes a word back: a guess at half a question must be given up."
    )
    early_start: float = Field(
        default=0.06, ge=0, description="The assistant starts before the question ends: no gap; rare, as it is risky."
    )
    backchannel: float = Field(
        default=0.08, ge=0, description='One says "okay" over the other, who goes on: not every sound takes the turn.'
    )
    thinking_pause: float = Field(
        default=0.1, ge=0, description="The user pauses to think in mid-question: models take the turn there too often."
    )

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not any(self.model_dump().values()):
            raise ValueError("at least one form needs a share above 0")
        return self

    def that_matter(self) -> dict[str, float]:
        """The shares that decide what is made, for fingerprints.

        A form whose default is 0 is left out while it is at 0: to add one makes no dataset anew. The others always
        count, as they did before there were such forms.
        """
        fields = type(self).model_fields
        return {name: share for name, share in self.model_dump().items() if share or fields[name].default}


class FormsConfig(Config):
    """Shapes of dialogues, and how the assistant's answers begin and end."""

    shares: FormShares = Field(default_factory=FormShares, description="How often each form is made.")
    share_without_lead: float = Field(
        default=0.2, ge=0, le=1, description="Share of answers that start at once, without a lead."
    )
    lead_min_s: float = Field(default=0.5, ge=0, le=5, description="Shortest lead, estimated seconds of speech.")
    lead_max_s: float = Field(default=3.0, ge=0, le=5, description="Longest lead, estimated seconds of speech.")
    tail_share: float = Field(default=0.15, ge=0, le=1, description="Share of answers with a short tail after them.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.lead_min_s > self.lead_max_s:
            raise ValueError("lead_min_s is above lead_max_s")
        return self
