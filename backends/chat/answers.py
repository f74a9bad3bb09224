"""The chat-completions protocol: reads answers, token usage and finish reasons, and estimates a payload's tokens."""

import json
from typing import Any

from backends.chat.cache import StoredReply
from backends.chat.faults import REFUSED, UnusableAnswerError

BYTES_PER_TOKEN = 3
"""Cautious estimate in UTF-8 bytes: English has four to five bytes per token, a Chinese or Hindi letter has three."""
TOKENS_PER_MESSAGE = 8
TOKENS_PER_PICTURE = 1_000
"""Approximate tokens of a one-megapixel picture with most models."""
UNBOUNDED_ANSWER = 512
"""Tokens assumed for an answer if the payload sets no limit."""
MOST_TOKENS = 10**9
"""Larger counts are ignored as invalid: no model reads that many tokens."""
MAX_NAME = 200
"""Characters kept of a model's name, which a server may fill with anything."""
_CUT = "length"
"""Finish reason of an answer that reached its token limit; the same request would reach it again."""
_FILTERED = frozenset({"safety", "recitation", "blocklist", "prohibited_content", "spii"})
"""Google's lower-case finish reasons for an answer that its filter ended without saying `content_filter`."""


def is_filtered(reason: object) -> bool:
    """Returns whether a finish reason says that the provider's content filter ended the answer.

    Google's own reasons count too, alone or appended: "SAFETY", "content_filter: SAFETY". False for None.
    """
    if not isinstance(reason, str):
        return False
    kind, _, why = reason.lower().partition(":")
    return kind == "content_filter" or bool({kind, why.strip()} & _FILTERED)


def estimate_tokens(payload: dict[str, Any]) -> tuple[int, int]:
    """Estimates the input tokens and the maximum output tokens of a payload before a server has counted them.

    Args:
        payload: a chat-completions payload, as requested or as the provider receives it; without a limit of output
            tokens, `UNBOUNDED_ANSWER` is assumed.
    """
    n_in = sum(TOKENS_PER_MESSAGE + _estimate_content_tokens(message.get("content")) for message in payload["messages"])
    return n_in, int(payload.get("max_tokens") or payload.get("max_completion_tokens") or UNBOUNDED_ANSWER)


def _estimate_content_tokens(content: Any) -> int:
    """Estimates the tokens of a message's content: a text, or parts, of which all but texts count as pictures."""
    if isinstance(content, str):
        return _estimate_text_tokens(content)
    parts = content if isinstance(content, list) else []
    return sum(
        _estimate_content_tokens(part.get("text", "")) if part.get("type") == "text" else TOKENS_PER_PICTURE
        for part in parts
    )


def _estimate_text_tokens(text: str) -> int:
    """Estimates the tokens of a text from its length in UTF-8 bytes, rounded down."""
    return len(text.encode(errors="replace")) // BYTES_PER_TOKEN


def read_answer(text: str, estimate: tuple[int, int] = (0, UNBOUNDED_ANSWER)) -> StoredReply:
    """Parses the answer in a chat-completions response. An empty text is valid; the caller decides if it is usable.

    Args:
        text: the response's body.
        estimate: `estimate_tokens` of the payload, used where the response does not report usage.

    Raises:
        UnusableAnswerError: it is not JSON, has no choice with text, or is a refusal; the error has the tokens that it
            cost, and is final if the model refused or the token limit was reached.
    """
    response: Any = None
    reason: Any = None
    is_refused = False
    try:
        response = json.loads(text)
        choice = response["choices"][0]
        reason = choice.get("finish_reason")
        content = choice["message"].get("content")
        if not content:
            is_refused = bool(choice["message"].get("refusal")) or is_filtered(reason)
        if is_refused or not isinstance(content, str):
            raise TypeError(
                f"{'it is refused' if is_refused else 'its content is not text'}, and it ended by {reason!r}"
            )
        content.encode()  # half a surrogate pair is not text either
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        is_final = is_refused or reason == _CUT
        n_in, n_out = estimate
        paid = _make_reply("", response, (n_in, n_out if is_final else min(n_out, _estimate_text_tokens(text))))
        what = f"an answer without a usable choice ({type(error).__name__}: {error})"
        status = REFUSED if is_refused else "malformed"
        raise UnusableAnswerError(what, paid, is_final=is_final, status=status) from error
    guess = (estimate[0], min(estimate[1], _estimate_text_tokens(content)))
    return _make_reply(content, response, guess, reason if isinstance(reason, str) else None)


def make_estimated_reply(estimate: tuple[int, int]) -> StoredReply:
    """Returns a reply with the estimated cost of a request whose outcome is unknown."""
    return StoredReply("", estimate[0], None, estimate[1], is_estimated=True)


def read_usage(usage: Any, estimate: tuple[int, int]) -> tuple[int, int | None, int, bool]:
    """Reads the token counts of a response's `usage`.

    Returns input tokens, input tokens from the server's cache (None: not reported), output tokens, and whether some of
    them come from the estimate because the server reported nothing or nonsense.
    """
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    n_in, n_out = _read_count(usage.get("prompt_tokens")), _read_count(usage.get("completion_tokens"))
    n_cached = _read_count(details.get("cached_tokens")) if isinstance(details, dict) else None
    is_estimated = not n_in or n_out is None  # no prompt has 0 tokens, but some servers report 0
    if is_estimated:
        n_in, n_out = n_in or estimate[0], n_out or estimate[1]
    n_in = n_in or 0
    return n_in, None if n_cached is None else min(n_cached, n_in), n_out or 0, is_estimated


def _make_reply(text: str, response: Any, estimate: tuple[int, int], finish_reason: str | None = None) -> StoredReply:
    """Makes a reply of a text, with the token counts and model names of the parsed `response`."""
    response = response if isinstance(response, dict) else {}
    n_in, n_cached, n_out, is_estimated = read_usage(response.get("usage"), estimate)
    who = (_read_name(response.get("model")), _read_name(response.get("system_fingerprint")))
    return StoredReply(text, n_in, n_cached, n_out, finish_reason, is_estimated, *who)


def _read_count(value: Any) -> int | None:
    """Returns a token count as an integer; None if it is not a number from 0 to `MOST_TOKENS`."""
    is_one = isinstance(value, int | float) and 0 <= value <= MOST_TOKENS
    return int(value) if is_one else None


def _read_name(value: Any) -> str | None:
    """Returns the name of a model in a form that can be stored; None if it is empty or not a text."""
    name = value.encode(errors="replace").decode().strip()[:MAX_NAME] if isinstance(value, str) else ""
    return name or None
