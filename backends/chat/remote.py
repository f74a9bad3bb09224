"""A chat model served elsewhere, by any provider of `providers.yaml` or whatever else speaks OpenAI's protocol."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from backends.chat.connection import open_async, open_sync
from backends.chat.faults import NO_CONNECTION, FaultTranslator, TryAgainError
from backends.chat.limits import DELAYS, Delays, retry_options
from backends.chat.model_names import is_named
from backends.chat.protocol import Endpoint
from backends.chat.providers import (
    base_urls_of,
    digest_as_asked,
    endpoint_name_of,
    full_url,
    key_env_of,
    provider_of,
    read_api_key,
)
from backends.chat.servers import describe_status
from backends.fault_log import place_of
from data_schemas.config import ChatConfig
from data_schemas.errors import BackendError, ConfigError, RequestError

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")
CHECK_LIMIT_S = 10.0
"""Longest wait for the list of models, which a living server gives at once."""
N_MODELS_QUOTED = 20


class RemoteEngine:
    """The endpoint at `config.base_url` or its provider's, asked for `config.model`; starts and stops nothing.

    Of several servers those that do not answer are told in the log, and one has to; all that do must have the model.

    With no model in the configuration the server's only one is taken. Its digest stands for no more than what it is
    sent besides what is asked, because no server tells what its weights are: give an endpoint a new name
    (`config.endpoint`) when the model behind the same name changes.

    Args:
        delays: between tries; tests make them short.

    Raises:
        ConfigError: there is no base URL, or no such provider.
    """

    def __init__(self, config: ChatConfig, delays: Delays = DELAYS) -> None:
        self._config = config
        self._delays = delays
        self._base_urls = base_urls_of(config)
        self._provider = provider_of(config)
        self._model = config.model

    def describe(self) -> Endpoint:
        """The endpoint; asks the server only where the configuration names no model, and then once.

        Raises:
            ConfigError: no model is named and the server has none, or several to choose from.
            BackendError: no model is named and the server does not answer.
        """
        if self._model is None:
            self._model = _only_one(_all_of(self._list_models()), self._where)
        return self._endpoint(self._model)

    async def describe_once(self) -> Endpoint:
        """As `describe`, by one try that can be cancelled: for who has a user waiting.

        Raises:
            ConfigError, BackendError: as `describe`.
        """
        if self._model is None:
            key = read_api_key(self._config)
            try:
                listed = await self._list_models_now(key) if self._provider.lists_models else []
            except (TryAgainError, RequestError) as fault:
                raise self._as_backend_error(fault) from None
            self._model = _only_one(listed, self._where)
        return self._endpoint(self._model)

    @contextmanager
    def serve(self) -> Iterator[Endpoint]:
        """The endpoint, once it has answered and knows the model.

        A server that lists no models is asked one request of one token, which no budget counts.

        Raises:
            BackendError: it does not answer, refuses our key or does not know the model.
            ConfigError: the model is not on the server's list; or as `describe`.
        """
        endpoint = self.describe()
        by_url = self._list_models()
        for url, listed in by_url.items():
            if listed and not any(is_named(model, endpoint.model) for model in listed):
                where = f" at {url}" if len(self._base_urls) > 1 else ""
                raise ConfigError(
                    f"The chat endpoint {endpoint.name!r} has no model {endpoint.model!r}{where}.",
                    f"Set chat.model to one that it has: {_quoted(listed)}.",
                )
        if not any(by_url.values()):
            self._of_those_that_answer(lambda url: self._try_model(endpoint, url))
        yield endpoint

    def _endpoint(self, model: str) -> Endpoint:
        name, digest = endpoint_name_of(self._config), digest_as_asked(self._config, model, "")
        return Endpoint(name, self._base_urls[0], model, digest)

    @property
    def _where(self) -> str:
        """Where it is, for messages."""
        return ", ".join(self._base_urls)

    def _list_models(self) -> dict[str, list[str]]:
        """The names on the list of each server that answers, by its URL; none where it has no list.

        They are asked as often as any request, until one answers.
        """
        from tenacity import Retrying

        key = read_api_key(self._config)
        if not self._provider.lists_models:
            return {url: [] for url in self._base_urls}
        retrying = Retrying(**retry_options(self._config.max_attempts, self._delays))
        try:
            return retrying(self._of_those_that_answer, lambda url: self._list_models_once(key, url))
        except (TryAgainError, RequestError) as fault:
            raise self._as_backend_error(fault) from None

    def _of_those_that_answer(self, ask: Callable[[str], _Answer]) -> dict[str, _Answer]:
        """What each server answers, by its URL; those that do not are told in the log.

        Raises:
            TryAgainError, RequestError, BackendError: of the last one, where none answers.
        """
        answers: dict[str, _Answer] = {}
        faults: dict[str, TryAgainError | RequestError | BackendError] = {}
        for url in self._base_urls:
            try:
                answers[url] = ask(url)
            except (TryAgainError, RequestError, BackendError) as fault:
                faults[url] = fault
        if not answers:
            raise faults[self._base_urls[-1]]
        for url, told in faults.items():
            _log.warning("The chat server at %s is left out: %s.", place_of(url), describe_status(told.status))
        return answers

    def _list_models_once(self, key: str, url: str) -> list[str]:
        with self._reading_list(key), open_sync(self._list_url(url), key, CHECK_LIMIT_S, self._provider) as server:
            return _names_in(server.get("/models", cast_to=str))
        return []

    async def _list_models_now(self, key: str) -> list[str]:
        """The names on the list of the first server that answers."""
        faults: list[TryAgainError | RequestError] = []
        for url in self._base_urls:
            try:
                with self._reading_list(key):
                    async with open_async(self._list_url(url), key, CHECK_LIMIT_S, self._provider) as server:
                        return _names_in(await server.get("/models", cast_to=str))
                return []
            except (TryAgainError, RequestError) as fault:
                faults.append(fault)
        raise faults[-1]

    def _list_url(self, url: str) -> str:
        return full_url(url, self._provider, "")

    @contextmanager
    def _reading_list(self, key: str) -> Iterator[None]:
        """Turns what goes wrong into ours; a server that has no list is left without one."""
        import openai

        try:
            yield
        except openai.NotFoundError:
            return
        except openai.APIError as error:
            raise self._faults(key).translate(error, "for the list of models") from None  # its text may quote the key
        except (ValueError, LookupError, TypeError) as error:
            what = f"its list of models cannot be read ({type(error).__name__})"
            raise self._as_backend_error(TryAgainError(what)) from None

    def _try_model(self, endpoint: Endpoint, base_url: str) -> None:
        """Asks for one token. What may pass, or is about this request, is the run's own affair."""
        import openai

        key = read_api_key(self._config)
        ask = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
        body = self._provider.body(ask, endpoint.model, self._config.extra)
        url = full_url(base_url, self._provider, endpoint.model)
        try:
            with open_sync(url, key, self._config.timeout_s, self._provider) as server:
                server.post("/chat/completions", cast_to=str, body=body)
        except openai.APIError as error:
            fault = self._faults(key).translate(error, "for one token")
        else:
            return
        if isinstance(fault, BackendError):
            raise fault from None
        if isinstance(fault, TryAgainError) and fault.status == NO_CONNECTION:
            raise self._as_backend_error(fault) from None

    def _faults(self, key: str) -> FaultTranslator:
        wait_s = self._config.max_wait_s
        return FaultTranslator(self._endpoint(self._model or ""), key, key_env_of(self._config), wait_s)

    def _as_backend_error(self, fault: TryAgainError | RequestError) -> BackendError:
        name = endpoint_name_of(self._config)
        return BackendError(
            f"The chat endpoint {name!r} at {self._where} is not answering as it should: {fault}.",
            "Check chat.base_url (it ends in /v1) and that the server runs, then run again.",
            fault.status,
        )


def _all_of(listed: Mapping[str, list[str]]) -> list[str]:
    """The models on any list."""
    return sorted({model for models in listed.values() for model in models})


def _names_in(listed: str) -> list[str]:
    """The models on a list as the server sends it; raises ValueError, LookupError or TypeError where it is none."""
    return sorted(str(model["id"]) for model in json.loads(listed)["data"])


def _quoted(models: list[str]) -> str:
    more = len(models) - N_MODELS_QUOTED
    return ", ".join(models[:N_MODELS_QUOTED]) + (f" and {more} more" if more > 0 else "")


def _only_one(models: list[str], base_url: str) -> str:
    if len(models) == 1:
        return models[0]
    known = _quoted(models) or "it lists none"
    raise ConfigError(f"No chat model is named, and {base_url} does not have exactly one.", f"Set chat.model: {known}.")
