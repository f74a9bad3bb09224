"""`free_running.jsonl` of a training run: what a front-end said when it ran validation dialogues freely.

Each line is one dialogue at one evaluation. Training writes the file, and the dashboard shows it.
"""

from typing import Final

from pydantic import Field, ValidationError

from data_schemas.config.base import Config

FREE_RUNNING: Final = "free_running.jsonl"


class FreeTurn(Config):
    """One question of a dialogue, and its answer."""

    oracle: str = Field(description="Text of the oracle that had heard the whole question.")
    said: str = Field(description="What the model said between that oracle and the user's next turn; may be empty.")
    recorded: str = Field(description="What the assistant of the recording says in this time.")
    is_right: bool = Field(description="Whether the model said the answer exactly once, and no other answer.")
    delay_s: float | None = Field(
        description="Seconds from the end of the question to the model's first word. Empty: it said nothing."
    )


class FreeDialogue(Config):
    """A dialogue that the model ran freely."""

    dialogue_id: str = Field(description="Its id.")
    question: str = Field(description="Spoken text of the user up to the first answer.")
    turns: list[FreeTurn] = Field(description="Its turns that can be judged.")


class FreeLine(FreeDialogue):
    """A line of `free_running.jsonl`: a dialogue at one evaluation."""

    step: int = Field(ge=0, description="Number of training steps done.")


def read_lines(content: bytes) -> tuple[list[FreeLine], int]:
    """Returns the lines of a file's content in their order, and the number of lines that cannot be read."""
    lines: list[FreeLine] = []
    n_damaged = 0
    for text in filter(None, content.split(b"\n")):
        try:
            lines.append(FreeLine.model_validate_json(text))
        except ValidationError:
            n_damaged += 1
    return lines, n_damaged
