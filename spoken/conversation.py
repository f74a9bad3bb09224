"""How a conversation is told to a chat model: the oracles of training data and the live server's are asked for alike.

A request has a system text, worked examples, and last the conversation: a line for each turn before, and the turn that
is being heard.
"""

from collections.abc import Iterable, Sequence
from typing import Final

Message = dict[str, str]
"""A message of the chat-completions protocol: its `role` and `content`."""

USER: Final = "User"
ASSISTANT: Final = "Assistant"
ROLES: Final = {"A": ASSISTANT, "B": USER}
"""What a dialogue's speakers are called."""

ROLE_LABEL: Final = rf"(?:{USER}|{ASSISTANT})(?: \(\w+\))?:"
"""Pattern of what stands before a turn: `User:`, `Assistant (unfinished):`."""

CUT_OFF: Final = " ..."
"""Stands behind what was said of a turn that was not, or is not yet, said to its end."""


def history_line(role: str, said: str, *, is_whole: bool) -> str:
    """One turn of the history; `is_whole`: it was said to its end."""
    return f"{role}: {said}{'' if is_whole else CUT_OFF}"


def fill_request(form: str, history: Sequence[str], heard: str) -> str:
    """The text of a request.

    Args:
        form: of a prompt file; `{history}` and `{heard}` are replaced, in this order.
        history: what was said before, a `history_line` a turn.
        heard: the words of the present turn so far.
    """
    said = "".join(f"{line}\n" for line in history)
    return form.strip().replace("{history}", said).replace("{heard}", heard)


def to_messages(system: str, examples: Iterable[tuple[str, str]], request: str) -> list[Message]:
    """The messages of a request; `examples` are requests with their replies.

    What all requests share comes first, so that a server's prefix cache serves most of each.
    """
    messages = [{"role": "system", "content": system.strip()}]
    for asked, reply in examples:
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": reply.strip()}]
    return [*messages, {"role": "user", "content": request}]
