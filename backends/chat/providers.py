"""Chat providers: base URL, API key, differences from OpenAI's protocol and prices; read from `providers.yaml`."""

import os
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import yaml
from pydantic import Field, ValidationError

from backends.chat.model_names import SNAPSHOT
from data_schemas import ids
from data_schemas.config import ChatConfig, Config, PriceConfig
from data_schemas.config.base import describe_faults
from data_schemas.config.chat import BaseUrl
from data_schemas.errors import ConfigError

DEFAULT_KEY_ENV = "KAME_LLM_API_KEY"


class ModelHabits(Config):
    """What some models of a provider require that differs from its other models."""

    models: list[str] = Field(min_length=1, description="Names, * for any characters; only a path's last part counts.")
    drops: list[str] = Field(default_factory=list, description="Further payload fields that they do not accept.")
    adds: dict[str, Any] = Field(default_factory=dict, description="Further fields that are sent to them.")
    thought_tokens: int = Field(
        default=0, ge=0, description="Added to max_tokens, because thoughts before the answer count towards it."
    )

    def applies_to(self, model: str) -> bool:
        """Returns whether these settings are for a model."""
        name = model.rpartition("/")[2].lower()
        return any(fnmatchcase(name, pattern.lower()) for pattern in self.models)


class Provider(Config):
    """How to reach a provider's endpoint, and how it differs from OpenAI's protocol; by default not at all."""

    name: str = Field(default="", description="Name in cache and provenance; empty: its file's name.")
    base_url: BaseUrl | None = Field(default=None, description="Base URL, unless chat.base_url is set.")
    path: str = Field(default="", description="Path after the base URL; {model}: the model's name.")
    query: dict[str, str] = Field(default_factory=dict, description="Query parameters of each request.")
    api_key_env: str = Field(default=DEFAULT_KEY_ENV, description="Environment variable that holds the key.")
    api_key_header: str = Field(
        default="", description="Header for the bare key; empty: Authorization with a bearer token."
    )
    needs_key: bool = Field(default=True, description="Whether a key is required.")
    lists_models: bool = Field(default=True, description="Whether it has a list of models.")
    renames: dict[str, str] = Field(default_factory=dict, description="Payload fields that it names differently.")
    drops: list[str] = Field(default_factory=list, description="Payload fields that it does not accept.")
    adds: dict[str, Any] = Field(default_factory=dict, description="Fields that are added to each payload.")
    by_model: list[ModelHabits] = Field(
        default_factory=list, description="Settings of some of its models; the first match counts."
    )
    drops_blank_stops: bool = Field(default=False, description="Whether it rejects stop texts of white space only.")
    max_temperature: float = Field(default=2.0, gt=0, description="Maximum temperature that it accepts.")
    batch_price_share: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="Price of an answer in a batch as a share of the usual price; empty: no batches.",
    )
    batch_max_requests: int = Field(default=50_000, ge=1, description="Maximum requests per batch.")
    batch_max_bytes: int = Field(default=200_000_000, ge=1, description="Maximum size of a batch's file, bytes.")
    prices_source: str = Field(default="", description="Web page with the prices.")
    prices: dict[str, PriceConfig] = Field(default_factory=dict, description="Prices by model.")

    def get_added_fields(self, model: str) -> dict[str, Any]:
        """Returns the fields that are added to each payload for a model."""
        return self.adds | self._find_habits(model).adds

    def make_body(self, payload: dict[str, Any], model: str, extra: dict[str, Any] | None = None) -> dict[str, Any]:
        """Makes the request body for a model from a payload: fields are renamed, dropped and added as it requires.

        `max_tokens` is raised by the model's thought tokens, and the temperature is limited to the provider's maximum.

        Args:
            payload: the provider-independent payload, by which the answer is cached.
            model: the model, whose name is added to the body.
            extra: the user's own fields (`chat.extra`), which are sent as they are and replace others of their names.
        """
        habits = self._find_habits(model)
        if "max_tokens" in payload:
            payload = {**payload, "max_tokens": payload["max_tokens"] + habits.thought_tokens}
        dropped = {*self.drops, *habits.drops}
        body = {"model": model, **self._adapt_fields(payload, dropped), **self.get_added_fields(model)}
        return body | (extra or {})

    def _find_habits(self, model: str) -> ModelHabits:
        """Returns the first settings of `by_model` that apply to a model; without any, settings that change nothing."""
        return next((each for each in self.by_model if each.applies_to(model)), _NO_HABITS)

    def _adapt_fields(self, payload: dict[str, Any], dropped: set[str]) -> dict[str, Any]:
        """Returns a copy of a payload without the fields in `dropped`, as this provider accepts it.

        Fields are renamed, blank stop texts removed if the provider rejects them, and the temperature is limited.
        """
        body = {self.renames.get(name, name): value for name, value in payload.items() if name not in dropped}
        if self.drops_blank_stops and "stop" in body:
            stops = [body["stop"]] if isinstance(body["stop"], str) else body["stop"]
            body["stop"] = [stop for stop in stops if stop.strip()]
            if not body["stop"]:
                del body["stop"]
        if "temperature" in body:
            body["temperature"] = min(body["temperature"], self.max_temperature)
        return body

    def find_price(self, model: str) -> PriceConfig | None:
        """Finds a model's price by its name with or without the date of a snapshot; None if it is unknown."""
        price = self.prices.get(model) or self.prices.get(SNAPSHOT.sub("", model))
        return price and price.model_copy(update={"source": price.source or self.prices_source})


_NO_HABITS = ModelHabits(models=["*"])
ANY = Provider(needs_key=False)
"""An endpoint of which only the base URL is known."""


def get_provider(config: ChatConfig) -> Provider:
    """Returns the provider that a configuration names: one of `providers.yaml` or a file.

    If it names none, it is `ANY` for the engine openai, else the one with the name of the engine, or `ANY`.

    Raises:
        ConfigError: no provider has that name, or the file is invalid.
    """
    known = _load_provided()
    if config.provider is None:
        return ANY if config.engine == "openai" else known.get(config.engine, ANY)
    if config.provider in known:
        return known[config.provider]
    path = Path(config.provider).expanduser()
    if not path.is_file():
        names = ", ".join(known)
        raise ConfigError(f"There is no provider {config.provider!r}.", f"Choose one of {names}, or give a YAML file.")
    return _read_provider(path)


def list_provider_hosts() -> list[str]:
    """Returns the hosts of the providers in `providers.yaml`, sorted."""
    urls = [each.base_url for each in _load_provided().values()]
    return sorted({str(urlsplit(url).hostname) for url in urls if url is not None})


def _read_provider(path: Path) -> Provider:
    """Reads a provider from a file, whose name it gets unless it has its own.

    Raises:
        ConfigError: the file cannot be read, or is invalid.
    """
    try:
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
        provider = Provider.model_validate(fields)
    except ValidationError as error:  # its values are not quoted: a key may be in the wrong place
        wrong = describe_faults(error, whole="all")
        raise ConfigError(
            f"The provider in {path} cannot be used: {wrong}.", "See backends/chat/providers.yaml."
        ) from None
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The provider in {path} cannot be read ({type(error).__name__}).", "See backends/chat/providers.yaml."
        ) from None
    return provider.model_copy(update={"name": provider.name or path.stem})


@lru_cache(maxsize=1)
def _load_provided() -> dict[str, Provider]:
    """Returns the providers of `providers.yaml` by name; they are read once."""
    text = (files("backends.chat") / "providers.yaml").read_text(encoding="utf-8")
    return {name: Provider.model_validate({"name": name, **fields}) for name, fields in yaml.safe_load(text).items()}


def get_price(config: ChatConfig, model: str) -> PriceConfig | None:
    """Returns the configured price, or else the provider's price of a model; None if it is unknown.

    The provider's price is reduced for batches if they are the configured transport.

    Raises:
        ConfigError: see `get_provider`.
    """
    if config.price is not None:
        return config.price
    provider = get_provider(config)
    price = provider.find_price(model)
    share = provider.batch_price_share
    if price is None or config.transport == "direct" or share is None:
        return price
    dollars = {name: value * share for name, value in price if name.endswith("_usd_per_mtok") and value is not None}
    return price.model_copy(update=dollars)


def get_base_urls(config: ChatConfig) -> list[str]:
    """Returns the base URLs of a configuration's servers, at least one, without the provider's path.

    Raises:
        ConfigError: neither the configuration nor its provider has one; or see `get_provider`.
    """
    default_url = get_provider(config).base_url
    found = config.base_urls or ([default_url.rstrip("/")] if default_url else [])
    if not found:
        whose = f"The provider {config.provider!r}" if config.provider else "The chat engine 'openai'"
        raise ConfigError(f"{whose} has no base URL.", "Set chat.base_url (it ends in /v1), or chat.provider.")
    return found


def get_base_url(config: ChatConfig) -> str:
    """Returns the first of `get_base_urls`, with the same errors."""
    return get_base_urls(config)[0]


def get_endpoint_name(config: ChatConfig) -> str:
    """Returns the endpoint's name for cache and provenance: the configured one, the provider's name, or the host.

    Raises:
        ConfigError: see `get_base_url`.
    """
    return config.endpoint or get_provider(config).name or str(urlsplit(get_base_url(config)).hostname)


def make_full_url(base_url: str, provider: Provider, model: str) -> str:
    """Makes the URL to which `/chat/completions` is appended: base URL and the provider's path for the model."""
    return base_url + provider.path.replace("{model}", quote(model, safe=""))


def make_model_digest(config: ChatConfig, model: str, model_digest: str) -> str:
    """Combines a model's digest with the fields that are added to its requests, as both determine the answers.

    Without such fields, the digest is returned unchanged.

    Raises:
        ConfigError: see `get_provider`.
    """
    added = get_provider(config).get_added_fields(model) | config.extra
    return ids.digest("asked with", model_digest, added) if added else model_digest


def get_key_env(config: ChatConfig) -> str:
    """Returns the name of the environment variable that holds the API key."""
    return config.api_key_env or get_provider(config).api_key_env


def read_api_key(config: ChatConfig) -> str:
    """Reads the API key from the environment; empty if there is none and the provider needs none.

    Raises:
        ConfigError: the provider needs one.
    """
    name = get_key_env(config)
    key = os.environ.get(name, "").strip()
    if not key and get_provider(config).needs_key:
        raise ConfigError(
            f"The provider {config.provider!r} needs a key.", f"Put it into the environment variable {name}."
        )
    return key
