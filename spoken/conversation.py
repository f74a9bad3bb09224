"""Formats a conversation as a prompt for a chat model, in the same way for training data and for the live server.

A request has a system message, worked examples, and then the conversation: one line for each earlier turn, and the turn
that is being heard.
"""

from collections.abc import Iterable, Sequence
from typing import Final

Message = dict[str, str]
"""A message of the chat-completions protocol: its `role` and `content`."""

USER: Final = "User"
ASSISTANT: Final = "Assistant"
ROLES: Final = {"A": ASSISTANT, "B": USER}
"""Names of a dialogue's speakers in prompts."""

ROLE_LABEL: Final = rf"(?:{USER}|{ASSISTANT})(?: \(\w+\))?:"
"""Pattern of the label before a turn: `User:`, `Assistant (unfinished):`."""

CUT_OFF: Final = " ..."
"""Marks a turn that was not, or is not yet, spoken to its end."""


def format_history_line(role: str, said: str, *, is_whole: bool) -> str:
    """Returns a turn as a line of the history, such as "User: what is ..."; " ..." marks one that is not whole.

    Args:
        role: the speaker's name in prompts (`ROLES`).
        said: what was said.
        is_whole: whether the turn was spoken to its end.
    """
    return f"{role}: {said}{'' if is_whole else CUT_OFF}"


def fill_request(form: str, history: Sequence[str], heard: str) -> str:
    """Returns a prompt template with the history and the current turn filled in.

    Args:
        form: the template from a prompt file; `{history}` and `{heard}` are replaced, in this order.
        history: one line for each earlier turn, made by `format_history_line`.
        heard: the words of the current turn so far.
    """
    said = "".join(f"{line}\n" for line in history)
    return form.strip().replace("{history}", said).replace("{heard}", heard)


def to_messages(system: str, examples: Iterable[tuple[str, str]], request: str) -> list[Message]:
    """Returns the chat messages of a request: system text, examples (pairs of request and reply), then the request.

    The part that all requests share comes first, so that a server's prefix cache can reuse it.
    """
    messages = [{"role": "system", "content": system.strip()}]
    for asked, reply in examples:
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": reply.strip()}]
    return [*messages, {"role": "user", "content": request}]
