"""What a caller may change of a running session, and how often: one form for both sockets and HTTP."""

from typing import Annotated, Self
from weakref import WeakKeyDictionary

from pydantic import AfterValidator, Field, model_validator

from data_schemas.config import Config
from data_schemas.config.serving import Mode
from kame_model.serve.device.admission import Refused
from kame_model.serve.oracle.prompts import Instructions
from kame_model.serve.session.session import Session
from kame_model.serve.web.access import Denied
from kame_model.serve.web.rate_limits import Allowance

CHANGES_PER_S, CHANGES_AT_ONCE = 2.0, 10.0
"""Of one session. Each may have the recogniser listen anew and the device clear a slot, which costs the others."""


def _of_whole_characters(text: str) -> str:
    """JSON may hold half of a surrogate pair, which can be sent to nobody: no chat model, no client."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it holds half a character (a surrogate without its other one)") from None
    return text


_Text = Annotated[str, AfterValidator(_of_whole_characters)]
_Name = Annotated[_Text, Field(max_length=128)]


class Changes(Config):
    """Wishes for a session; what is not given stays.

    Example: `{"mode": "direct"}`, `{"back_end": "math", "model": "big", "prompt": ""}`, `{"reset": true}`.
    """

    mode: Mode | None = Field(default=None, description="From the next frame on.")
    back_end: _Name | None = Field(default=None, description="For the next request on.")
    model: _Name | None = Field(
        default=None, description="One of the back-end's models; empty: its own, as with another back-end."
    )
    prompt: _Text | None = Field(
        default=None, description="A prompt's name, or instructions of several words; empty: the back-end's own again."
    )
    reset: bool = Field(default=False, description="Begin anew, after the other changes.")
    instructions: _Text | None = Field(
        default=None,
        description="In place of `prompt`: instructions, of one word too; empty: the back-end's own again.",
    )

    @model_validator(mode="after")
    def _has_one_prompt(self) -> Self:
        if self.prompt is not None and self.instructions is not None:
            raise ValueError("prompt and instructions are not given together")
        return self

    @property
    def prompt_text(self) -> str | None:
        """The prompt's name or the instructions that are wished for; None: those that there are."""
        return self.prompt if self.instructions is None else self.instructions

    def apply(self, session: Session) -> None:
        """Changes a session.

        Raises:
            ConfigError: there is no such mode or back-end here; nothing has changed.
            Refused: the device has no time for the mode; nothing has changed.
        """
        wished = self.model_dump(exclude={"reset", "instructions"}, exclude_none=True)
        if self.instructions is not None:
            wished["prompt"] = Instructions(self.instructions)
        if wished:
            session.change(**wished)
        if self.reset:
            session.reset()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is wished."""
        return self == Changes()

    @classmethod
    def hint(cls) -> str:
        """What may be given."""
        return f"a JSON object of {', '.join(cls.model_fields)}"


class Changing:
    """Changes sessions, each no oftener than others bear."""

    def __init__(self) -> None:
        self._allowances: WeakKeyDictionary[Session, Allowance] = WeakKeyDictionary()

    def apply(self, changes: Changes, session: Session) -> None:
        """Changes a session; what wishes nothing counts for nothing.

        Raises:
            Denied: it has been changed too often, or the device has no time for the mode.
            ConfigError: there is no such mode or back-end here; nothing has changed.
        """
        if changes.is_empty:
            return
        allowance = self._allowances.setdefault(session, Allowance(CHANGES_PER_S, CHANGES_AT_ONCE))
        if not allowance.take():
            raise Denied(429, "too_many_changes", f"A session is changed {CHANGES_PER_S:g} times a second at most.")
        try:
            changes.apply(session)
        except Refused as refusal:
            raise Denied.because(refusal) from refusal
