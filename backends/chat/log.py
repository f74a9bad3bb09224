"""Request log: a JSON line for each attempt with its time, latency and status, but no message text and no API key."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LOGGER = logging.getLogger("kame.chat")
"""Logs nothing until there is a handler: that of `log_to_file` or the caller's own."""
LOGGER.addHandler(logging.NullHandler())


def log_try(event: str, **fields: Any) -> None:
    """Logs an event with its fields, all of which are numbers or names."""
    LOGGER.info(event, extra=fields)


@contextmanager
def log_to_file(path: Path) -> Iterator[None]:
    """Appends the events logged in the block to a file, one JSON object per line, with the time in UTC as `timestamp`.

    Within the block they do not go to the parent logger. Without events, only the file's folder is created.
    """
    from pythonjsonlogger.json import JsonFormatter

    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)  # no file if there are no requests
    handler.setFormatter(JsonFormatter("{message}", style="{", timestamp=True, rename_fields={"message": "event"}))
    before = LOGGER.level, LOGGER.propagate
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    try:
        yield
    finally:
        LOGGER.setLevel(before[0])
        LOGGER.propagate = before[1]
        LOGGER.removeHandler(handler)
        handler.close()
