"""One line of JSON for each try of a request: what, when, how long, how it ended. Never what was said, never a key."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LOGGER = logging.getLogger("kame.chat")
"""Silent until somebody listens: `written_to`, or a handler of the caller's."""
LOGGER.addHandler(logging.NullHandler())


def log_try(event: str, **fields: Any) -> None:
    """Notes an event with its fields, all of them numbers or names."""
    LOGGER.info(event, extra=fields)


@contextmanager
def written_to(path: Path) -> Iterator[None]:
    """Appends what happens in the block to a file, a JSON object a line, with the time in UTC as `timestamp`."""
    from pythonjsonlogger.json import JsonFormatter

    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)  # no file where nobody asks
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
