"""The chat model that judges answers in evaluations."""

from pydantic import Field

from data_schemas.config.base import Config
from data_schemas.config.chat import BudgetConfig, ChatConfig


class JudgeConfig(Config):
    """The judge model, its prompts and its budget. Judges run at temperature 0."""

    chat: ChatConfig = Field(default_factory=ChatConfig, description="Chat model that judges.")
    prompts: str = Field(
        default="",
        description="FastChat's judge_prompts.jsonl, or a YAML file like kame_model/evaluate/judge_prompts.yaml; "
        "empty: that file.",
    )
    max_tokens: int = Field(
        default=2048, ge=8, le=32_768, description="Maximum number of tokens of one judgement; 2,048 in FastChat."
    )
    budget: BudgetConfig = Field(
        default_factory=BudgetConfig, description="Maximum usage of the judgements of one run."
    )
