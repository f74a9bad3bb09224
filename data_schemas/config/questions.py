"""Spoken question sets, asked of a server."""

from typing import Literal

from pydantic import Field, field_validator

from data_schemas.config.base import expand_home
from data_schemas.config.calls import CallsConfig

QuestionSetName = Literal[
    "llama_questions",
    "web_questions",
    "trivia_qa",
    "halueval",
    "svamp",
    "multi_arith",
    "gsm8k",
    "mmlu_pro",
    "mine",
]


class QuestionsConfig(CallsConfig):
    """Settings of an evaluation on spoken questions."""

    questions: QuestionSetName = Field(description="Name of the question set; mine: a table of your own.")
    path: str = Field(default="", description="File or folder of the set; empty: the Hugging Face Hub.")
    columns: dict[str, str] = Field(
        default_factory=dict, description="Mapping from the set's column names to those of the file."
    )
    n_questions: int = Field(default=100, ge=1, le=1_000_000, description="Maximum number of questions.")
    items_seed: int = Field(
        default=0,
        ge=0,
        description="Seed of the choice of questions and voices; use the same seed for all models that are compared.",
    )
    max_words: int = Field(
        default=120,
        ge=1,
        description="Maximum length of a question in spoken words; longer ones are skipped, because nobody would say "
        "them aloud.",
    )
    tts: str = Field(
        default="kokoro", description="Text-to-speech engine for questions without audio; `kame backends` lists them."
    )
    n_voices: int = Field(default=8, ge=1, description="Maximum number of different voices that ask.")
    lead_s: float = Field(default=0.5, ge=0, le=60, description="Silence before the question, in seconds.")
    tail_s: float = Field(
        default=20.0,
        gt=0,
        le=600,
        description="Maximum wait for the end of the answer, in seconds from the question's end.",
    )

    _expanded = field_validator("path")(expand_home)
