"""A server from its configuration to its end: the model, its parts and its web, for the command, Prefect and tests."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from data_schemas.config.serving import NO_CHECKPOINT, ServeConfig
from data_schemas.errors import BackendError, ConfigError
from flows.runs.listening import catch_end_signals, check_certificate, format_url, open_listener, wait_for_first
from kame_model.checkpoint.kame_json import choose_voice
from kame_model.checkpoint.load import Checkpoint, load_checkpoint
from kame_model.serve.device.admission import OtherCallers
from kame_model.serve.parts import build_parts
from kame_model.serve.server import KameServer
from kame_model.serve.web.app import create_app
from kame_model.serve.web.transport import WebServer
from kame_model.train.parallel import find_device
from spoken.reader import speak


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that callers can reach at `url` (http or https)."""

    url: str
    server: KameServer


@asynccontextmanager
async def load_server(config: ServeConfig, others: OtherCallers | None = None) -> AsyncIterator[KameServer]:
    """A server with its model and its parts, for as long as the block lasts; nobody can reach it yet.

    Args:
        others: callers of the server's other processes; None: it has none.

    Raises:
        ConfigError, BackendError, StoreError: as `run_server`.
    """
    checkpoint = _load(config)
    config = config.model_copy(update={"voice": choose_voice(checkpoint and checkpoint.facts, config.voice)})
    speak("ready")  # it reads its lexicon the first time, which would hold up everybody's frames later
    async with build_parts(config) as parts, KameServer(checkpoint, config, parts, others=others) as server:
        yield server


@asynccontextmanager
async def run_web(web: WebServer, listeners: list[socket.socket]) -> AsyncIterator[None]:
    """A server's web for as long as the block lasts.

    Args:
        listeners: none where callers are given to `WebServer.take`.
    """
    task = asyncio.create_task(web.serve(listeners))
    try:
        await _wait_until_started(web, task)
        yield
    finally:
        web.should_exit = True
        await task


def get_page_folder() -> Path:
    """The folder of the page to talk by."""
    return Path(str(files("dashboard").joinpath("talk")))


@asynccontextmanager
async def run_server(config: ServeConfig) -> AsyncIterator[Serving]:
    """A server of one process for as long as the block lasts.

    Raises:
        ConfigError: the address is taken or none of ours, or the configuration names what is not there.
        BackendError: the checkpoint or a part does not load.
        StoreError: a file of the checkpoint is damaged.
    """
    if config.processes > 1:
        raise ConfigError(
            f"processes: {config.processes} cannot be had here.", "`kame serve --processes N` serves from several."
        )
    check_certificate(config.care)
    with open_listener(config) as listener:  # first: an address that is taken should not cost the loading of a model
        async with load_server(config) as server:
            web = WebServer(create_app(server, get_page_folder()), server.config)
            async with run_web(web, [listener]):
                yield Serving(format_url(config, listener), server)


async def run(config: ServeConfig, on_ready: Callable[[Serving], None], on_drain: Callable[[Serving], None]) -> None:
    """Serves until SIGTERM or SIGINT; then lets nobody in, waits for those who talk, and ends. A second ends it now.

    Args:
        on_ready: called when callers can come.
        on_drain: called when nobody is let in any more.

    Raises:
        KameError: as `run_server`; or the device broke meanwhile.
    """
    async with run_server(config) as running:
        with catch_end_signals() as asked:
            on_ready(running)
            await wait_for_first(asked.wait(), running.server.wait_until_broken())
            on_drain(running)
            asked.clear()
            await wait_for_first(running.server.drain(), asked.wait())


def _load(config: ServeConfig) -> Checkpoint | None:
    """The front-end; None: there is mode cascade alone."""
    if config.checkpoint != NO_CHECKPOINT:
        return load_checkpoint(config.checkpoint, find_device(config.device))
    if config.mode != "cascade":
        raise ConfigError(f"Without a checkpoint there is no mode {config.mode}.", "Name one, or say --mode cascade.")
    return None


async def _wait_until_started(web: WebServer, task: "asyncio.Task[None]") -> None:
    started = asyncio.create_task(web.has_started.wait())
    await asyncio.wait({started, task}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        started.cancel()
        task.result()
        raise BackendError("The web server ended before it had started.")
