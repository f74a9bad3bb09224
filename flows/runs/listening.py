"""Where a server listens, by which certificate, and when it is asked to end; without any model."""

import asyncio
import signal
import socket
import ssl
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from data_schemas.config.serving import CareConfig, ServeConfig
from data_schemas.errors import ConfigError


def check_certificate(care: CareConfig) -> None:
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
def open_listener(config: ServeConfig) -> Iterator[socket.socket]:
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


def format_url(config: ServeConfig, listener: socket.socket) -> str:
    """Where callers reach a server that listens (http or https)."""
    host = f"[{config.host}]" if ":" in config.host else config.host
    return f"{'http' if config.care.certificate is None else 'https'}://{host}:{listener.getsockname()[1]}"


@contextmanager
def catch_end_signals() -> Iterator[asyncio.Event]:
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


async def wait_for_first(*waits: Coroutine[Any, Any, object]) -> None:
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
