"""Spoken questions, asked of a served front-end."""

from typing import Literal

from pydantic import Field, field_validator

from data_schemas.config.base import at_home
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
    """Which questions are asked of a server, and how they are spoken."""

    questions: QuestionSetName = Field(description="The set, by its published form; mine: a table of one's own.")
    path: str = Field(default="", description="Its file, or its folder; empty: the Hugging Face Hub.")
    columns: dict[str, str] = Field(
        default_factory=dict, description="The set's names of columns to those that the file has."
    )
    n_questions: int = Field(default=100, ge=1, le=1_000_000, description="Questions at most.")
    items_seed: int = Field(
        default=0, ge=0, description="Seed of which these are, and of who asks; one seed for all that is compared."
    )
    max_words: int = Field(
        default=120, ge=1, description="A longer question, in spoken words, is left out; nobody would ask it aloud."
    )
    tts: str = Field(default="kokoro", description="Text-to-speech of questions without sound; `kame backends`.")
    n_voices: int = Field(default=8, ge=1, description="Different voices that ask them at most.")
    lead_s: float = Field(default=0.5, ge=0, le=60, description="Silence before the question, seconds.")
    tail_s: float = Field(
        default=20.0, gt=0, le=600, description="Longest wait for the answer's end, from the question's end, seconds."
    )

    _expanded = field_validator("path")(at_home)
