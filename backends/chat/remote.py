"""A chat model served elsewhere, by any provider of `providers.yaml` or whatever else speaks OpenAI's protocol."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from backends.chat.connection import open_sync
from backends.chat.faults import FaultTranslator, TryAgainError
from backends.chat.providers import base_url_of, full_url, key_env_of, provider_of, read_api_key
from backends.protocols import Endpoint
from data_schemas.config import ChatConfig
from data_schemas.errors import BackendError, ConfigError

CHECK_LIMIT_S = 10.0
"""Longest wait for the list of models, which a living server gives at once."""
N_MODELS_QUOTED = 20


class RemoteEngine:
    """The endpoint at `config.base_url` or its provider's, asked for `config.model`; starts and stops nothing.

    With no model in the configuration the server's only one is taken. Its digest is empty, because no server tells what
    its weights are: give an endpoint a new name (`config.endpoint`) when the model behind the same name changes.

    Raises:
        ConfigError: there is no base URL, or no such provider.
    """

    def __init__(self, config: ChatConfig) -> None:
        self._config = config
        self._base_url = base_url_of(config)
        self._provider = provider_of(config)
        self._model = config.model

    def describe(self) -> Endpoint:
        """The endpoint; asks the server only where the configuration names no model, and then once.

        Raises:
            ConfigError: no model is named and the server has none, or several to choose from.
            BackendError: no model is named and the server does not answer.
        """
        if self._model is None:
            self._model = _only_one(self._list_models(), self._base_url)
        return self._endpoint(self._model)

    def serve(self) -> AbstractContextManager[Endpoint]:
        """The endpoint, once it has answered. A server without a list of models (HTTP 404) counts as answering.

        Raises:
            BackendError: it does not answer or refuses our key.
            ConfigError: as `describe`.
        """
        return self._serve()

    @contextmanager
    def _serve(self) -> Iterator[Endpoint]:
        if self._model is not None:
            self._list_models()
        yield self.describe()

    def _endpoint(self, model: str) -> Endpoint:
        return Endpoint(
            self._config.endpoint or self._config.provider or "openai", self._base_url, model, model_digest=""
        )

    def _list_models(self) -> list[str]:
        import openai

        key = read_api_key(self._config)
        if not self._provider.lists_models:
            return []
        faults = FaultTranslator(self._endpoint(self._model or ""), key, key_env_of(self._config), CHECK_LIMIT_S)
        url = full_url(self._base_url, self._provider, "")
        try:
            with open_sync(url, key, CHECK_LIMIT_S, self._provider) as server:
                listed = json.loads(server.models.with_raw_response.list().text)
            return sorted(str(model["id"]) for model in listed["data"])
        except openai.NotFoundError:
            return []
        except openai.APIError as error:
            fault = faults.translate(error, "for the list of models")
        except (ValueError, LookupError, TypeError) as error:
            fault = TryAgainError(f"its list of models cannot be read ({type(error).__name__})")
        if isinstance(fault, BackendError):
            raise fault
        raise BackendError(
            f"The chat endpoint {faults.endpoint.name!r} at {self._base_url} is not answering as it should: {fault}.",
            "Check chat.base_url (it ends in /v1) and that the server runs, then run again.",
        )


def _only_one(models: list[str], base_url: str) -> str:
    if len(models) == 1:
        return models[0]
    known = ", ".join(models[:N_MODELS_QUOTED]) or "it lists none"
    raise ConfigError(f"No chat model is named, and {base_url} does not have exactly one.", f"Set chat.model: {known}.")
