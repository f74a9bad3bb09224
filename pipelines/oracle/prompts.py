"""Prompt sets: versioned text files from which the messages of a request are made.

What all requests of a run share comes first (system, examples), then what a dialogue's requests share (history, the
turn as far as it was heard), and what differs between levels last, so that a server's prefix cache covers most of it.
"""

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, Self

from pydantic import Field, model_validator

from data_schemas import ids
from data_schemas.config import ChatConfig, Config, OracleConfig
from data_schemas.errors import ConfigError
from data_schemas.named_yaml import list_names, load_named
from data_schemas.records import OracleRow
from pipelines.oracle.hints import HINT_FIELDS, make_hint_fields
from pipelines.oracle.plan import PlannedRequest
from spoken.conversation import Message, fill_request, to_messages

Payload = dict[str, Any]

_PROMPT_SETS = files("pipelines.oracle") / "prompt_sets"

FOR_SMALL_MODELS, FOR_OTHER_MODELS = "v2", "whole"
SMALL_ENGINES = frozenset({"llamacpp", "double"})
"""Engines with small models by default, if no prompt set is named: that of a GGUF file, and that of the tests."""

ASK_AGAIN_TEMPERATURE = 0.7
"""Minimum sampling temperature of a repeated request: at 0 the same model would give the same answer."""


class PromptExample(Config):
    """One worked example, the same for every level so that all requests share it."""

    level: int = Field(ge=0, le=4)
    history: list[str] = Field(default_factory=list, description="What was said before, a line a turn.")
    heard: str
    hint: str = ""
    reply: str


class PromptTexts(Config):
    """The texts that predict one speaker's next words.

    `request` contains {history} and {heard}; levels 1 to 4 may contain the true answer as one of `HINT_FIELDS`.
    """

    system: str
    request: str
    levels: list[str] = Field(min_length=5, max_length=5, description="Instructions of levels 0 to 4.")
    examples: list[PromptExample] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_level_0(self) -> Self:
        """Checks that no text that level 0 uses contains one of `HINT_FIELDS`."""
        shared = self.levels[0] + self.request + self.system
        if any(f"{{{name}}}" in shared for name in HINT_FIELDS):
            raise ValueError("{hint} and what is made of it may stand in the texts of levels 1 to 4 only")
        return self

    def make_messages(self, history: Sequence[str], heard: str, level: int, hint: str) -> list[Message]:
        """Makes the messages of one request.

        Args:
            history: what was said before, one `format_history_line` per turn.
            heard: the words of the unfinished turn so far.
            level: 0 to 4; at 0 the hint is not used.
            hint: what the other speaker will say.
        """
        examples = (
            (self._fill_request(each.history, each.heard, each.level, each.hint), each.reply) for each in self.examples
        )
        return to_messages(self.system, examples, self._fill_request(history, heard, level, hint))

    def get_instruction_text(self, level: int) -> str:
        """Returns what an oracle must not quote: system text, the instruction of a level, and the examples' replies."""
        return " ".join([self.system, self.levels[level], *(example.reply for example in self.examples)])

    def _fill_request(self, history: Sequence[str], heard: str, level: int, hint: str) -> str:
        """Returns the user's message of a request: history, words heard, and the level's instruction with the hint."""
        instruction = self.levels[level].strip()
        if level > 0:
            for name, value in make_hint_fields(hint, heard).items():
                instruction = instruction.replace(f"{{{name}}}", value)
        return f"{fill_request(self.request, history, heard)}\n{instruction}"


class PromptSet(PromptTexts):
    """A prompt file. Its own texts predict the assistant's next words, those of `of_user` the user's."""

    version: str
    of_user: PromptTexts | None = Field(default=None, description="Needed for oracles in both directions.")
    stop: list[str] = Field(default_factory=list)

    @property
    def digest(self) -> str:
        """The digest of all its text."""
        return ids.digest(self.model_dump())

    def get_texts(self, speaker: str) -> PromptTexts:
        """Returns the texts that predict a speaker's words.

        Raises:
            ConfigError: the set has none for the user's.
        """
        texts = self if speaker == "A" else self.of_user
        if texts is None:
            raise ConfigError(
                f"The prompt set {self.version!r} has no texts for the user's words.",
                "Add `of_user` to it, or leave oracle.both_directions off.",
            )
        return texts


def make_payload(
    prompts: PromptSet, request: PlannedRequest, asked: OracleRow | OracleConfig, seed: int, attempt: int
) -> Payload:
    """Makes the chat-completions payload of a request, without `model`.

    It depends on the arguments alone, so that `kame check` can make it again.

    Args:
        asked: the settings, from the configuration or from a row.
        seed: the run's seed.
        attempt: 0 for the first request; later ones sample, with seeds of their own.
    """
    temperature = asked.temperature if attempt == 0 else max(asked.temperature, ASK_AGAIN_TEMPERATURE)
    texts = prompts.get_texts(request.speaker)
    payload: Payload = {
        "messages": texts.make_messages(request.history, request.heard, request.level, request.hint),
        "max_tokens": asked.max_tokens,
        "temperature": temperature,
        "seed": ids.derive_seed(seed, attempt) % 2**31,
    }
    return payload | ({"stop": prompts.stop} if prompts.stop else {})


def list_prompt_sets() -> list[str]:
    """Returns the names of the built-in prompt sets."""
    return list_names(_PROMPT_SETS)


@lru_cache(maxsize=8)
def find_prompt_set(digest: str) -> PromptSet | None:
    """Returns the built-in prompt set with this digest; None if there is none."""
    return next((each for name in list_prompt_sets() if (each := load_prompts(name)).digest == digest), None)


def load_prompts(name: str) -> PromptSet:
    """Loads the prompt set with the name of a built-in one, or from the YAML file at this path.

    Raises:
        ConfigError: it does not exist, or is not a prompt set.
    """
    return load_named(name, _PROMPT_SETS, PromptSet, "prompt set")


def choose_prompts(oracle: OracleConfig, chat: ChatConfig) -> PromptSet:
    """Returns the prompt set of a run: the configured one, else `v2` for a local GGUF model and `whole` for all others.

    Every row records which one it was (`prompt_version`, `prompt_digest`).

    Raises:
        ConfigError: the configured one is not usable.
    """
    return load_prompts(oracle.prompt or (FOR_SMALL_MODELS if chat.engine in SMALL_ENGINES else FOR_OTHER_MODELS))
