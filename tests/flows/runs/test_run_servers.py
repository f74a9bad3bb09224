"""A run starts each chat server once: before speech is made that would wait for it, and for as long as it is asked."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from backends.chat.child_server import Child, ChildServer
from backends.chat.double import DoubleEngine
from backends.chat.protocol import Endpoint
from data_schemas.config import ChatConfig, RefreshConfig
from data_schemas.errors import BackendError
from flows.runs.refresh import run_refresh
from pipelines.run.parts import Part, PartRecord
from pipelines.run.stages import STAGES
from tests.support.runs import config_on_doubles

pytestmark = pytest.mark.full
"""Whole runs on doubles."""


class Log:
    """What happens in a run, in its order: its stages, and the chat servers that start and stop."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def begin_stage(self, name: str, n_items: int) -> None:
        """A stage begins."""
        self.events.append(name)

    def on_part(self, stage: str, part: Part, record: PartRecord) -> None:
        """Is not noted."""

    @contextmanager
    def served(self, name: str, server: AbstractContextManager[Endpoint]) -> Iterator[Endpoint]:
        """The server for the time of a block, with its start and its end noted."""
        with server as endpoint:
            self.events.append(f"start {name}")
            yield endpoint
        self.events.append(f"stop {name}")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """Notes the starts of every double that is asked in the place of a chat model."""
    log, serve = Log(), DoubleEngine.serve
    monkeypatch.setattr(DoubleEngine, "serve", lambda engine: log.served(engine.describe().name, serve(engine)))
    return log


def on_doubles(folder: Path, chat: ChatConfig, wording: ChatConfig | None = None) -> RefreshConfig:
    """A run of two items whose chat models are those given."""
    fields = {"chat": chat, "wording": wording, "limit": 1}
    return config_on_doubles(folder / "dataset").model_copy(update=fields)


def test_the_chat_server_starts_once_before_any_work_and_not_where_nothing_is_left_to_ask(
    log: Log, tmp_path: Path
) -> None:
    config = on_doubles(tmp_path, ChatConfig(engine="double"))
    run_refresh(config, log)
    assert log.events == ["start double", *STAGES, "stop double"]
    log.events.clear()
    run_refresh(config, log)
    assert log.events == list(STAGES)


def test_the_embedded_server_starts_once(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that would hold llama.cpp is a double; all else is the embedded engine's own."""

    @contextmanager
    def running(server: ChildServer, until_ready: Callable[[Child], str]) -> Iterator[str]:
        with DoubleEngine(ChatConfig(endpoint=server.name)).serve() as endpoint:
            yield endpoint.base_url

    monkeypatch.setattr(ChildServer, "run", running)
    (tmp_path / "small.gguf").write_bytes(b"GGUF")
    run_refresh(on_doubles(tmp_path, ChatConfig(engine="llamacpp", model=str(tmp_path / "small.gguf"))), log)
    assert log.events == ["start embedded chat server", *STAGES, "stop embedded chat server"]


def test_stages_with_the_same_settings_share_a_server(log: Log, tmp_path: Path) -> None:
    chat = ChatConfig(engine="double")
    run_refresh(on_doubles(tmp_path, chat, wording=chat), log)
    assert log.events == ["start double", *STAGES, "stop double"]


def test_a_server_that_only_an_early_stage_asks_is_stopped_before_speech(log: Log, tmp_path: Path) -> None:
    chat, wording = ChatConfig(engine="double"), ChatConfig(engine="double", endpoint="words")
    run_refresh(on_doubles(tmp_path, chat, wording), log)
    n_before_speech = STAGES.index("speech")
    before, after = STAGES[:n_before_speech], STAGES[n_before_speech:]
    assert log.events == ["start words", "start double", *before, "stop words", *after, "stop double"]


def test_a_server_that_does_not_start_is_said_before_any_stage_and_stops_the_others(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = DoubleEngine.serve

    def serve(engine: DoubleEngine) -> AbstractContextManager[Endpoint]:
        if engine.describe().name == "gone":
            raise BackendError("It did not start.")
        return noted(engine)

    monkeypatch.setattr(DoubleEngine, "serve", serve)
    config = on_doubles(tmp_path, ChatConfig(engine="double", endpoint="gone"), ChatConfig(engine="double"))
    with pytest.raises(BackendError, match="did not start"):
        run_refresh(config, log)
    assert log.events[0] == "start double"
    assert not set(log.events) & set(STAGES)
