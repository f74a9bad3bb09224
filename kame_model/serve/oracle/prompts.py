"""The server's prompts: text files in `prompt_files/`, turned into the messages of a request to a chat model.

They ask for what the front-end saw in training (docs/oracles.md): what the assistant is likely to say next, in ten to
thirty spoken words, while the user may still be speaking. What all requests share comes first (system, examples), then
the history, then the user's turn, so that a server's prefix cache covers all but the newest words.
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

_PROMPT_FILES = files("kame_model.serve.oracle") / "prompt_files"


class Instructions(NamedTuple):
    """Instructions that a caller wrote; they are never taken for the name of a prompt, even if they are one word."""

    text: str


class ServePromptExample(Config):
    """One worked example, the same in every request."""

    history: list[str] = Field(default_factory=list, description="What was said before, one line per turn.")
    heard: str = Field(description="The user's turn so far.")
    is_finished: bool = Field(default=False, description="Whether it has ended.")
    reply: str


class Prompt(Config):
    """A prompt file."""

    version: str
    instructions: str = Field(description="Who the assistant is; a caller's own instructions replace it.")
    system: str = Field(description="The request and the form of the answer; always sent, after the instructions.")
    unfinished: str = Field(description="Template of an unfinished turn, with {history} and {heard}.")
    finished: str = Field(description="Template of a finished turn, with {history} and {heard}.")
    examples: list[ServePromptExample] = Field(default_factory=list)
    stop: list[str] = Field(default_factory=list)

    def make_messages(self, history: Sequence[str], heard: str, *, is_finished: bool) -> list[Message]:
        """Builds the messages of one request.

        Args:
            history: what was said before, one `format_history_line` per turn.
            heard: the user's turn so far.
            is_finished: whether it has ended.
        """
        system = f"{self.instructions.strip()} {self.system.strip()}"
        examples = ((self._fill(each.history, each.heard, each.is_finished), each.reply) for each in self.examples)
        return to_messages(system, examples, self._fill(history, heard, is_finished))

    def with_instructions(self, text: str) -> "Prompt":
        """Returns a copy of the prompt with other instructions; the form of the answer stays."""
        return self.model_copy(update={"instructions": text})

    def _fill(self, history: Sequence[str], heard: str, is_finished: bool) -> str:
        """Returns the text of a request: the template of a finished or unfinished turn, filled."""
        return fill_request(self.finished if is_finished else self.unfinished, history, heard)


def list_prompts() -> list[str]:
    """Returns the names of the prompts that come with the program."""
    return list_names(_PROMPT_FILES)


def load_prompt(name: str) -> Prompt:
    """Loads one of our prompts by name, or a YAML file by path. For the operator; callers get `choose_prompt`.

    Raises:
        ConfigError: there is no such file, or it is not a prompt.
    """
    return load_named(name, _PROMPT_FILES, Prompt, "prompt")


def choose_prompt(wish: str | Instructions, base: Prompt) -> Prompt:
    """Returns the prompt that a caller requested: the default, one of our prompts, or the caller's own instructions.

    Args:
        wish: empty: `base`; one word that is not marked as instructions: the name of one of our prompts, never a path;
            a text: replaces the instructions of `base`, and the form of the answer stays.
        base: the prompt of the back-end.

    Raises:
        ConfigError: there is no prompt of that name.
    """
    text = get_prompt_text(wish).strip()
    if not text:
        return base
    if isinstance(wish, Instructions) or len(text.split()) > 1:
        return base.with_instructions(text)
    prompts = _load_all_prompts()
    if text not in prompts:
        raise ConfigError(f"There is no prompt {text[:80]!r}.", f"Choose one of: {', '.join(prompts)}.")
    return prompts[text]


def get_prompt_text(wish: str | Instructions) -> str:
    """Returns the text of a requested prompt: a name, or instructions."""
    return wish.text if isinstance(wish, Instructions) else wish


@cache
def _load_all_prompts() -> dict[str, Prompt]:
    """Loads our prompts by name, once: callers' wishes are looked up between two frames."""
    return {name: load_prompt(name) for name in list_prompts()}
