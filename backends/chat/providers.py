"""Whose endpoint it is: base URL, key, habits and prices, read from `providers.yaml` or a file of the same form."""

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
from data_schemas.config.chat import BaseUrl
from data_schemas.errors import ConfigError

DEFAULT_KEY_ENV = "KAME_LLM_API_KEY"


class ModelHabits(Config):
    """What some models of a provider want otherwise than its others."""

    models: list[str] = Field(min_length=1, description="Names, * for any characters; of a path its last part counts.")
    drops: list[str] = Field(default_factory=list, description="Fields that they do not take either.")
    adds: dict[str, Any] = Field(default_factory=dict, description="Fields that are sent to them too.")
    thought_tokens: int = Field(
        default=0, ge=0, description="Added to max_tokens: what they think before they answer counts against it."
    )

    def apply_to(self, model: str) -> bool:
        """Whether they are a model's."""
        name = model.rpartition("/")[2].lower()
        return any(fnmatchcase(name, pattern.lower()) for pattern in self.models)


class Provider(Config):
    """How one provider's endpoint is reached and in what it differs from OpenAI's protocol; the default: in nothing."""

    name: str = Field(default="", description="What cache and provenance call it; empty: its file's name.")
    base_url: BaseUrl | None = Field(default=None, description="Where it is, unless chat.base_url says otherwise.")
    path: str = Field(default="", description="What follows the base URL; {model} stands for the model's name.")
    query: dict[str, str] = Field(default_factory=dict, description="Query that each request carries.")
    api_key_env: str = Field(default=DEFAULT_KEY_ENV, description="Environment variable that holds the key.")
    api_key_header: str = Field(
        default="", description="Header that holds the bare key; empty: Authorization, as a bearer's."
    )
    needs_key: bool = Field(default=True, description="Whether nothing goes without a key.")
    lists_models: bool = Field(default=True, description="Whether it has a list of models to ask for.")
    renames: dict[str, str] = Field(default_factory=dict, description="Fields of a payload that it calls otherwise.")
    drops: list[str] = Field(default_factory=list, description="Fields of a payload that it does not take.")
    adds: dict[str, Any] = Field(default_factory=dict, description="Fields that it is sent with each payload.")
    by_model: list[ModelHabits] = Field(
        default_factory=list, description="Habits of some of its models; of those that fit the first ones count."
    )
    drops_blank_stops: bool = Field(default=False, description="Whether it refuses stops of white space only.")
    max_temperature: float = Field(default=2.0, gt=0, description="Greatest temperature that it takes.")
    batch_price_share: float | None = Field(
        default=None, gt=0, le=1, description="Price of a batch's answer as a share of the usual; empty: no batches."
    )
    batch_max_requests: int = Field(default=50_000, ge=1, description="Most requests that a batch may have.")
    batch_max_bytes: int = Field(default=200_000_000, ge=1, description="Most bytes that a batch's file may have.")
    prices_source: str = Field(default="", description="Page on which the prices stand.")
    prices: dict[str, PriceConfig] = Field(default_factory=dict, description="Model to price.")

    def added(self, model: str) -> dict[str, Any]:
        """The fields that a model is sent with each payload."""
        return self.adds | self._habits_of(model).adds

    def body(self, payload: dict[str, Any], model: str, extra: dict[str, Any] | None = None) -> dict[str, Any]:
        """A payload as this provider takes it for a model.

        Args:
            payload: as it was asked, whoever answers; by it the answer is cached.
            model: whose name the body has too.
            extra: fields of the user's own (`chat.extra`), which are sent as they are.
        """
        habits = self._habits_of(model)
        if "max_tokens" in payload:
            payload = {**payload, "max_tokens": payload["max_tokens"] + habits.thought_tokens}
        dropped = {*self.drops, *habits.drops}
        body = {"model": model, **self._renamed(payload, dropped), **self.added(model)}
        return body | (extra or {})

    def _habits_of(self, model: str) -> ModelHabits:
        return next((each for each in self.by_model if each.apply_to(model)), _NO_HABITS)

    def _renamed(self, payload: dict[str, Any], dropped: set[str]) -> dict[str, Any]:
        body = {self.renames.get(name, name): value for name, value in payload.items() if name not in dropped}
        if self.drops_blank_stops and "stop" in body:
            stops = [body["stop"]] if isinstance(body["stop"], str) else body["stop"]
            body["stop"] = [stop for stop in stops if stop.strip()]
            if not body["stop"]:
                del body["stop"]
        if "temperature" in body:
            body["temperature"] = min(body["temperature"], self.max_temperature)
        return body

    def price_of(self, model: str) -> PriceConfig | None:
        """A model's price, by its name with or without the day of a snapshot; None where it is not known."""
        price = self.prices.get(model) or self.prices.get(SNAPSHOT.sub("", model))
        return price and price.model_copy(update={"source": price.source or self.prices_source})


_NO_HABITS = ModelHabits(models=["*"])
ANY = Provider(needs_key=False)
"""An endpoint of which only the base URL is known."""


def provider_of(config: ChatConfig) -> Provider:
    """The provider that a configuration names; else the one named as its engine, for a server that we start.

    Raises:
        ConfigError: there is none of that name, or the file is not one.
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
    return _read(path)


def _read(path: Path) -> Provider:
    """The provider in a file, named after it unless it names itself."""
    try:
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
        provider = Provider.model_validate(fields)
    except ValidationError as error:  # its values are not quoted: a key may stand where it does not belong
        wrong = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'all'}: {each['msg']}" for each in error.errors())
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
    text = (files("backends.chat") / "providers.yaml").read_text(encoding="utf-8")
    return {name: Provider.model_validate({"name": name, **fields}) for name, fields in yaml.safe_load(text).items()}


def price_of(config: ChatConfig, model: str) -> PriceConfig | None:
    """What a model costs the way it is asked; None where that is not known.

    Raises:
        ConfigError: see `provider_of`.
    """
    if config.price is not None:
        return config.price
    provider = provider_of(config)
    price = provider.price_of(model)
    share = provider.batch_price_share
    if price is None or config.transport == "direct" or share is None:
        return price
    dollars = {name: value * share for name, value in price if name.endswith("_usd_per_mtok") and value is not None}
    return price.model_copy(update=dollars)


def base_urls_of(config: ChatConfig) -> list[str]:
    """Where a configuration's servers are, one at least, less the provider's path, which may hold the model's name.

    Raises:
        ConfigError: neither it nor its provider tells.
    """
    theirs = provider_of(config).base_url
    found = config.base_urls or ([theirs.rstrip("/")] if theirs else [])
    if not found:
        whose = f"The provider {config.provider!r}" if config.provider else "The chat engine 'openai'"
        raise ConfigError(f"{whose} has no base URL.", "Set chat.base_url (it ends in /v1), or chat.provider.")
    return found


def base_url_of(config: ChatConfig) -> str:
    """The first of `base_urls_of`; raises as it does."""
    return base_urls_of(config)[0]


def endpoint_name_of(config: ChatConfig) -> str:
    """What cache and provenance call a configuration's endpoint: as it says, or by provider, or by host.

    Raises:
        ConfigError: see `base_url_of`.
    """
    return config.endpoint or provider_of(config).name or str(urlsplit(base_url_of(config)).hostname)


def full_url(base_url: str, provider: Provider, model: str) -> str:
    """The URL to which `/chat/completions` is appended."""
    return base_url + provider.path.replace("{model}", quote(model, safe=""))


def digest_as_asked(config: ChatConfig, model: str, model_digest: str) -> str:
    """What stands for a model and for the fields that it is sent besides what is asked: both decide what it says.

    Raises:
        ConfigError: see `provider_of`.
    """
    added = provider_of(config).added(model) | config.extra
    return ids.digest("asked with", model_digest, added) if added else model_digest


def key_env_of(config: ChatConfig) -> str:
    """The environment variable that holds the key."""
    return config.api_key_env or provider_of(config).api_key_env


def read_api_key(config: ChatConfig) -> str:
    """The key; empty when there is none and the provider does without.

    Raises:
        ConfigError: the provider needs one.
    """
    name = key_env_of(config)
    key = os.environ.get(name, "").strip()
    if not key and provider_of(config).needs_key:
        raise ConfigError(
            f"The provider {config.provider!r} needs a key.", f"Put it into the environment variable {name}."
        )
    return key
