"""What chat models are told by the server: files of text in `prompt_files/`, turned into the messages of a request.

They ask for what training has shown the front-end (docs/oracles.md): what the assistant is likely to say next, in ten
to thirty spoken words, while the user may still be speaking. What all requests share comes first (system, examples),
then the history, then the user's turn: so a server's prefix cache serves all but the newest words.
"""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from pydantic import Field

from data_schemas.config import Config
from data_schemas.errors import ConfigError
from data_schemas.named_yaml import list_names, load_named
from spoken.conversation import Message, fill_request, to_messages

_OURS = files("kame_model.serve.oracle") / "prompt_files"


class Instructions(NamedTuple):
    """A text of a caller's own, which no prompt's name is, be it of one word."""

    text: str


class PromptExample(Config):
    """One worked example, the same in every request."""

    history: list[str] = Field(default_factory=list, description="What was said before, a line a turn.")
    heard: str = Field(description="The user's turn so far.")
    is_finished: bool = Field(default=False, description="Whether it has ended.")
    reply: str


class Prompt(Config):
    """A prompt file."""

    version: str
    instructions: str = Field(description="Who the assistant is; a caller's own text stands in its place.")
    system: str = Field(description="What is asked for, and in which form. Always told, after the instructions.")
    unfinished: str = Field(description="The user's turn while it goes on; takes {history} and {heard}.")
    finished: str = Field(description="The user's turn when it has ended; takes {history} and {heard}.")
    examples: list[PromptExample] = Field(default_factory=list)
    stop: list[str] = Field(default_factory=list)

    def messages(self, history: Sequence[str], heard: str, *, is_finished: bool) -> list[Message]:
        """The messages of one request.

        Args:
            history: what was said before, a `format_history_line` a turn.
            heard: the user's turn so far.
            is_finished: whether it has ended.
        """
        system = f"{self.instructions.strip()} {self.system.strip()}"
        examples = ((self._request(each.history, each.heard, each.is_finished), each.reply) for each in self.examples)
        return to_messages(system, examples, self._request(history, heard, is_finished))

    def instructed(self, text: str) -> "Prompt":
        """The same with other instructions."""
        return self.model_copy(update={"instructions": text})

    def _request(self, history: Sequence[str], heard: str, is_finished: bool) -> str:
        return fill_request(self.finished if is_finished else self.unfinished, history, heard)


def our_prompts() -> list[str]:
    """Names of the prompts that come with the program."""
    return list_names(_OURS)


def load_prompt(name: str) -> Prompt:
    """One of ours by its name, or a YAML file by its path: for the operator; callers get `prompt_for`.

    Raises:
        ConfigError: there is none, or it is not one.
    """
    return load_named(name, _OURS, Prompt, "prompt")


def prompt_for(wish: str | Instructions, base: Prompt) -> Prompt:
    """What a caller asked for: nothing, one of our prompts by its name, or instructions of the caller's own.

    Args:
        wish: empty: `base`; one word that is not said to be instructions: the name of one of ours, never a path; a
            text: stands in the place of `base`'s instructions, and the form of the answer stays.
        base: the prompt of the back-end.

    Raises:
        ConfigError: there is none of that name.
    """
    text = text_of(wish).strip()
    if not text:
        return base
    if isinstance(wish, Instructions) or len(text.split()) > 1:
        return base.instructed(text)
    ours = _ours_loaded()
    if text not in ours:
        raise ConfigError(f"There is no prompt {text[:80]!r}.", f"There are: {', '.join(ours)}.")
    return ours[text]


def text_of(wish: str | Instructions) -> str:
    """What a caller wrote, whichever it is."""
    return wish.text if isinstance(wish, Instructions) else wish


@cache
def _ours_loaded() -> dict[str, Prompt]:
    """Our prompts by name, read once: callers' wishes are looked up between two frames."""
    return {name: load_prompt(name) for name in our_prompts()}
