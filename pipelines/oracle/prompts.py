"""Prompt sets: files of text with a version, turned into the messages of a request.

What all requests of a run share comes first (system, examples), then what a dialogue's requests share (history, the
question as far as it was heard), and what differs between levels last: so a server's prefix cache serves most of it.
"""

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError, model_validator

from data_schemas import ids
from data_schemas.config import Config
from data_schemas.errors import ConfigError
from pipelines.script.spoken import word_set

Message = dict[str, str]

_WORD = re.compile(r"[A-Za-z']+")
_COMMON = word_set(
    "answer that this these those then than there their they would could should have does will with from which what "
    "when where were been being into onto about because correct right total makes equals sum more each also "
    "only"
)
"""Words of more than three letters that tell nothing of an answer."""


class PromptExample(Config):
    """One worked example, the same for every level so that all requests share it."""

    level: int = Field(ge=0, le=4)
    heard: str
    hint: str = ""
    reply: str


class PromptSet(Config):
    """All texts of a prompt file.

    `request` takes {history} and {heard}; levels 1 to 4 may take {hint}, the true answer, or {keywords} of it.
    """

    version: str
    system: str
    request: str
    levels: list[str] = Field(min_length=5, max_length=5, description="Instructions of levels 0 to 4.")
    examples: list[PromptExample] = Field(default_factory=list)
    stop: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _level_0_knows_nothing(self) -> "PromptSet":
        shared = self.levels[0] + self.request + self.system
        if "{hint}" in shared or "{keywords}" in shared:
            raise ValueError("{hint} and {keywords} may stand in the texts of levels 1 to 4 only")
        return self

    @property
    def digest(self) -> str:
        """Stands for all of its text."""
        return ids.digest(self.model_dump())

    def messages(self, history: Sequence[str], heard: str, level: int, hint: str) -> list[Message]:
        """The messages of one request.

        Args:
            history: what was said before, a line a turn, `User: …` or `Assistant: …`.
            heard: the words of the unfinished turn so far.
            level: 0 to 4; at 0 the hint is not looked at.
            hint: the true answer, as it will be said.
        """
        messages = [{"role": "system", "content": self.system.strip()}]
        for example in self.examples:
            shown = self._request([], example.heard, example.level, example.hint)
            messages += [{"role": "user", "content": shown}, {"role": "assistant", "content": example.reply.strip()}]
        return [*messages, {"role": "user", "content": self._request(history, heard, level, hint)}]

    def _request(self, history: Sequence[str], heard: str, level: int, hint: str) -> str:
        said = "".join(f"{line}\n" for line in history)
        instruction = self.levels[level].strip()
        if level > 0:
            instruction = instruction.replace("{keywords}", ", ".join(keywords(hint, heard))).replace("{hint}", hint)
        return self.request.strip().replace("{history}", said).replace("{heard}", heard) + "\n" + instruction


def keywords(hint: str, heard: str) -> list[str]:
    """The first two telling words of the true answer that the user has not said; fewer where there are fewer."""
    said = {word.lower() for word in _WORD.findall(heard)}
    telling: dict[str, str] = {}
    for word in _WORD.findall(hint):
        if len(word) > 3 and word.lower() not in said | _COMMON:
            telling.setdefault(word.lower(), word)
    return list(telling.values())[:2]


def load_prompts(name: str) -> PromptSet:
    """A prompt set by the name of one of ours, or by the path of a YAML file.

    Raises:
        ConfigError: no such set, or it is not one.
    """
    ours = files("pipelines.oracle") / "prompt_sets"
    there = sorted(each.name.removesuffix(".yaml") for each in ours.iterdir() if each.name.endswith(".yaml"))
    if name not in there and not Path(name).is_file():
        raise ConfigError(f"There is no prompt set {name!r}.", f"Ours: {', '.join(there)}; or give a YAML file.")
    source = ours / f"{name}.yaml" if name in there else Path(name)
    try:
        raw: Any = yaml.safe_load(source.read_text(encoding="utf-8"))
        return PromptSet.model_validate(raw)
    except (yaml.YAMLError, ValidationError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The prompt set {name!r} cannot be used: {error}", "See pipelines/oracle/prompt_sets/."
        ) from error
