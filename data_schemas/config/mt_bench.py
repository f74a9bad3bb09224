"""Spoken MT-Bench: questions, the voices that ask them, and the judge."""

from pydantic import Field

from data_schemas.config.calls import CallsConfig
from data_schemas.config.judge import JudgeConfig


class MtBenchConfig(CallsConfig):
    """Settings of an MT-Bench evaluation of a server."""

    path: str = Field(
        description="Folder in FastChat's layout: question.jsonl, and reference_answer/gpt-4.jsonl for questions "
        "that are judged with a reference answer."
    )
    categories: list[str] = Field(
        default=["reasoning", "stem", "humanities"],
        min_length=1,
        description="Categories of questions; the default is the paper's.",
    )
    n_questions: int = Field(
        default=0, ge=0, description="Maximum number of questions, taken from the categories in turn; 0: all."
    )
    n_runs: int = Field(
        default=6, ge=1, le=1000, description="Number of times that each question is asked; 6 in the paper."
    )
    tts: str = Field(
        default="kokoro", description="Text-to-speech engine that asks the questions; `kame backends` lists them."
    )
    tts_options: dict[str, str | int | float | bool] = Field(default={}, description="Options of the engine.")
    voices: list[str] = Field(
        default=[],
        description="Voices of the engine, one of which is drawn for each conversation; empty: its English voices "
        "except the cascade's.",
    )
    judge: JudgeConfig = Field(default_factory=JudgeConfig, description="Chat model that judges the answers.")
    max_answer_s: float = Field(
        default=60.0,
        gt=0,
        le=600,
        description="Maximum length of an answer, in seconds from the question's end; then the next question is "
        "asked or the call ends.",
    )
    pause_s: float = Field(
        default=1.0,
        ge=0,
        le=60,
        description="Pause between the end of the first answer and the second question, in seconds.",
    )
