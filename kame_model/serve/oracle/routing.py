"""Routing: a classifier, rules on the user's words, or else the session's choice select the chat model of a request."""

import asyncio
import pkgutil
import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from backends.chat.protocol import LiveChat
from data_schemas.config.serving import BackendName, RouteConfig
from data_schemas.errors import BackendError, ConfigError
from kame_model.serve.oracle.prompts import Instructions, Prompt, choose_prompt

Classifier = Callable[[str], BackendName | None]
"""Maps the words of the user's turn so far to a back-end; None: the rules decide."""

N_CLASSIFYING = 32
"""Maximum number of concurrent calls of the classifier, including those that have timed out."""

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class BackEnd:
    """A chat model that sessions may use, with the parameters of its requests.

    `chat` is shared by all sessions and is at `place`, for the log. `max_tokens` and `temperature` are those of one
    request; an answer with nothing but thoughts after `max_thought_s` is cancelled. Fields that start with `answer_`
    are for answers that are read out (mode cascade); without a prompt for them `prompt` is used. `models` are the
    models, by name, that a session may choose instead of `chat`.
    """

    name: BackendName
    chat: LiveChat
    prompt: Prompt
    max_tokens: int = 64
    temperature: float = 0.0
    answer_prompt: Prompt | None = None
    answer_max_tokens: int = 256
    place: str = ""
    models: Mapping[str, LiveChat] = field(default_factory=dict)
    max_thought_s: float = 10.0

    def with_answer_prompt(self) -> "BackEnd":
        """Returns a copy with the parameters for an answer that is read out."""
        return replace(self, prompt=self.answer_prompt or self.prompt, max_tokens=self.answer_max_tokens)


class Router:
    """Chooses among named back-ends. It is shared by all sessions and keeps none of their state.

    Args:
        back_ends: the names of the back-ends.
        routes: rules; the first that matches decides.
        classifier: called before the rules, in a thread, so that one that hangs blocks neither sessions nor shutdown.
    """

    def __init__(
        self,
        back_ends: Collection[BackendName],
        routes: Sequence[RouteConfig] = (),
        classifier: Classifier | None = None,
    ) -> None:
        self._names = frozenset(back_ends)
        self._rules = [(tuple(_normalise_words(words) for words in route.words), route.back_end) for route in routes]
        self._classifier = classifier
        self._places = threading.BoundedSemaphore(N_CLASSIFYING)

    async def choose(self, text: str, own: BackendName) -> BackendName:
        """Returns the back-end for what the user has said so far, or `own` if nothing else matches.

        A call of the classifier that hangs is waited for without a timeout.

        Raises:
            BackendError: the classifier failed or named an unknown back-end, or too many of its calls hang.
        """
        chosen = await self._classify(text)
        if chosen is not None:
            return chosen
        said = _normalise_words(text)
        for phrases, back_end in self._rules:
            if any(phrase in said for phrase in phrases):
                return back_end
        return own

    async def _classify(self, text: str) -> BackendName | None:
        """Returns the classifier's choice, or None if there is no classifier or it makes none.

        Raises:
            BackendError: it failed or named an unknown back-end, or too many of its calls hang.
        """
        if self._classifier is None:
            return None
        call = self._begin_call(self._classifier, text)
        try:
            name = await asyncio.wrap_future(call)
        except Exception as error:  # raised by the operator's code
            kind = type(error).__name__
            raise BackendError(
                f"The classifier of back-ends failed: {kind}: {error}", status=f"its classifier raises {kind}"
            ) from error
        if name is not None and name not in self._names:
            raise BackendError(f"The classifier of back-ends named {name!r}, which does not exist.")
        return name

    def _begin_call(self, classifier: Classifier, text: str) -> Future[BackendName | None]:
        """Starts a call of the classifier in a thread, and returns its future result.

        It is a daemon thread, because the program would wait at its end for a pool's threads.

        Raises:
            BackendError: too many calls have not returned.
        """
        if not self._places.acquire(blocking=False):
            raise BackendError(f"{N_CLASSIFYING} classifier calls have not returned.", "Check the classifier.", "hangs")
        answer: Future[BackendName | None] = Future()
        answer.set_running_or_notify_cancel()  # it can no longer be cancelled, only ignored
        answer.add_done_callback(lambda _: self._places.release())

        def call() -> None:
            try:
                name = classifier(text)
            except BaseException as error:  # noqa: BLE001  the waiting caller raises it
                answer.set_exception(error)
            else:
                answer.set_result(name)

        threading.Thread(target=call, name="classifier", daemon=True).start()
        return answer


class Choice:
    """One session's choice of a chat model and a prompt.

    Args:
        back_ends: all back-ends by name; shared.
        router: chooses among them; shared.

    Attributes:
        model: the chosen model of the session's back-end; empty: its default.
    """

    def __init__(self, back_ends: Mapping[BackendName, BackEnd], router: Router) -> None:
        self.model = ""
        self._back_ends, self._router = back_ends, router
        self._own = next(iter(back_ends.values()))  # the default is the first
        self._wish: str | Instructions = ""

    @property
    def own(self) -> BackendName:
        """The session's back-end, which is used if neither the classifier nor a rule chooses another one."""
        return self._own.name

    def use(
        self,
        back_end: BackendName | None = None,
        prompt: str | Instructions | None = None,
        model: str | None = None,
    ) -> bool:
        """Switches to another back-end, prompt or model; returns whether that is a change.

        Args:
            back_end: its name; None: unchanged.
            model: one of the back-end's models; empty: its default; None: unchanged, or another back-end's default.
            prompt: see `prompts.choose_prompt`; empty: the back-end's own; None: unchanged.

        Raises:
            ConfigError: there is none of that name; nothing has changed.
        """
        own = self._own if back_end is None else self._find_back_end(back_end)
        if model is None:
            model = self.model if own is self._own else ""
        if model and model not in own.models:
            raise ConfigError(
                f"Back-end {own.name!r} has no model {model!r}.", f"Choose one of: {', '.join(own.models)}."
            )
        wish = self._wish if prompt is None else prompt
        choose_prompt(wish, own.prompt)
        is_change = (own.name, model, wish) != (self._own.name, self.model, self._wish)
        self._own, self.model, self._wish = own, model, wish
        return is_change

    async def choose_back_end(self, text: str, *, is_answer: bool = False) -> BackEnd:
        """Returns the chat model for what the user has said so far, with the session's prompt.

        Args:
            is_answer: whether its text is read out as it is; otherwise it becomes an oracle of the front-end.

        Raises:
            BackendError: the classifier failed or named an unknown back-end, or too many of its calls hang.
        """
        chosen = self._back_ends[await self._router.choose(text, self._own.name)]
        if self.model and chosen is self._own:
            chosen = replace(chosen, chat=chosen.models[self.model])
        asked = chosen.with_answer_prompt() if is_answer else chosen
        return replace(asked, prompt=choose_prompt(self._wish, asked.prompt))

    def _find_back_end(self, name: BackendName) -> BackEnd:
        """Returns a back-end by its name; raises a ConfigError if there is none."""
        if name not in self._back_ends:
            raise ConfigError(f"There is no back-end {name!r}.", f"Choose one of: {', '.join(self._back_ends)}.")
        return self._back_ends[name]


def load_classifier(place: str) -> Classifier:
    """Imports the module of `module:function` and returns the function.

    Raises:
        ConfigError: there is none, or `place` has another form.
    """
    try:
        classifier: Classifier = pkgutil.resolve_name(place)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"There is no classifier {place!r} ({error}).", "Write module:function.") from error
    if ":" not in place or not callable(classifier):
        raise ConfigError(f"The classifier {place!r} is not a function.", "Write module:function.")
    return classifier


def _normalise_words(text: str) -> str:
    """Returns the words of a text in lower case without punctuation, with a space before and after each."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "
