"""Sockets, TLS certificates and signals of a server, without any model."""

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
    """Checks the certificate and key of TLS by loading them, as uvicorn will; does nothing without a certificate.

    Raises:
        ConfigError: they cannot be read, or do not match.
    """
    if care.certificate is None:
        return
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(care.certificate, care.private_key, password=lambda: "")  # nobody is asked for one
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigError(
            f"TLS cannot be set up with care.certificate={care.certificate} and care.private_key={care.private_key}:"
            f" {error}.",
            "Give a certificate chain and its own private key, both in PEM format, the key without a password.",
        ) from error


@contextmanager
def open_listener(config: ServeConfig) -> Iterator[socket.socket]:
    """Opens the listening socket for the duration of a `with` block.

    Raises:
        ConfigError: the address is in use or not available.
    """
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        listener = socket.create_server((config.host, config.port), family=family)
    except OSError as error:
        raise ConfigError(
            f"Cannot listen on {config.host}, port {config.port}: {error.strerror or error}.",
            "Choose another one with --host and --port; --port 0 uses any free port.",
        ) from error
    with listener:
        yield listener


def format_url(config: ServeConfig, listener: socket.socket) -> str:
    """Returns the URL of a listening server (http or https)."""
    host = f"[{config.host}]" if ":" in config.host else config.host
    return f"{'http' if config.care.certificate is None else 'https'}://{host}:{listener.getsockname()[1]}"


@contextmanager
def catch_end_signals() -> Iterator[asyncio.Event]:
    """Yields an event that SIGTERM and SIGINT set during a `with` block; outside the main thread, nothing sets it."""
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
    """Waits until the first of these finishes, and cancels the others; raises the error of the first, if it failed."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
