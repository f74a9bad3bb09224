"""The engine for endpoints that others serve."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from backends.chat.double import DoubleEngine
from backends.chat.remote import RemoteEngine
from data_schemas.config import ChatConfig
from data_schemas.errors import BackendError, ConfigError


@contextmanager
def server(status: int, body: bytes) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_address[1]}/v1"
        finally:
            running.shutdown()
            thread.join()


def config(base_url: str | None, model: str | None = None, endpoint: str | None = None) -> ChatConfig:
    return ChatConfig(engine="openai", base_url=base_url, model=model, endpoint=endpoint)


def test_a_base_url_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"chat\.base_url"):
        RemoteEngine(config(None))


def test_a_named_model_is_described_without_a_server() -> None:
    described = RemoteEngine(config("http://127.0.0.1:1/v1", "big")).describe()
    assert (described.name, described.model, described.model_digest) == ("openai", "big", "")


def test_the_only_model_of_a_server_is_taken() -> None:
    with DoubleEngine(ChatConfig()).serve() as double:
        engine = RemoteEngine(config(double.base_url, endpoint="lab"))
        with engine.serve() as endpoint:
            assert (endpoint.name, endpoint.model, endpoint.base_url) == ("lab", "double", double.base_url)
    assert engine.describe() == endpoint  # and remembered


@pytest.mark.parametrize(
    ("body", "listed"), [(b'{"data": [{"id": "b"}, {"id": "a"}]}', "a, b"), (b'{"data": []}', "none")]
)
def test_a_choice_of_models_is_left_to_the_user(body: bytes, listed: str) -> None:
    with server(200, body) as base_url, pytest.raises(ConfigError, match=rf"Set chat\.model: .*{listed}"):
        RemoteEngine(config(base_url)).describe()


def test_a_server_without_a_list_of_models_will_do() -> None:
    with server(404, b"{}") as base_url, RemoteEngine(config(base_url, "big")).serve() as endpoint:
        assert endpoint.model == "big"


def test_nobody_there_is_told_before_the_run() -> None:
    with DoubleEngine(ChatConfig()).serve() as double:
        pass
    with pytest.raises(BackendError, match=r"not answering.*chat\.base_url"):
        RemoteEngine(config(double.base_url, "big")).serve().__enter__()


def test_a_refused_key_is_told_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAME_LLM_API_KEY", "sk-very-secret")
    with server(401, b'{"error": {"message": "bad key sk-very-secret"}}') as base_url:
        with pytest.raises(BackendError, match="KAME_LLM_API_KEY") as caught:
            RemoteEngine(config(base_url, "big")).serve().__enter__()
        assert "sk-very-secret" not in str(caught.value)


@pytest.mark.parametrize("body", [b"<html>hello</html>", b'{"data": 3}', b"[]"])
def test_a_server_of_another_kind_is_told_before_the_run(body: bytes) -> None:
    with server(200, body) as base_url, pytest.raises(BackendError, match="cannot be read"):
        RemoteEngine(config(base_url, "big")).serve().__enter__()
