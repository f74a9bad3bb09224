"""One request to a chat model: what is asked, how long it is waited for, and how much of its answer is taken."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from data_schemas.errors import AnswerCut
from kame_model.serve.conversation import Conversation
from kame_model.serve.routing import BackEnd

_LOG = logging.getLogger(__name__)

_PIECES_PER_TOKEN: Final = 2
_CHARS_PER_TOKEN: Final = 32
"""Of each token that was allowed, no more is taken: a server that knows no `max_tokens` may write for ever."""


async def answer_of(back_end: BackEnd, conversation: Conversation, most_wait_s: float) -> AsyncGenerator[str, None]:
    """The pieces of an answer to what the user says; closing it cancels the request.

    What is longer than was allowed is cut, and told in the log.

    Raises:
        AnswerCut: at the end, where it is not whole.
        TimeoutError: nothing came for so long.
        RequestError, BackendError: see `LiveChat.stream`.
    """
    most = back_end.max_tokens
    n_pieces = n_chars = 0
    async with aclosing(back_end.chat.stream(_payload(back_end, conversation))) as pieces:
        while n_pieces < _PIECES_PER_TOKEN * most and n_chars < _CHARS_PER_TOKEN * most:
            async with asyncio.timeout(most_wait_s):
                piece = await anext(pieces, None)
            if piece is None:
                return
            n_pieces += 1
            n_chars += len(piece)
            yield piece
    _LOG.warning("Back-end %s writes far more than the %d tokens it was asked for; it is cut.", back_end.name, most)
    raise AnswerCut(f"Back-end {back_end.name} writes far more than it was asked for.")


def _payload(back_end: BackEnd, conversation: Conversation) -> dict[str, Any]:
    return {
        "messages": conversation.messages(back_end.prompt),
        "max_tokens": back_end.max_tokens,
        "temperature": back_end.temperature,
        **({"stop": back_end.prompt.stop} if back_end.prompt.stop else {}),
    }
