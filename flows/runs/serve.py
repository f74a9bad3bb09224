"""A server from its configuration to its end: the model, its parts and its web, for the command, Prefect and tests."""

import asyncio
import signal
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from data_schemas.config.serving import NO_CHECKPOINT, CareConfig, ServeConfig
from data_schemas.errors import BackendError, ConfigError
from kame_model.checkpoint.kame_json import voice_of
from kame_model.checkpoint.load import Checkpoint, load_checkpoint
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
async def serving(config: ServeConfig) -> AsyncIterator[Serving]:
    """A server for as long as the block lasts.

    Raises:
        ConfigError: the address is taken or none of ours, or the configuration names what is not there.
        BackendError: the checkpoint or a part does not load.
        StoreError: a file of the checkpoint is damaged.
    """
    _check_certificate(config.care)
    with _listening(config) as listener:  # first: an address that is taken should not cost the loading of a model
        checkpoint = _load(config)
        config = config.model_copy(update={"voice": voice_of(checkpoint and checkpoint.facts, config.voice)})
        speak("ready")  # it reads its lexicon the first time, which would hold up everybody's frames later
        async with build_parts(config) as parts, KameServer(checkpoint, config, parts) as server:
            page = Path(str(files("dashboard").joinpath("talk")))
            web = WebServer(create_app(server, page), config)
            task = asyncio.create_task(web.serve([listener]))
            try:
                await _until_started(web, task)
                yield Serving(_url(config, listener), server)
            finally:
                web.should_exit = True
                await task


async def run(config: ServeConfig, on_ready: Callable[[Serving], None], on_drain: Callable[[Serving], None]) -> None:
    """Serves until SIGTERM or SIGINT; then lets nobody in, waits for those who talk, and ends. A second ends it now.

    Args:
        on_ready: called when callers can come.
        on_drain: called when nobody is let in any more.

    Raises:
        KameError: as `serving`; or the device broke meanwhile.
    """
    async with serving(config) as running:
        with _signals() as asked:
            on_ready(running)
            await _first_of(asked.wait(), running.server.broken())
            on_drain(running)
            asked.clear()
            await _first_of(running.server.drain(), asked.wait())


def _load(config: ServeConfig) -> Checkpoint | None:
    """The front-end; None: there is mode cascade alone."""
    if config.checkpoint != NO_CHECKPOINT:
        return load_checkpoint(config.checkpoint, find_device(config.device))
    if config.mode != "cascade":
        raise ConfigError(f"Without a checkpoint there is no mode {config.mode}.", "Name one, or say --mode cascade.")
    return None


async def _first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Waits for the first to end, and cancels the others; raises what it raised."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def _until_started(web: WebServer, task: "asyncio.Task[None]") -> None:
    started = asyncio.create_task(web.has_started.wait())
    await asyncio.wait({started, task}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        started.cancel()
        task.result()
        raise BackendError("The web server ended before it had started.")


def _check_certificate(care: CareConfig) -> None:
    """Reads the files of TLS, as uvicorn will.

    Raises:
        ConfigError: they cannot be read, or do not belong together.
    """
    if care.certificate is None:
        return
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(care.certificate, care.private_key, password=lambda: "")  # nobody is asked for one
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigError(
            f"TLS cannot be had with care.certificate={care.certificate} and care.private_key={care.private_key}:"
            f" {error}.",
            "Give a chain and its own key, both PEM, the key without a password.",
        ) from error


@contextmanager
def _listening(config: ServeConfig) -> Iterator[socket.socket]:
    """The socket that callers connect to.

    Raises:
        ConfigError: it cannot be had.
    """
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        listener = socket.create_server((config.host, config.port), family=family)
    except OSError as error:
        raise ConfigError(
            f"Nothing can listen at {config.host}, port {config.port}: {error.strerror or error}.",
            "Choose another one with --host and --port; --port 0 takes any free one.",
        ) from error
    with listener:
        yield listener


def _url(config: ServeConfig, listener: socket.socket) -> str:
    host = f"[{config.host}]" if ":" in config.host else config.host
    return f"{'http' if config.care.certificate is None else 'https'}://{host}:{listener.getsockname()[1]}"


@contextmanager
def _signals() -> Iterator[asyncio.Event]:
    """An event that SIGTERM and SIGINT set; elsewhere than in the main thread nothing sets it."""
    asked = asyncio.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        loop.add_signal_handler(number, asked.set)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
