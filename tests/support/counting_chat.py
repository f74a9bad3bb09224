"""A chat model that answers everything alike, and counts."""

from collections.abc import AsyncGenerator
from typing import Any

from backends.chat.live import LiveUsage
from backends.tts.double import DoubleTts
from data_schemas.config.serving import CascadeConfig
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.oracle.routing import BackEnd
from kame_model.serve.parts import ServerParts
from kame_model.serve.voice.speaker import Speaker
from tests.support.inline_threads import InlineThreads
from tests.support.serving import LoudnessDetector, LoudnessRecogniser


class CountingChat:
    """Answers with the same pieces, or fails; counts as real clients do."""

    def __init__(self, *pieces: str, error: Exception | None = None) -> None:
        self.pieces, self.error, self.usage = pieces, error, LiveUsage()

    @property
    def n_asked(self) -> int:
        return self.usage.n_requests

    async def stream(self, payload: dict[str, Any]) -> AsyncGenerator[str, None]:
        self.usage.n_requests += 1
        self.usage.n_tokens_out += len(self.pieces)
        if self.error is not None:
            raise self.error
        for piece in self.pieces:
            yield piece

    async def aclose(self) -> None:
        """Nothing is open."""


def parts_with(chat: CountingChat, recogniser: object = None) -> ServerParts:
    """A server's parts with this chat model; it hears loudness unless told otherwise."""
    speaker = Speaker(DoubleTts(), CascadeConfig(), InlineThreads())
    back_end = BackEnd("default", chat, load_prompt("tandem"))
    return ServerParts(recogniser or LoudnessRecogniser(), LoudnessDetector, {"default": back_end}, speaker)  # type: ignore[arg-type]
