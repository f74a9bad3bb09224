"""Chat engine for a remote server: any provider of `providers.yaml`, or any other server with OpenAI's protocol."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from backends.chat.connection import open_async, open_sync
from backends.chat.faults import NO_CONNECTION, FaultTranslator, TryAgainError
from backends.chat.limits import DELAYS, Delays, make_retry_options
from backends.chat.model_names import is_named
from backends.chat.protocol import Endpoint
from backends.chat.providers import (
    get_base_urls,
    get_endpoint_name,
    get_key_env,
    get_provider,
    make_full_url,
    make_model_digest,
    read_api_key,
)
from backends.chat.servers import describe_status
from backends.fault_log import extract_host
from data_schemas.config import ChatConfig
from data_schemas.errors import BackendError, ConfigError, RequestError

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")
CHECK_LIMIT_S = 10.0
"""Timeout for the list of models, which a healthy server returns at once."""
N_MODELS_QUOTED = 20


class RemoteEngine:
    """The endpoint at `config.base_url` or at its provider's URL, for `config.model`; starts and stops nothing.

    Of several servers at least one must answer; those that do not are logged. All that answer must have the model.

    If the configuration names no model, the server's only one is used. The digest covers only the added request fields,
    because no server reports what its weights are: give an endpoint a new name (`config.endpoint`) if the model behind
    the same name changes.

    Args:
        delays: waits between attempts; tests make them short.

    Raises:
        ConfigError: there is no base URL, or no such provider.
    """

    def __init__(self, config: ChatConfig, delays: Delays = DELAYS) -> None:
        self._config = config
        self._delays = delays
        self._base_urls = get_base_urls(config)
        self._provider = get_provider(config)
        self._model = config.model

    def describe(self) -> Endpoint:
        """Returns the endpoint, at the first base URL.

        If the configuration names no model, the first call asks all servers for their models, with retries.

        Raises:
            ConfigError: no model is named, and the servers have none or several to choose from, or need an API key.
            BackendError: no model is named, and no server answers or accepts our key.
        """
        if self._model is None:
            self._model = _choose_only(_merge_models(self._list_models()), self._where)
        return self._make_endpoint(self._model)

    async def describe_once(self) -> Endpoint:
        """Like `describe`, but without retries and cancellable, for callers with a waiting user.

        Only the models of the first server that answers count.

        Raises:
            ConfigError, BackendError: as `describe`.
        """
        if self._model is None:
            key = read_api_key(self._config)
            try:
                listed = await self._list_models_now(key) if self._provider.lists_models else []
            except (TryAgainError, RequestError) as fault:
                raise self._make_error(fault) from None
            self._model = _choose_only(listed, self._where)
        return self._make_endpoint(self._model)

    @contextmanager
    def serve(self) -> Iterator[Endpoint]:
        """Yields the endpoint once it has answered and has the model.

        If no server lists models, each gets a request for one token, which no budget counts.

        Raises:
            BackendError: it does not answer, rejects our key or does not know the model.
            ConfigError: the model is not in the server's list; or as `describe`.
        """
        endpoint = self.describe()
        by_url = self._list_models()
        for url, listed in by_url.items():
            if listed and not any(is_named(model, endpoint.model) for model in listed):
                where = f" at {url}" if len(self._base_urls) > 1 else ""
                raise ConfigError(
                    f"The chat endpoint {endpoint.name!r} has no model {endpoint.model!r}{where}.",
                    f"Set chat.model to one that it has: {_quote(listed)}.",
                )
        if not any(by_url.values()):
            self._ask_all(lambda url: self._try_model(endpoint, url))
        yield endpoint

    def _make_endpoint(self, model: str) -> Endpoint:
        """Returns the endpoint of a model at the first base URL."""
        name, digest = get_endpoint_name(self._config), make_model_digest(self._config, model, "")
        return Endpoint(name, self._base_urls[0], model, digest)

    @property
    def _where(self) -> str:
        """The endpoint's URLs, for messages."""
        return ", ".join(self._base_urls)

    def _list_models(self) -> dict[str, list[str]]:
        """Returns the listed models of each server that answers, by URL; an empty list if a server has none.

        Retries as often as for any request, until one answers. If the provider has no list, it sends no request.

        Raises:
            BackendError: none answers and accepts our key.
            ConfigError: the provider needs a key.
        """
        from tenacity import Retrying

        key = read_api_key(self._config)
        if not self._provider.lists_models:
            return {url: [] for url in self._base_urls}
        retrying = Retrying(**make_retry_options(self._config.max_attempts, self._delays))
        try:
            return retrying(self._ask_all, lambda url: self._list_models_once(key, url))
        except (TryAgainError, RequestError) as fault:
            raise self._make_error(fault) from None

    def _ask_all(self, ask: Callable[[str], _Answer]) -> dict[str, _Answer]:
        """Returns each server's answer by URL; logs the servers that do not answer.

        Raises:
            TryAgainError, RequestError, BackendError: of the last server, if none answers.
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
        for url, each in faults.items():
            _log.warning("The chat server at %s is not used: %s.", extract_host(url), describe_status(each.status))
        return answers

    def _list_models_once(self, key: str, url: str) -> list[str]:
        """Returns the models that one server lists; empty if it has no list."""
        with (
            self._translate_list_errors(key),
            open_sync(self._make_list_url(url), key, CHECK_LIMIT_S, self._provider) as server,
        ):
            return _parse_models(server.get("/models", cast_to=str))
        return []

    async def _list_models_now(self, key: str) -> list[str]:
        """Returns the listed models of the first server that answers; empty if it has no list.

        Raises:
            TryAgainError, RequestError: of the last server, if none answers.
            BackendError: a server rejects our key, or its list cannot be read.
        """
        faults: list[TryAgainError | RequestError] = []
        for url in self._base_urls:
            try:
                with self._translate_list_errors(key):
                    async with open_async(self._make_list_url(url), key, CHECK_LIMIT_S, self._provider) as server:
                        return _parse_models(await server.get("/models", cast_to=str))
                return []
            except (TryAgainError, RequestError) as fault:
                faults.append(fault)
        raise faults[-1]

    def _make_list_url(self, url: str) -> str:
        """Returns the URL to which `/models` is appended."""
        return make_full_url(url, self._provider, "")

    @contextmanager
    def _translate_list_errors(self, key: str) -> Iterator[None]:
        """Translates openai's errors in the block to KAME's; ignores HTTP 404, as a server may have no list."""
        import openai

        try:
            yield
        except openai.NotFoundError:
            return
        except openai.APIError as error:
            raise self._make_translator(key).translate(
                error, "for the list of models"
            ) from None  # its text may quote the key
        except (ValueError, LookupError, TypeError) as error:
            what = f"its list of models cannot be read ({type(error).__name__})"
            raise self._make_error(TryAgainError(what)) from None

    def _try_model(self, endpoint: Endpoint, base_url: str) -> None:
        """Requests one token. Temporary errors and errors about this request are ignored: the run will handle them.

        Raises:
            BackendError: there is no connection, or the endpoint rejects our key or model.
        """
        import openai

        key = read_api_key(self._config)
        ask = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
        body = self._provider.make_body(ask, endpoint.model, self._config.extra)
        url = make_full_url(base_url, self._provider, endpoint.model)
        try:
            with open_sync(url, key, self._config.timeout_s, self._provider) as server:
                server.post("/chat/completions", cast_to=str, body=body)
        except openai.APIError as error:
            fault = self._make_translator(key).translate(error, "for one token")
        else:
            return
        if isinstance(fault, BackendError):
            raise fault from None
        if isinstance(fault, TryAgainError) and fault.status == NO_CONNECTION:
            raise self._make_error(fault) from None

    def _make_translator(self, key: str) -> FaultTranslator:
        wait_s = self._config.max_wait_s
        return FaultTranslator(self._make_endpoint(self._model or ""), key, get_key_env(self._config), wait_s)

    def _make_error(self, fault: TryAgainError | RequestError) -> BackendError:
        """Makes the error of an endpoint that answers nothing, or nothing that can be used."""
        name = get_endpoint_name(self._config)
        return BackendError(
            f"The chat endpoint {name!r} at {self._where} is not answering as it should: {fault}.",
            "Check chat.base_url (it ends in /v1) and that the server runs, then run again.",
            fault.status,
        )


def _merge_models(listed: Mapping[str, list[str]]) -> list[str]:
    """Returns the models in any of the lists."""
    return sorted({model for models in listed.values() for model in models})


def _parse_models(listed: str) -> list[str]:
    """Parses a server's model list; raises ValueError, LookupError or TypeError if it is invalid."""
    return sorted(str(model["id"]) for model in json.loads(listed)["data"])


def _quote(models: list[str]) -> str:
    """Joins names of models for a message: at most `N_MODELS_QUOTED`, and how many more there are."""
    more = len(models) - N_MODELS_QUOTED
    return ", ".join(models[:N_MODELS_QUOTED]) + (f" and {more} more" if more > 0 else "")


def _choose_only(models: list[str], base_url: str) -> str:
    """Returns the only model; raises ConfigError if there is none, or there are several."""
    if len(models) == 1:
        return models[0]
    known = _quote(models) or "it lists none"
    raise ConfigError(f"No chat model is named, and {base_url} does not have exactly one.", f"Set chat.model: {known}.")
