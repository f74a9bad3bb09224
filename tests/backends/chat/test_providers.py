"""Providers: a server with each one's habits is asked by our preset of it, and refuses what that preset leaves out."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from backends.chat.cache import make_reply_key
from backends.chat.client import OpenAIChatClient
from backends.chat.providers import get_base_url, get_key_env, get_price, get_provider
from backends.chat.remote import RemoteEngine
from data_schemas.config import ChatConfig, PriceConfig
from data_schemas.errors import ConfigError
from tests.backends.chat.chatting import endpoint_at, use
from tests.support.chat_server import MODEL, Behaviour, served

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
    monkeypatch.setenv(get_key_env(config), HABITS[name].key)
    (body,) = ask_as(name, tmp_path, config)
    assert body["messages"] == PAYLOAD["messages"]
    assert body.get("max_tokens", body.get("max_completion_tokens")) == 20
    assert body["temperature"] == (1.0 if name == "anthropic" else 1.5)
    assert body["stop"] == (["User:"] if name == "anthropic" else ["\n", "User:"])


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


def test_a_provider_without_a_place_asks_for_it_and_ones_own_goes_first() -> None:
    with pytest.raises(ConfigError, match="'azure' has no base URL"):
        get_base_url(ChatConfig(engine="openai", provider="azure"))
    for name in ("azure", "google"):
        assert (
            get_base_url(ChatConfig(engine="openai", provider=name, base_url="http://mine:1/v1/")) == "http://mine:1/v1"
        )


def test_every_price_has_its_day_and_its_page() -> None:
    for name in NAMES:
        provider = get_provider(ChatConfig(engine="openai", provider=name))
        for model in provider.prices:
            price = provider.find_price(model)
            assert price is not None
            assert len(price.as_of) == len("2026-01-01")
            assert price.source.startswith("https://")


def test_prices_are_found_by_name_and_snapshot_and_never_guessed() -> None:
    config = ChatConfig(engine="openai", provider="openai")
    whole = get_price(config, "gpt-4.1")
    assert whole is not None
    assert get_price(config, "gpt-4.1-2025-04-14") == whole
    assert get_price(config, "gpt-4.1-colossal") is None
    assert get_price(ChatConfig(), "gpt-4.1") is None
    own = PriceConfig(in_usd_per_mtok=1, out_usd_per_mtok=2)
    assert get_price(config.model_copy(update={"price": own}), "gpt-4.1") == own
    half = get_price(config.model_copy(update={"transport": "batch"}), "gpt-4.1")
    assert half is not None
    assert half.out_usd_per_mtok == whole.out_usd_per_mtok / 2


def test_a_provider_of_ones_own_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text("base_url: http://lab:1/v1\ndrops: [seed]\nneeds_key: false\n", encoding="utf-8")
    config = ChatConfig(engine="openai", provider=str(path))
    assert get_provider(config).make_body(PAYLOAD, "m") == {"model": "m"} | {
        name: PAYLOAD[name] for name in PAYLOAD if name != "seed"
    }
    path.write_text("base_uri: http://lab:1/v1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="base_uri"):
        get_provider(config)
    with pytest.raises(ConfigError, match=r"no provider 'nobody'.*openai, azure"):
        get_provider(ChatConfig(engine="openai", provider="nobody"))


def test_a_provider_needs_the_engine_that_calls() -> None:
    with pytest.raises(ValueError, match="needs engine 'openai'"):
        ChatConfig(provider="google")


THINKING = {
    ("openai", "gpt-5-mini-2025-08-07"): ({"reasoning_effort": "minimal"}, {"temperature", "stop"}, 256),
    ("openai", "gpt-5.2"): ({"reasoning_effort": "none"}, {"temperature", "stop"}, 0),
    ("openai", "gpt-5.1-chat-latest"): ({}, {"temperature", "stop"}, 2048),
    ("openai", "gpt-5-chat-latest"): ({}, set(), 0),
    ("openai", "o4-mini"): ({"reasoning_effort": "low"}, {"temperature", "stop"}, 1024),
    ("openai", "gpt-4.1-mini"): ({}, set(), 0),
    ("anthropic", "claude-opus-4-1-20250805"): ({}, {"seed"}, 0),
    ("anthropic", "claude-opus-4-7"): ({}, {"seed", "temperature"}, 0),
    ("anthropic", "claude-opus-5-5"): ({}, {"seed", "temperature"}, 1024),
    ("anthropic", "claude-sonnet-5-20260601"): ({}, {"seed", "temperature"}, 1024),
    ("google", "models/gemini-2.5-flash"): ({"reasoning_effort": "none"}, {"seed"}, 0),
    ("google", "gemini-2.5-pro"): ({"reasoning_effort": "low"}, {"seed"}, 1024),
    ("vllm", "Qwen/Qwen3-8B"): ({"chat_template_kwargs": {"enable_thinking": False}}, set(), 0),
    ("vllm", "Qwen/Qwen2.5-7B-Instruct"): ({}, set(), 0),
}


@pytest.mark.parametrize(("provider", "model"), THINKING)
def test_models_that_think_are_asked_as_they_can_be(provider: str, model: str) -> None:
    added, dropped, n_more = THINKING[provider, model]
    found = get_provider(ChatConfig(engine="openai", provider=provider))
    body = found.make_body(PAYLOAD, model)
    assert {name: body[name] for name in body if name not in {*PAYLOAD, "model", "max_completion_tokens"}} == added
    assert {name for name in PAYLOAD if name not in body} - {"max_tokens"} == dropped
    assert body.get("max_completion_tokens", body.get("max_tokens")) == PAYLOAD["max_tokens"] + n_more


def test_a_server_that_we_start_has_the_habits_of_its_engine() -> None:
    body = get_provider(ChatConfig(engine="vllm", model="Qwen/Qwen3-8B")).make_body(PAYLOAD, "Qwen/Qwen3-8B")
    assert body["chat_template_kwargs"] == {"enable_thinking": False}


def test_fields_of_the_users_own_are_sent_and_tell_answers_apart(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text("base_url: http://lab:1/v1\nneeds_key: false\nadds: {top_k: 1}\n")
    plain = ChatConfig(engine="openai", base_url="http://lab:1/v1", model=MODEL, endpoint="lab")
    ours = plain.model_copy(update={"extra": {"reasoning_effort": "low"}})
    lab = plain.model_copy(update={"provider": str(tmp_path / "lab.yaml")})
    endpoints = [RemoteEngine(config).describe() for config in (plain, ours, lab)]
    assert endpoints[0].model_digest == ""
    assert len({make_reply_key(endpoint, PAYLOAD, 0) for endpoint in endpoints}) == 3
    with served(Behaviour()) as (root, server):
        for config in (ours, lab):
            use(endpoint_at(root), tmp_path / str(config.provider)[-1], lambda client: client.ask(PAYLOAD), config)
        first, second = server.counts.bodies
    assert first == {"model": MODEL, **PAYLOAD, "reasoning_effort": "low"}
    assert second == {"model": MODEL, **PAYLOAD, "top_k": 1}


@pytest.mark.parametrize("name", ["messages", "model", "stream"])
def test_what_each_request_has_of_its_own_is_not_for_the_user_to_add(name: str) -> None:
    with pytest.raises(ValidationError, match=f"{name} cannot be set in `extra`"):
        ChatConfig(extra={name: 1})
