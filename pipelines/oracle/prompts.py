"""Prompt sets: files of text with a version, turned into the messages of a request.

What all requests of a run share comes first (system, examples), then what a dialogue's requests share (history, the
turn as far as it was heard), and what differs between levels last: so a server's prefix cache serves most of it.
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

_OURS = files("pipelines.oracle") / "prompt_sets"

FOR_SMALL_MODELS, FOR_OTHER_MODELS = "v2", "whole"
SMALL_ENGINES = frozenset({"llamacpp", "double"})
"""Engines whose models are taken to be small where no prompt set is named: that of a GGUF file, and the tests'."""

ASK_AGAIN_TEMPERATURE = 0.7
"""Least sampling temperature of a second ask: at 0 the same model would say the same again."""


class PromptExample(Config):
    """One worked example, the same for every level so that all requests share it."""

    level: int = Field(ge=0, le=4)
    history: list[str] = Field(default_factory=list, description="What was said before, a line a turn.")
    heard: str
    hint: str = ""
    reply: str


class PromptTexts(Config):
    """The texts that predict one speaker's next words.

    `request` takes {history} and {heard}; levels 1 to 4 take the true answer as one of `HINT_FIELDS`.
    """

    system: str
    request: str
    levels: list[str] = Field(min_length=5, max_length=5, description="Instructions of levels 0 to 4.")
    examples: list[PromptExample] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_level_0(self) -> Self:
        shared = self.levels[0] + self.request + self.system
        if any(f"{{{name}}}" in shared for name in HINT_FIELDS):
            raise ValueError("{hint} and what is made of it may stand in the texts of levels 1 to 4 only")
        return self

    def make_messages(self, history: Sequence[str], heard: str, level: int, hint: str) -> list[Message]:
        """The messages of one request.

        Args:
            history: what was said before, a `format_history_line` a turn.
            heard: the words of the unfinished turn so far.
            level: 0 to 4; at 0 the hint is not looked at.
            hint: what the other speaker will say.
        """
        examples = (
            (self._fill_request(each.history, each.heard, each.level, each.hint), each.reply) for each in self.examples
        )
        return to_messages(self.system, examples, self._fill_request(history, heard, level, hint))

    def list_own_words(self, level: int) -> str:
        """All that a request of a level says besides the conversation and the hint: an oracle must not quote it."""
        return " ".join([self.system, self.levels[level], *(example.reply for example in self.examples)])

    def _fill_request(self, history: Sequence[str], heard: str, level: int, hint: str) -> str:
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
        """Stands for all of its text."""
        return ids.digest(self.model_dump())

    def get_texts(self, speaker: str) -> PromptTexts:
        """The texts that predict a speaker's words.

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
    """The chat-completions payload of a request, without `model`: a pure function, so that a check can make it again.

    Args:
        asked: the settings, from the configuration or from the row that was made by it.
        seed: the run's.
        attempt: 0 for the first ask; later ones sample, by seeds of their own.
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
    """Names of the prompt sets that come with the program."""
    return list_names(_OURS)


@lru_cache(maxsize=8)
def find_prompt_set(digest: str) -> PromptSet | None:
    """The one of our prompt sets with this digest; None where there is none."""
    return next((each for name in list_prompt_sets() if (each := load_prompts(name)).digest == digest), None)


def load_prompts(name: str) -> PromptSet:
    """A prompt set by the name of one of ours, or by the path of a YAML file.

    Raises:
        ConfigError: no such set, or it is not one.
    """
    return load_named(name, _OURS, PromptSet, "prompt set")


def choose_prompts(oracle: OracleConfig, chat: ChatConfig) -> PromptSet:
    """The prompt set of a run: the one that is named, else `v2` for a local GGUF model and `whole` for all others.

    Which one it was stands in every row (`prompt_version`, `prompt_digest`).

    Raises:
        ConfigError: the named one cannot be used.
    """
    return load_prompts(oracle.prompt or (FOR_SMALL_MODELS if chat.engine in SMALL_ENGINES else FOR_OTHER_MODELS))
