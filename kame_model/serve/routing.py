"""Which chat model is asked: by a classifier, by rules on the user's words, or else the session's own."""

import asyncio
import importlib
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from backends.protocols import LiveChat
from data_schemas.config.serving import BackendName, RouteConfig
from data_schemas.errors import BackendError, ConfigError
from kame_model.serve.prompts import Prompt

Classifier = Callable[[str], BackendName | None]
"""From the words of the user's turn so far to the back-end to ask; None: as the rules say."""

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class BackEnd:
    """A chat model that sessions may have behind them, with how it is asked.

    `chat` is shared by all sessions; `max_tokens` and `temperature` are those of one answer.
    """

    name: BackendName
    chat: LiveChat
    prompt: Prompt
    max_tokens: int = 64
    temperature: float = 0.0


class Router:
    """Chooses among named back-ends; shared by all sessions, for it keeps nothing.

    Args:
        back_ends: the names there are.
        routes: rules; the first that fits decides.
        classifier: asked before the rules, in a thread, so that a slow one holds nobody up.
    """

    def __init__(
        self,
        back_ends: Collection[BackendName],
        routes: Sequence[RouteConfig] = (),
        classifier: Classifier | None = None,
    ) -> None:
        self._names = frozenset(back_ends)
        self._rules = [(tuple(_spaced(words) for words in route.words), route.back_end) for route in routes]
        self._classifier = classifier

    async def choose(self, text: str, own: BackendName) -> BackendName:
        """The back-end for what the user says so far; `own` where nothing else fits.

        Raises:
            BackendError: the classifier failed, or named a back-end that there is not.
        """
        chosen = await self._classified(text)
        if chosen is not None:
            return chosen
        said = _spaced(text)
        for phrases, back_end in self._rules:
            if any(phrase in said for phrase in phrases):
                return back_end
        return own

    async def _classified(self, text: str) -> BackendName | None:
        if self._classifier is None:
            return None
        try:
            name = await asyncio.to_thread(self._classifier, text)
        except Exception as error:  # it is the operator's own code
            raise BackendError(f"The classifier of back-ends failed: {type(error).__name__}: {error}") from error
        if name is not None and name not in self._names:
            raise BackendError(f"The classifier of back-ends named {name!r}, which there is not.")
        return name


def load_classifier(place: str) -> Classifier:
    """The function at `module:function`.

    Raises:
        ConfigError: there is none.
    """
    module, _, name = place.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"There is no classifier {place!r} ({error}).", "Write module:function.") from error
    if not callable(found):
        raise ConfigError(f"The classifier {place!r} is no function.", "Write module:function.")
    classifier: Classifier = found
    return classifier


def _spaced(text: str) -> str:
    """The words of a text in small letters without punctuation, with a space before and after each."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "
