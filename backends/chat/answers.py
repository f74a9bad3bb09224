"""What a payload will take and what a response says: the shapes of OpenAI's chat-completions protocol."""

import json
from typing import Any

from backends.chat.cache import StoredReply
from backends.chat.faults import TryAgainError

CHARACTERS_PER_TOKEN = 3
"""A cautious estimate before asking: English has four to five, other scripts fewer."""
TOKENS_PER_MESSAGE = 8
TOKENS_PER_PICTURE = 1_000
"""About what a picture of a megapixel costs with most models."""
UNBOUNDED_ANSWER = 512
"""Tokens taken for an answer that a payload sets no bound to."""


def estimated_tokens(payload: dict[str, Any]) -> tuple[int, int]:
    """Tokens that a payload will take, read and at most written, before a server has counted them."""
    n_in = sum(TOKENS_PER_MESSAGE + _content_tokens(message.get("content")) for message in payload["messages"])
    return n_in, int(payload.get("max_tokens") or UNBOUNDED_ANSWER)


def _content_tokens(content: Any) -> int:
    if isinstance(content, str):
        return len(content) // CHARACTERS_PER_TOKEN
    parts = content if isinstance(content, list) else []
    return sum(
        _content_tokens(part.get("text", "")) if part.get("type") == "text" else TOKENS_PER_PICTURE for part in parts
    )


def read_answer(text: str) -> StoredReply:
    """The answer in a chat-completions response. An empty one is an answer; what it is worth is the caller's to say.

    Raises:
        TryAgainError: it is not JSON, or has no choice with a text.
    """
    try:
        response = json.loads(text)
        content = response["choices"][0]["message"]["content"]
        usage = response.get("usage") or {}
        details = usage.get("prompt_tokens_details") or {}
        counts = [usage.get("prompt_tokens"), details.get("cached_tokens"), usage.get("completion_tokens")]
        if not isinstance(content, str):
            raise TypeError("its content is no text")
        content.encode()  # half a surrogate pair is no text either
        return StoredReply(content, *(int(count or 0) for count in counts))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise TryAgainError(
            f"an answer without a usable choice ({type(error).__name__}: {error})", "malformed"
        ) from error
