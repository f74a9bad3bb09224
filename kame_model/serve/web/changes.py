"""What a caller may change of a running session: one form for both sockets and HTTP."""

from typing import Annotated

from pydantic import Field

from data_schemas.config import Config
from data_schemas.config.serving import Mode
from kame_model.serve.session import Session


class Changes(Config):
    """Wishes for a session; what is not given stays.

    Example: `{"mode": "direct"}`, `{"back_end": "math", "prompt": ""}`, `{"reset": true}`.
    """

    mode: Mode | None = Field(default=None, description="From the next frame on.")
    back_end: Annotated[str, Field(max_length=128)] | None = Field(default=None, description="For the next request on.")
    prompt: str | None = Field(
        default=None, description="A prompt's name, or instructions of several words; empty: the back-end's own again."
    )
    reset: bool = Field(default=False, description="Begin anew, after the other changes.")

    def apply(self, session: Session) -> None:
        """Changes a session.

        Raises:
            ConfigError: there is no such mode or back-end here; nothing has changed.
        """
        if self.mode is not None or self.back_end is not None or self.prompt is not None:
            session.change(mode=self.mode, back_end=self.back_end, prompt=self.prompt)
        if self.reset:
            session.reset()

    @classmethod
    def hint(cls) -> str:
        """What may be given."""
        return f"a JSON object of {', '.join(cls.model_fields)}"
