"""Providers: a server with each one's habits is asked by our preset of it, and refuses what that preset leaves out."""

from pathlib import Path
from typing import Any

import pytest

from backends.chat.client import OpenAIChatClient
from backends.chat.providers import ANY, base_url_of, key_env_of, price_of, provider_of
from backends.chat.remote import RemoteEngine
from benchmarks.chat_server import MODEL, Behaviour, served
from data_schemas.config import ChatConfig, PriceConfig
from data_schemas.errors import BackendError, ConfigError, RequestError
from tests.backends.chat.chatting import endpoint_at, use

NAMES = ("openai", "azure", "anthropic", "google", "vllm", "llamacpp", "ollama")
PAYLOAD: dict[str, Any] = {
    "messages": [{"role": "user", "content": "What is half of"}],
    "max_tokens": 20,
    "temperature": 1.5,
    "seed": 7,
    "stop": ["\n", "User:"],
}
AZURE_PATH = f"/openai/deployments/{MODEL}"
HABITS = {
    "openai": Behaviour(key="sk-1", refused_fields=("max_tokens",)),
    "azure": Behaviour(
        key="az-1",
        key_header="api-key",
        prefix=AZURE_PATH,
        query={"api-version": "2024-10-21"},
        refused_fields=("max_tokens",),
    ),
    "anthropic": Behaviour(key="sk-ant-1", refused_fields=("seed",)),
    "google": Behaviour(key="g-1", prefix="/v1beta/openai", refused_fields=("seed",)),
    "vllm": Behaviour(),
    "llamacpp": Behaviour(),
    "ollama": Behaviour(),
}


def ask_as(provider: str, folder: Path, config: ChatConfig) -> list[dict[str, Any]]:
    """Asks a server with a provider's habits, as configured, and returns what the server got."""
    behaviour = HABITS[provider]
    with served(behaviour) as (root, server):
        prefix = "" if provider == "azure" else behaviour.prefix
        use(endpoint_at(root, prefix), folder, lambda client: client.ask(PAYLOAD), config)
        return server.counts.bodies


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_speaks_as_its_provider_wants(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = ChatConfig(engine="openai", provider=name)
    monkeypatch.setenv(key_env_of(config), HABITS[name].key)
    (body,) = ask_as(name, tmp_path, config)
    assert body["messages"] == PAYLOAD["messages"]
    assert body.get("max_tokens", body.get("max_completion_tokens")) == 20
    assert body["temperature"] == (1.0 if name == "anthropic" else 1.5)
    assert body["stop"] == (["User:"] if name == "anthropic" else ["\n", "User:"])


@pytest.mark.parametrize("name", [name for name in NAMES if HABITS[name].refused_fields or HABITS[name].query])
def test_without_its_preset_a_provider_refuses(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAME_LLM_API_KEY", HABITS[name].key)
    with pytest.raises((RequestError, BackendError), match="HTTP 4"):
        ask_as(name, tmp_path, ChatConfig(engine="openai"))


def test_a_key_that_is_missing_is_told_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(ConfigError, match=r"'anthropic' needs a key.*ANTHROPIC_API_KEY"):
        RemoteEngine(ChatConfig(engine="openai", provider="anthropic", model="claude")).serve().__enter__()


def test_the_same_question_has_one_answer_whatever_the_provider_makes_of_it(tmp_path: Path) -> None:
    async def ask(client: OpenAIChatClient) -> bool:
        return (await client.ask(PAYLOAD)).from_cache

    with served(Behaviour()) as (root, _):
        for name, found in (("vllm", False), ("ollama", True)):
            config = ChatConfig(engine="openai", provider=name)
            assert use(endpoint_at(root), tmp_path, ask, config) is found


@pytest.mark.parametrize("name", NAMES)
def test_each_has_its_place_or_asks_for_it(name: str) -> None:
    config = ChatConfig(engine="openai", provider=name)
    if name == "azure":
        with pytest.raises(ConfigError, match="'azure' has no base URL"):
            base_url_of(config)
    else:
        assert base_url_of(config).startswith("http")
    assert base_url_of(config.model_copy(update={"base_url": "http://mine:1/v1/"})) == "http://mine:1/v1"


def test_the_endpoint_is_named_after_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk")
    config = ChatConfig(engine="openai", provider="openai", model="gpt-4.1")
    assert RemoteEngine(config).describe().name == "openai"
    assert RemoteEngine(config.model_copy(update={"endpoint": "lab"})).describe().name == "lab"


def test_every_price_has_its_day_and_its_page() -> None:
    for name in NAMES:
        provider = provider_of(ChatConfig(engine="openai", provider=name))
        for model in provider.prices:
            price = provider.price_of(model)
            assert price is not None
            assert len(price.as_of) == len("2026-01-01")
            assert price.source.startswith("https://")


def test_prices_are_found_by_name_and_snapshot_and_never_guessed() -> None:
    config = ChatConfig(engine="openai", provider="openai")
    whole = price_of(config, "gpt-4.1")
    assert whole is not None
    assert price_of(config, "gpt-4.1-2025-04-14") == whole
    assert price_of(config, "gpt-4.1-colossal") is None
    assert price_of(ChatConfig(), "gpt-4.1") is None
    own = PriceConfig(in_usd_per_mtok=1, out_usd_per_mtok=2)
    assert price_of(config.model_copy(update={"price": own}), "gpt-4.1") == own
    half = price_of(config.model_copy(update={"transport": "batch"}), "gpt-4.1")
    assert half is not None
    assert half.out_usd_per_mtok == whole.out_usd_per_mtok / 2


def test_a_provider_of_ones_own_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text("base_url: http://lab:1/v1\ndrops: [seed]\nneeds_key: false\n", encoding="utf-8")
    config = ChatConfig(engine="openai", provider=str(path))
    assert provider_of(config).body(PAYLOAD) == {name: PAYLOAD[name] for name in PAYLOAD if name != "seed"}
    path.write_text("base_uri: http://lab:1/v1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="base_uri"):
        provider_of(config)
    with pytest.raises(ConfigError, match=r"no provider 'nobody'.*openai, azure"):
        provider_of(ChatConfig(engine="openai", provider="nobody"))


def test_a_payload_of_nobody_in_particular_is_left_as_it_is() -> None:
    assert ANY.body(PAYLOAD) == PAYLOAD


def test_a_provider_needs_the_engine_that_calls() -> None:
    with pytest.raises(ValueError, match="needs engine 'openai'"):
        ChatConfig(provider="google")
