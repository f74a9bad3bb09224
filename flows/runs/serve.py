"""A server from its configuration to its shutdown: model, components and web server."""

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
    """A running server and its `url` (http or https)."""

    url: str
    server: KameServer


@asynccontextmanager
async def load_server(config: ServeConfig, others: OtherCallers | None = None) -> AsyncIterator[KameServer]:
    """Loads a server with its model and components for the duration of a `with` block, without listening.

    Args:
        others: counts sessions of the server's other processes; None if there are none.

    Raises:
        ConfigError, BackendError, StoreError: as `run_server`.
    """
    checkpoint = _load_checkpoint(config)
    config = config.model_copy(update={"voice": choose_voice(checkpoint and checkpoint.facts, config.voice)})
    speak("ready")  # it reads its lexicon the first time, which would hold up everybody's frames later
    async with build_parts(config) as parts, KameServer(checkpoint, config, parts, others=others) as server:
        yield server


@asynccontextmanager
async def run_web(web: WebServer, listeners: list[socket.socket]) -> AsyncIterator[None]:
    """Runs the web server for the duration of a `with` block, which begins when the server has started.

    Args:
        listeners: empty if connections are passed to `WebServer.take`.

    Raises:
        BackendError: the web server ended during its start.
    """
    task = asyncio.create_task(web.serve(listeners))
    try:
        await _wait_until_started(web, task)
        yield
    finally:
        web.should_exit = True
        await task


def get_page_folder() -> Path:
    """Returns the folder of the talk page."""
    return Path(str(files("dashboard").joinpath("talk")))


@asynccontextmanager
async def run_server(config: ServeConfig) -> AsyncIterator[Serving]:
    """Runs a server of one process for the duration of a `with` block, and yields it when it accepts connections.

    Raises:
        ConfigError: the address is in use or not available, or the configuration has several processes or names
            something that does not exist.
        BackendError: the checkpoint or a component cannot be loaded.
        StoreError: a file of the checkpoint is damaged.
    """
    if config.processes > 1:
        raise ConfigError(
            f"processes: {config.processes} is not possible here.", "Several processes need `kame serve --processes N`."
        )
    check_certificate(config.care)
    with open_listener(config) as listener:  # first: an address that is taken should not cost the loading of a model
        async with load_server(config) as server:
            web = WebServer(create_app(server, get_page_folder()), server.config)
            async with run_web(web, [listener]):
                yield Serving(format_url(config, listener), server)


async def run(config: ServeConfig, on_ready: Callable[[Serving], None], on_drain: Callable[[Serving], None]) -> None:
    """Serves until SIGTERM or SIGINT, then shuts down gracefully; a second signal stops it at once.

    Args:
        on_ready: called when the server accepts connections.
        on_drain: called when new callers are refused and running sessions may finish.

    Raises:
        KameError: as `run_server`, or the device failed.
    """
    async with run_server(config) as running:
        with catch_end_signals() as asked:
            on_ready(running)
            await wait_for_first(asked.wait(), running.server.wait_until_broken())
            on_drain(running)
            asked.clear()
            await wait_for_first(running.server.drain(), asked.wait())


def _load_checkpoint(config: ServeConfig) -> Checkpoint | None:
    """Loads the front-end; None if the mode is cascade and no checkpoint is configured.

    Raises:
        ConfigError: no checkpoint is configured, and the mode needs one.
    """
    if config.checkpoint != NO_CHECKPOINT:
        return load_checkpoint(config.checkpoint, find_device(config.device))
    if config.mode != "cascade":
        raise ConfigError(f"Mode {config.mode} needs a checkpoint.", "Give one, or use --mode cascade.")
    return None


async def _wait_until_started(web: WebServer, task: "asyncio.Task[None]") -> None:
    """Waits until the web server accepts connections.

    Raises:
        BackendError: the task of the server ended before.
    """
    started = asyncio.create_task(web.has_started.wait())
    await asyncio.wait({started, task}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        started.cancel()
        task.result()
        raise BackendError("The web server ended during its start.", "The messages before this one say why.")
