"""The oracle ladder, the chat model behind it, and what it may cost."""

from itertools import pairwise
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, JsonValue, model_validator

from data_schemas.config.base import Config


class OracleConfig(Config):
    """When the back-end is asked, and what it is told. The defaults are the paper's ladder."""

    version: str = Field(
        default="default", pattern=r"^[a-z0-9][a-z0-9._-]*$", description="Folder under `oracles/` to write to."
    )
    simulator: Literal["llm", "random"] = Field(
        default="llm", description="llm asks the chat model; random takes true answers of other items, for ablations."
    )
    prompt: str | None = Field(
        default=None,
        description="Prompt set in pipelines/oracle/prompt_sets/, or a path to one; empty: v2 where the engine is "
        "llamacpp, for small models, and whole for all others.",
    )
    both_directions: bool = Field(
        default=False, description="Whether the assistant's turns get events too, for the user's next words."
    )
    interval_s: float = Field(default=0.5, ge=0.08, le=10, description="Distance of the ticks, seconds.")
    level_bounds: list[float] = Field(
        default=[0.5, 0.65, 0.8, 0.95],
        min_length=4,
        max_length=4,
        description="Greatest spoken ratio of levels 0 to 3; level 4 is below 1, level 5 is 1.",
    )
    max_requests_per_turn: int = Field(default=8, ge=5, le=1000, description="Most requests for one turn.")
    max_words: int = Field(default=30, ge=5, le=200, description="Longest oracle of levels 0 to 4, in words.")
    min_words: int = Field(
        default=3, ge=1, le=200, description="Shortest oracle, in words; at level 4 no more than its hint has."
    )
    wanted_words: list[Annotated[int, Field(ge=1, le=200)]] = Field(
        default=[10, 10, 1, 1, 1],
        min_length=5,
        max_length=5,
        description="Words at levels 0 to 4 below which an oracle is asked for again, and the longest kept; at level 4 "
        "no more than its hint has. Where a hint is told, a second answer is longer but has less of it.",
    )
    max_tokens: int = Field(default=48, ge=8, le=4096, description="Most tokens the model may write for one oracle.")
    temperature: float = Field(default=0.0, ge=0, le=2, description="Sampling temperature of the simulator.")
    max_asks: int = Field(
        default=3, ge=1, le=10, description="How often an event is asked for, where answers are not usable."
    )
    max_failed_share: float = Field(
        default=0.5, ge=0, le=1, description="Share of a dialogue's events that may fail; above it is a reject."
    )

    share_from: float = Field(
        default=0.0, ge=0, lt=1, description="Of the dialogues, drawn by id and seed, this version is made for those…"
    )
    share_to: float = Field(
        default=1.0, gt=0, le=1, description="…from `share_from` on and below this: 0 to 0.3 and 0.3 to 1 are disjoint."
    )

    @model_validator(mode="after")
    def _rising(self) -> Self:
        bounds = self.level_bounds
        if not all(0 < low < high < 1 for low, high in pairwise(bounds)):
            raise ValueError("level_bounds must rise and lie between 0 and 1")
        if self.share_from >= self.share_to:
            raise ValueError("share_from must be less than share_to")
        if self.min_words > self.max_words:
            raise ValueError("min_words must not be more than max_words")
        return self

    @model_validator(mode="after")
    def _random_says_so(self) -> Self:
        if self.simulator == "random" and "random" not in self.version:
            raise ValueError(
                "oracles by simulator random go to a version that says so, such as --oracle-version random"
            )
        if self.simulator != "random" and "random" in self.version:
            raise ValueError(
                f"version {self.version!r} is for simulator random; a chat model's oracles go to one without that word"
            )
        return self


def _without_secrets(url: str) -> str:
    place = urlsplit(url)
    if place.scheme not in ("http", "https") or not place.hostname:
        raise ValueError("a base URL begins with http:// or https:// and names a host")
    if "@" in place.netloc or place.query or place.fragment:
        raise ValueError(
            "a base URL is written into logs and records, so it holds no user, password or query: put a key into the "
            "environment variable that chat.api_key_env names, and other query fields into a provider's file (query)"
        )
    return url


def _without_what_is_asked(extra: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if taken := sorted(OURS_TO_SAY & set(extra)):
        raise ValueError(f"{', '.join(taken)} cannot be set here: each request has its own")
    return extra


OURS_TO_SAY = frozenset({"messages", "model", "n", "stream", "stream_options"})
"""Fields of a payload that are not for the user to add."""
Extra = Annotated[dict[str, JsonValue], AfterValidator(_without_what_is_asked)]

BaseUrl = Annotated[str, AfterValidator(_without_secrets)]
"""Where an endpoint is, without anything that could be a secret: runs record it, and messages quote it."""


class PriceConfig(Config):
    """What a model's tokens cost, US dollars a million, and where that was read."""

    in_usd_per_mtok: float = Field(ge=0, description="US dollars for a million tokens read.")
    cached_usd_per_mtok: float | None = Field(
        default=None, ge=0, description="…for a million of those that came from the prefix cache; empty: no cheaper."
    )
    out_usd_per_mtok: float = Field(ge=0, description="US dollars for a million tokens written.")
    as_of: str = Field(default="", description="Day on which the price was read, YYYY-MM-DD.")
    source: str = Field(default="", description="Page on which it stands.")


class BudgetConfig(Config):
    """Most that the new answers of one run may take, over all its chat models; stored answers cost nothing."""

    usd: float | None = Field(default=None, gt=0, description="US dollars; needs a known price. Empty: no bound.")
    tokens: int | None = Field(default=None, ge=1, description="Tokens read and written. Empty: no bound.")


class ChatConfig(Config):
    """Which chat model answers, and how it is reached. Keys come from the environment, never from here."""

    engine: str = Field(
        default="llamacpp",
        title="Chat engine",
        description="llamacpp starts the embedded model, vllm a vLLM; openai calls `base_url`.",
    )
    provider: str | None = Field(
        default=None,
        description="Whose endpoint it is (engine openai): openai, azure, anthropic, google, vllm, llamacpp, ollama, "
        "or a YAML file; gives base URL, key, habits and prices.",
    )
    base_url: BaseUrl | None = Field(
        default=None,
        title="Address of the chat model",
        description="OpenAI-compatible base URL, with /v1 (engine openai).",
    )
    model: str | None = Field(
        default=None,
        title="Chat model",
        description="Model name to ask for; a GGUF file (llamacpp); a Hub name or folder (vllm).",
    )
    revision: str | None = Field(default=None, description="Revision of the model on the Hub (engine vllm).")
    endpoint: str | None = Field(
        default=None,
        description="Name of the endpoint in cache and provenance; empty: the provider's, or the host of `base_url`.",
    )
    api_key_env: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Environment variable that holds the key; empty: the provider's, or KAME_LLM_API_KEY.",
    )
    port: int = Field(default=0, ge=0, le=65535, description="Port of a server we start; 0: any free one.")
    n_slots: int = Field(default=1, ge=1, le=64, description="Requests the embedded server answers at once.")
    n_context: int = Field(default=2048, ge=256, description="Context of one slot of the embedded server, tokens.")
    serve_args: list[str] = Field(
        default_factory=list,
        description="More arguments of the server that engine vllm starts; name `endpoint` anew where they change what "
        "it says.",
    )
    extra: Extra = Field(
        default_factory=dict,
        description="Fields sent with each request besides what is asked, such as {reasoning_effort: none} or "
        "{chat_template_kwargs: {enable_thinking: false}}. They are recorded, so no secrets.",
    )
    thinks: bool = Field(
        default=False,
        description="It writes what it thinks before its answers, up to `</think>`: nothing before that is said live.",
    )
    transport: Literal["direct", "batch"] = Field(
        default="direct", description="direct asks one by one, many at once; batch hands in files (half price, hours)."
    )
    max_in_flight: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Most requests in flight, reached as the server bears it; empty: `n_slots`, or 64 of a server's.",
    )
    max_requests_per_minute: int | None = Field(default=None, ge=1, description="Most requests begun in a minute.")
    max_tokens_per_minute: int | None = Field(
        default=None, ge=1, description="Most tokens asked for in a minute, read and written."
    )
    max_attempts: int = Field(default=5, ge=1, le=20, description="Tries of one request before it counts as failed.")
    timeout_s: float = Field(default=120.0, gt=0, description="Longest wait for one answer, seconds.")
    max_wait_s: float = Field(
        default=900.0, ge=0, description="Longest wait that a server may ask for (Retry-After), seconds."
    )
    price: PriceConfig | None = Field(default=None, description="Price of the model; empty: the provider's, if known.")

    @property
    def n_in_flight(self) -> int:
        """Bound of requests in flight at once: one for the embedded server, where nothing else is set.

        More gain nothing on two cores and cost repeatability: of 48 greedy answers, 48 came again with one in flight
        and 18 with four.
        """
        return self.max_in_flight or (self.n_slots if self.engine == "llamacpp" else 64)

    @model_validator(mode="after")
    def _provider_is_reached(self) -> Self:
        if self.provider is not None and self.engine != "openai":
            raise ValueError(f"provider {self.provider!r} needs engine 'openai', not {self.engine!r}")
        return self
