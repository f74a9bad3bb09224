"""What uvicorn may say of callers: no token, and no traceback for what a client did wrong."""

import logging
import re

_TOKEN = re.compile(r"(\btoken=)[^&\s\"']+")
_CLIENTS_FAULT = "Invalid UTF-8 sequence received from client."
"""uvicorn 0.54 logs it with a traceback of its own lines (protocols/websockets/websockets_sansio_impl.py)."""


class _Discreet(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Lets every record through, without what it should not say."""
        if record.msg == _CLIENTS_FAULT:
            record.exc_info, record.levelno, record.levelname = None, logging.WARNING, "WARNING"
        if isinstance(record.args, tuple):
            record.args = tuple(_TOKEN.sub(r"\1...", each) if isinstance(each, str) else each for each in record.args)
        return True


_DISCREET = _Discreet()


def be_discreet() -> None:
    """From now on uvicorn's logs are so; a second time changes nothing."""
    for name in ("uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).addFilter(_DISCREET)
