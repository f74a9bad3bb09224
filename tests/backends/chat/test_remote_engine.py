"""The engine for endpoints that others serve."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from backends.chat.double import DoubleEngine
from backends.chat.model_names import is_as_asked, is_named
from backends.chat.providers import get_provider
from backends.chat.remote import RemoteEngine
from data_schemas.config import ChatConfig
from data_schemas.errors import BackendError, ConfigError, KameError
from tests.backends.chat.chatting import QUICK
from tests.support.chat_server import MODEL, Behaviour, served
from tests.support.http_servers import QuietHandler, http_server

pytestmark = pytest.mark.full


@contextmanager
def server(status: int, content: bytes) -> Iterator[str]:
    class Handler(QuietHandler):
        def got(self) -> None:
            self.answer(status, content)

        def posted(self, body: bytes) -> None:
            asked = json.loads(body)
            assert asked["max_tokens"] == 1
            self.answer(200 if asked["model"] == "big" else 404, b'{"error": {"message": "no such model"}}')

    with http_server(Handler) as url:
        yield f"{url}/v1"


def config(base_url: str | None, model: str | None = None, endpoint: str | None = None) -> ChatConfig:
    return ChatConfig(engine="openai", base_url=base_url, model=model, endpoint=endpoint)


def test_a_base_url_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"chat\.base_url"):
        RemoteEngine(config(None))


@pytest.mark.parametrize(
    ("base_url", "name"),
    [("http://gpu7.lab.org:8000/v1", "gpu7.lab.org"), ("https://Lab.org/v1", "lab.org"), ("http://[::1]:80/v1", "::1")],
)
def test_an_endpoint_without_a_provider_is_named_after_its_host(base_url: str, name: str) -> None:
    assert RemoteEngine(config(base_url, "big")).describe().name == name
    assert RemoteEngine(config(base_url, "big", endpoint="mine")).describe().name == "mine"


@pytest.mark.parametrize("text", ["", "name: lab\n"])
def test_an_endpoint_of_a_providers_file_is_named_after_it_or_as_it_says(text: str, tmp_path: Path) -> None:
    file = tmp_path / "my-lab.yaml"
    file.write_text(f"base_url: http://lab/v1\n{text}", encoding="utf-8")
    described = RemoteEngine(ChatConfig(engine="openai", provider=str(file), model="big")).describe()
    assert described.name == ("lab" if text else "my-lab")
    assert RemoteEngine(ChatConfig(engine="openai", provider="ollama", model="big")).describe().name == "ollama"


SECRET_URLS = ["https://me:s3cret@lab.org/v1", "https://s3cret@lab.org/v1", "https://lab.org/v1?api_key=s3cret"]


@pytest.mark.parametrize("base_url", SECRET_URLS)
def test_a_secret_in_a_url_is_refused_and_not_shown(base_url: str, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="environment variable") as caught:
        config(base_url)
    assert all("s3cret" not in each["msg"] for each in caught.value.errors())
    file = tmp_path / "lab.yaml"
    file.write_text(f"base_url: {base_url}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="environment variable") as told:
        get_provider(ChatConfig(engine="openai", provider=str(file)))
    assert "s3cret" not in str(told.value)


def test_a_key_where_its_variables_name_belongs_is_refused() -> None:
    with pytest.raises(ValidationError, match="api_key_env"):
        ChatConfig(engine="openai", base_url="http://lab/v1", api_key_env="sk-s3cret")


@pytest.mark.parametrize(
    ("listed", "model", "same"),
    [
        ("models/gemini-2.5-flash", "gemini-2.5-flash", True),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5", True),
        ("llama3:latest", "llama3", True),
        ("gpt-4.1-mini", "gpt-4.1", False),
        ("llama3:70b", "llama3", False),
    ],
)
def test_a_model_is_known_by_its_shorter_names(listed: str, model: str, same: bool) -> None:
    assert is_named(listed, model) == same


TWO = b'{"data": [{"id": "b"}, {"id": "models/a"}]}'
NONE = b'{"data": []}'


@pytest.mark.parametrize(
    ("status", "body", "model", "error", "told"),
    [
        (200, TWO, "c", ConfigError, r"has no model 'c'.*b, models/a"),
        (404, b"{}", "small", BackendError, r"cannot serve model 'small'.*chat\.model"),
        (200, NONE, "small", BackendError, r"cannot serve model 'small'.*chat\.model"),
        (200, TWO, None, ConfigError, r"Set chat\.model: .*b, models/a"),
        (200, NONE, None, ConfigError, r"Set chat\.model: .*none"),
        (401, b'{"error": {"message": "bad key sk-very-secret"}}', "big", BackendError, "KAME_LLM_API_KEY"),
        (200, b"<html>hello</html>", "big", BackendError, "cannot be read"),
        (200, b'{"data": 3}', "big", BackendError, "cannot be read"),
        (200, b"[]", "big", BackendError, "cannot be read"),
    ],
)
def test_what_is_wrong_with_a_server_or_a_model_is_told_before_the_run(
    status: int, body: bytes, model: str | None, error: type[KameError], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAME_LLM_API_KEY", "sk-very-secret")
    with server(status, body) as base_url, pytest.raises(error, match=told) as caught:
        RemoteEngine(config(base_url, model)).serve().__enter__()
    assert "sk-very-secret" not in str(caught.value)


def test_the_only_model_of_a_server_is_taken() -> None:
    with DoubleEngine(ChatConfig()).serve() as double:
        engine = RemoteEngine(config(double.base_url, endpoint="lab"))
        with engine.serve() as endpoint:
            assert (endpoint.name, endpoint.model, endpoint.base_url) == ("lab", "double", double.base_url)
    assert engine.describe() == endpoint  # and remembered


@pytest.mark.parametrize(("status", "body", "model"), [(404, b"{}", "big"), (200, TWO, "a")])
def test_a_server_without_a_list_or_with_the_model_in_it_will_do(status: int, body: bytes, model: str) -> None:
    with server(status, body) as base_url, RemoteEngine(config(base_url, model)).serve() as endpoint:
        assert endpoint.model == model


@pytest.mark.parametrize(
    ("answered_by", "model", "same"),
    [
        ("gpt-4.1-mini-2025-04-14", "gpt-4.1-mini", True),
        ("mistral-large-2411", "mistral-large-latest", True),
        ("models/gemini-2.5-flash-001", "gemini-2.5-flash", True),
        ("llama3:latest", "llama3", True),
        ("Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct", True),
        ("/models/SmolLM2.Q4_1.gguf", "SmolLM2.Q4_1", True),
        ("gpt-4o", "gpt-4o-2024-08-06", True),
        ("gpt-4o-2024-11-20", "gpt-4o-2024-08-06", False),
        ("gpt-4.1-nano", "gpt-4.1-mini", False),
        ("claude-opus-4-5", "claude-opus-4", False),
        ("gpt-4-32k", "gpt-4", False),
    ],
)
def test_an_alias_and_its_edition_are_one_model(answered_by: str, model: str, same: bool) -> None:
    assert is_as_asked(answered_by, model) == same


def test_the_list_of_models_is_asked_for_again_as_any_request() -> None:
    with served(Behaviour(list_faults=(503, 429, 500))) as (root, _):
        assert RemoteEngine(config(f"{root}/v1"), QUICK).describe().model == MODEL
    with served(Behaviour(list_faults=(503,) * 2)) as (root, _):
        twice = config(f"{root}/v1").model_copy(update={"max_attempts": 2})
        with pytest.raises(BackendError, match=r"not answering as it should: HTTP 503"):
            RemoteEngine(twice, QUICK).describe()
