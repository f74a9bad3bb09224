"""One request to a chat model: what is asked, how long it is waited for, and how much of its answer is taken."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from data_schemas.errors import AnswerCut
from kame_model.serve.oracle.routing import BackEnd
from kame_model.serve.session.conversation import Conversation
from spoken.whisper import UnfitAnswer

_LOG = logging.getLogger(__name__)

_PIECES_PER_TOKEN: Final = 2
_CHARS_PER_TOKEN: Final = 32
"""Of each token that was allowed, no more is taken: a server that knows no `max_tokens` may write for ever."""

_THINKS: Final = "thinks"
_TELL_IT: Final = "Tell it not to think, or give it more max_tokens (docs/llm.md, Models that think)."
_TELL_IT_SOON: Final = "Tell it not to think (docs/llm.md, Models that think), or raise back_ends[].max_thought_s."


async def answer_of(back_end: BackEnd, conversation: Conversation, most_wait_s: float) -> AsyncGenerator[str, None]:
    """The pieces of an answer to what the user says; closing it cancels the request.

    What is longer than was allowed is cut, and told in the log.

    Raises:
        AnswerCut: at the end, where it is not whole.
        UnfitAnswer: the chat model thinks for too long, or wrote nothing but what it thought.
        TimeoutError: nothing came for so long.
        UnexpectedThought, RequestError, BackendError: see `LiveChat.stream`.
    """
    most = back_end.max_tokens
    n_pieces = n_chars = 0
    async with (
        aclosing(back_end.chat.stream(_payload(back_end, conversation))) as written,
        aclosing(_said(written, most_wait_s, back_end.max_thought_s)) as pieces,
    ):
        async for piece in pieces:
            n_pieces += 1
            n_chars += len(piece)
            yield piece
            if n_pieces >= _PIECES_PER_TOKEN * most or n_chars >= _CHARS_PER_TOKEN * most:
                break
        else:
            return
    _LOG.warning("Back-end %s writes far more than the %d tokens it was asked for; it is cut.", back_end.name, most)
    raise AnswerCut(f"Back-end {back_end.name} writes far more than it was asked for.")


async def _said(
    pieces: AsyncGenerator[str, None], most_wait_s: float, max_thought_s: float
) -> AsyncGenerator[str, None]:
    """The pieces that are no signs of thinking; raises what `answer_of` does."""
    clock = asyncio.get_running_loop().time
    asked_s, is_thinking, has_begun = clock(), False, False
    while True:
        thought_s = asked_s + max_thought_s - clock() if is_thinking else most_wait_s
        try:
            async with asyncio.timeout(min(most_wait_s, thought_s)):
                piece = await anext(pieces, None)
        except TimeoutError:
            if thought_s < most_wait_s:
                what = f"The chat model was still thinking after {max_thought_s:g} s."
                raise UnfitAnswer(what, _TELL_IT_SOON, _THINKS) from None
            raise
        except AnswerCut:
            if not is_thinking:
                raise
            piece = None
        if piece is None and is_thinking:
            raise UnfitAnswer("The chat model wrote nothing but what it thought.", _TELL_IT, _THINKS)
        if piece is None:
            return
        has_begun = has_begun or bool(piece)
        is_thinking = not has_begun
        if piece:
            yield piece


def _payload(back_end: BackEnd, conversation: Conversation) -> dict[str, Any]:
    return {
        "messages": conversation.messages(back_end.prompt),
        "max_tokens": back_end.max_tokens,
        "temperature": back_end.temperature,
        **({"stop": back_end.prompt.stop} if back_end.prompt.stop else {}),
    }
