"""The oracle hint levels, the chat model that writes oracles, and its budget."""

from itertools import pairwise
from typing import Annotated, Literal, Self
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, model_validator

from data_schemas.config.base import VARIABLE_NAME, Config


class OracleConfig(Config):
    """When oracles are requested, and which hints the prompts hold. The defaults are the paper's hint levels."""

    version: str = Field(
        default="default",
        pattern=r"^[a-z0-9][a-z0-9._-]*$",
        description="Name of the folder under `oracles/` to write to.",
    )
    simulator: Literal["llm", "random"] = Field(
        default="llm",
        description="llm: a chat model writes the oracles; random: true answers of other items are used, for "
        "ablations.",
    )
    prompt: str | None = Field(
        default=None,
        description="Name of a prompt set in pipelines/oracle/prompt_sets/, or a path to one; empty: v2 (for small "
        "models) if the engine is llamacpp, else whole.",
    )
    both_directions: bool = Field(
        default=False,
        description="Whether oracle events are also made for the assistant's turns, to predict the user's next words.",
    )
    interval_s: float = Field(
        default=0.5, ge=0.08, le=10, description="Interval between two oracle events, in seconds."
    )
    level_bounds: list[float] = Field(
        default=[0.5, 0.65, 0.8, 0.95],
        min_length=4,
        max_length=4,
        description="Maximum spoken ratio of hint levels 0 to 3; level 4 is below 1, level 5 is 1.",
    )
    max_requests_per_turn: int = Field(default=8, ge=5, le=1000, description="Maximum number of requests for one turn.")
    max_words: int = Field(
        default=30, ge=5, le=200, description="Maximum length of an oracle at levels 0 to 4, in words."
    )
    min_words: int = Field(
        default=3,
        ge=1,
        le=200,
        description="Minimum length of an oracle, in words; at level 4 never more than its hint has.",
    )
    wanted_words: list[Annotated[int, Field(ge=1, le=200)]] = Field(
        default=[10, 10, 1, 1, 1],
        min_length=5,
        max_length=5,
        description="Minimum words at levels 0 to 4: for a shorter oracle another is requested, and the longest is "
        "kept; at level 4 never more than its hint has. If the prompt holds a hint, a second answer is longer but has "
        "less of the hint.",
    )
    max_tokens: int = Field(
        default=48, ge=8, le=4096, description="Maximum number of tokens that the model may generate for one oracle."
    )
    temperature: float = Field(default=0.0, ge=0, le=2, description="Sampling temperature of the simulator.")
    max_asks: int = Field(
        default=3,
        ge=1,
        le=10,
        description="Maximum number of requests for one event, repeated while the answers are unusable.",
    )
    max_failed_share: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Share of a dialogue's events that may fail; above it the dialogue is rejected.",
    )

    share_from: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Start of the range of dialogues, drawn by id and seed, that this version is made for.",
    )
    share_to: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="End of that range, exclusive. The ranges 0 to 0.3 and 0.3 to 1 share no dialogue.",
    )

    @model_validator(mode="after")
    def _check_ranges(self) -> Self:
        """Checks the order of the level bounds, of the share's bounds and of the word limits."""
        bounds = self.level_bounds
        if not all(0 < low < high < 1 for low, high in pairwise(bounds)):
            raise ValueError("level_bounds must rise and lie between 0 and 1")
        if self.share_from >= self.share_to:
            raise ValueError("share_from must be less than share_to")
        if self.min_words > self.max_words:
            raise ValueError("min_words must not be more than max_words")
        return self

    @model_validator(mode="after")
    def _check_version_name(self) -> Self:
        """Checks that the version's name contains `random` if and only if the simulator is `random`."""
        if self.simulator == "random" and "random" not in self.version:
            raise ValueError(
                "simulator random needs a version name that contains 'random', such as --oracle-version random"
            )
        if self.simulator != "random" and "random" in self.version:
            raise ValueError(
                f"version {self.version!r} is reserved for simulator random; "
                "choose a name without 'random' for a chat model"
            )
        return self


def _check_no_secrets(url: str) -> str:
    """Returns a base URL unchanged; raises ValueError if it is not an HTTP URL, or has a user, query or fragment."""
    place = urlsplit(url)
    if place.scheme not in ("http", "https") or not place.hostname:
        raise ValueError("a base URL must begin with http:// or https:// and contain a host name")
    if "@" in place.netloc or place.query or place.fragment:
        raise ValueError(
            "a base URL must not contain a user, password or query, because it is written to logs and records: put an "
            "API key into the environment variable that api_key_env names, and query fields into a provider's file "
            "(query)"
        )
    try:
        _ = place.port
    except ValueError as error:
        raise ValueError("the port of a base URL must be a number up to 65535") from error
    return url


def _check_extra(extra: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Returns additional request fields unchanged; raises ValueError if one of them is in `OURS_TO_SAY`."""
    if taken := sorted(OURS_TO_SAY & set(extra)):
        raise ValueError(f"{', '.join(taken)} cannot be set in `extra`: each request sets its own")
    return extra


OURS_TO_SAY = frozenset({"messages", "model", "n", "stream", "stream_options"})
"""Fields of a request that `extra` must not set."""
Extra = Annotated[dict[str, JsonValue], AfterValidator(_check_extra)]

_CACHE_OPTIONS = frozenset({"host", "port", "user", "sslmode", "sslrootcert", "sslcert", "sslkey", "passfile"})
"""Options that the URL of an answer cache may have; none is a secret."""


def _check_cache_url(url: str) -> str:
    """Returns the URL of a PostgreSQL database unchanged; raises ValueError if it is none or may hold a secret."""
    place = urlsplit(url)
    if place.scheme != "postgresql" or not place.path.strip("/"):
        raise ValueError("a cache URL must be like postgresql://USER@HOST/DATABASE")
    if place.password is not None or place.netloc.count("@") > 1 or place.fragment:
        raise ValueError(
            "a cache URL must not contain a password, because it is written to logs and records: put it into the "
            "environment variable PGPASSWORD or into ~/.pgpass"
        )
    if unknown := sorted(set(parse_qs(place.query, keep_blank_values=True)) - _CACHE_OPTIONS):
        raise ValueError(
            f"a cache URL cannot have the option {', '.join(unknown)}, only {', '.join(sorted(_CACHE_OPTIONS))}"
        )
    return url


CacheUrl = Annotated[str, AfterValidator(_check_cache_url)]
"""URL of a PostgreSQL database. It cannot hold a password, because runs record it and messages quote it."""

BaseUrl = Annotated[str, AfterValidator(_check_no_secrets)]
"""URL of an endpoint. It cannot hold a secret, because runs record it and messages quote it."""


def _join_urls(urls: object) -> object:
    """Joins a list of URLs, as YAML may have, to a text separated by commas; returns any other value unchanged."""
    return ",".join(map(str, urls)) if isinstance(urls, list) else urls


def check_urls(urls: str) -> str:
    """Returns base URLs separated by commas, without spaces; raises ValueError if one is invalid or listed twice."""
    listed = [_check_no_secrets(url.strip()) for url in urls.split(",")]
    if len({url.rstrip("/") for url in listed}) < len(listed):
        raise ValueError("a base URL is listed twice")
    return ",".join(listed)


BaseUrls = Annotated[str, BeforeValidator(_join_urls), AfterValidator(check_urls)]
"""As `BaseUrl`; several servers of the same model with commas between."""


class PriceConfig(Config):
    """Price of a model's tokens in US dollars per million, and its source."""

    in_usd_per_mtok: float = Field(ge=0, description="US dollars per million input tokens.")
    cached_usd_per_mtok: float | None = Field(
        default=None,
        ge=0,
        description="US dollars per million input tokens read from the prefix cache; empty: the same as other input "
        "tokens.",
    )
    out_usd_per_mtok: float = Field(ge=0, description="US dollars per million output tokens.")
    as_of: str = Field(default="", description="Date on which the price was read, YYYY-MM-DD.")
    source: str = Field(default="", description="Web page of the price.")


class BudgetConfig(Config):
    """Maximum usage of one run, over all its chat models; answers from the cache cost nothing."""

    usd: float | None = Field(
        default=None, gt=0, description="Maximum cost in US dollars; needs a known price. Empty: no limit."
    )
    tokens: int | None = Field(
        default=None, ge=1, description="Maximum number of tokens, input and output together. Empty: no limit."
    )


class ChatConfig(Config):
    """A chat model and how to connect to it. API keys come from environment variables only."""

    engine: str = Field(
        default="llamacpp",
        title="Chat engine",
        description="llamacpp: starts the embedded model; vllm: starts a vLLM server; openai: calls `base_url`.",
    )
    provider: str | None = Field(
        default=None,
        description="Provider of the endpoint (engine openai): openai, azure, anthropic, google, vllm, llamacpp, "
        "ollama, or a YAML file. Sets base URL, API key, defaults and prices.",
    )
    base_url: BaseUrls | None = Field(
        default=None,
        title="Address of the chat model",
        description="OpenAI-compatible base URL, with /v1 (engine openai); for several servers of the same model a "
        "list, or separated by commas.",
    )
    model: str | None = Field(
        default=None,
        title="Chat model",
        description="Name of the model; for llamacpp a GGUF file, for vllm a name on the Hub or a folder.",
    )
    revision: str | None = Field(default=None, description="Revision of the model on the Hub (engine vllm).")
    endpoint: str | None = Field(
        default=None,
        description="Name of the endpoint in the cache and in provenance; empty: the provider's name, or the host of "
        "`base_url` (of the first one).",
    )
    api_key_env: str | None = Field(
        default=None,
        pattern=VARIABLE_NAME,
        description="Environment variable that holds the API key; empty: the provider's, or KAME_LLM_API_KEY.",
    )
    port: int = Field(default=0, ge=0, le=65535, description="Port of a server that is started here; 0: any free port.")
    n_slots: int = Field(
        default=1, ge=1, le=64, description="Number of requests that the embedded server answers at the same time."
    )
    n_context: int = Field(
        default=2048, ge=256, description="Context length of one slot of the embedded server, in tokens."
    )
    serve_args: list[str] = Field(
        default_factory=list,
        description="Additional arguments for the server that engine vllm starts. Set a new `endpoint` name if they "
        "change its answers.",
    )
    extra: Extra = Field(
        default_factory=dict,
        description="Additional fields of each request, such as {reasoning_effort: none} or {chat_template_kwargs: "
        "{enable_thinking: false}}. They are recorded, so they must not hold secrets.",
    )
    thinks: bool = Field(
        default=False,
        description="Whether the model is a reasoning model, which thinks up to `</think>` before its answer. A live "
        "server says nothing of that part.",
    )
    transport: Literal["direct", "batch"] = Field(
        default="direct",
        description="direct: concurrent requests; batch: the provider's batch API (half the price, takes hours).",
    )
    max_in_flight: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Maximum number of concurrent requests, adapted to what the server can take; empty: "
        "`n_slots`, or 64 for each server.",
    )
    max_requests_per_minute: int | None = Field(
        default=None, ge=1, description="Rate limit: maximum number of requests started per minute."
    )
    max_tokens_per_minute: int | None = Field(
        default=None, ge=1, description="Rate limit: maximum number of tokens per minute, input and output."
    )
    max_attempts: int = Field(
        default=5,
        ge=1,
        le=20,
        description="Maximum number of attempts (the first and its retries) before a request fails.",
    )
    timeout_s: float = Field(default=120.0, gt=0, description="Timeout of one request, in seconds.")
    max_wait_s: float = Field(
        default=900.0,
        ge=0,
        description="Longest wait before a retry that a server may ask for (Retry-After), in seconds.",
    )
    price: PriceConfig | None = Field(default=None, description="Price of the model; empty: the provider's, if known.")

    @property
    def n_in_flight(self) -> int:
        """Maximum number of concurrent requests: by default one per slot of the embedded server, else 64 per server.

        More requests to an embedded server gain nothing on two cores and make answers less repeatable: of 48 greedy
        answers, 48 were the same with one request in flight, and 18 with four.
        """
        return self.max_in_flight or (self.n_slots if self.engine == "llamacpp" else 64 * max(1, len(self.base_urls)))

    @property
    def base_urls(self) -> list[str]:
        """The URLs of `base_url` as a list, without a slash at the end; empty if it is empty."""
        return [url.rstrip("/") for url in self.base_url.split(",")] if self.base_url else []

    @model_validator(mode="after")
    def _check_one_server(self) -> Self:
        """Checks that the transport `batch` has at most one base URL."""
        if self.transport == "batch" and len(self.base_urls) > 1:
            raise ValueError("transport batch needs one base_url: a batch is looked for where it was handed in")
        return self

    @model_validator(mode="after")
    def _check_provider_engine(self) -> Self:
        """Checks that a provider is only set for the engine `openai`."""
        if self.provider is not None and self.engine != "openai":
            raise ValueError(f"provider {self.provider!r} needs engine 'openai', not {self.engine!r}")
        return self
