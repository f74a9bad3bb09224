"""The changes that a caller may make to an open session: one schema for both sockets and HTTP."""

from typing import Annotated, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from data_schemas.config import Config
from data_schemas.config.serving import Mode
from kame_model.serve.oracle.prompts import Instructions
from kame_model.serve.session.session import Session


def _reject_half_characters(text: str) -> str:
    """Returns a text unchanged, unless it has half of a surrogate pair, which no chat model and no client can receive.

    Raises:
        ValueError: it has, as JSON allows.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it contains half a character (a lone surrogate)") from None
    return text


_Text = Annotated[str, AfterValidator(_reject_half_characters)]
_Name = Annotated[_Text, Field(max_length=128)]
_TWO_PROMPTS: JsonDict = {
    "required": ["prompt", "instructions"],
    "properties": {"prompt": {"type": "string"}, "instructions": {"type": "string"}},
}
"""A combination that no request may contain, for the schema."""


class Changes(Config):
    """Changes of a session; what is not given stays.

    Example: `{"mode": "direct"}`, `{"back_end": "math", "model": "big", "prompt": ""}`, `{"reset": true}`.
    """

    model_config = ConfigDict(json_schema_extra={"not": _TWO_PROMPTS})

    mode: Mode | None = Field(default=None, description="From the next frame on.")
    back_end: _Name | None = Field(default=None, description="For the next request on.")
    model: _Name | None = Field(
        default=None, description="One of the back-end's models; empty: its default, which another back-end also uses."
    )
    prompt: _Text | None = Field(
        default=None, description="A prompt's name, or instructions of several words; empty: the back-end's own."
    )
    reset: bool = Field(default=False, description="Restart the session, after the other changes.")
    instructions: _Text | None = Field(
        default=None,
        description="Instead of `prompt`: instructions, even of one word; empty: the back-end's own.",
    )

    @model_validator(mode="after")
    def _check_one_prompt(self) -> Self:
        """Raises a ValueError if both a prompt and instructions are given."""
        if self.prompt is not None and self.instructions is not None:
            raise ValueError("prompt and instructions exclude each other")
        return self

    @property
    def prompt_text(self) -> str | None:
        """The requested prompt name or instructions; None: unchanged."""
        return self.prompt if self.instructions is None else self.instructions

    def apply(self, session: Session) -> None:
        """Changes a session, and then resets it if that is asked for.

        Raises:
            ConfigError: this mode, back-end, model or prompt is not available or not allowed here; nothing has changed.
            Refused: the device has no time for the mode; nothing has changed.
        """
        wished = self.model_dump(exclude={"reset", "instructions"}, exclude_none=True)
        if self.instructions is not None:
            wished["prompt"] = Instructions(self.instructions)
        if wished:
            session.change(**wished)
        if self.reset:
            session.reset()

    @classmethod
    def describe(cls) -> str:
        """Returns a description of the allowed fields, for error messages."""
        return f"a JSON object of {', '.join(cls.model_fields)}"
