"""The files of a batch, line by line: what is asked in one, and what another says was answered."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from backends.chat.cache import request_id
from backends.chat.faults import WORTH_RETRYING, FaultTranslator, TryAgainError
from data_schemas.errors import RequestError

URL: Literal["/v1/chat/completions"] = "/v1/chat/completions"
_NO_RESPONSE = 500


@dataclass(frozen=True, slots=True)
class Line:
    """A request's key with the body of its response, as JSON, or its fault."""

    key: str
    body: str
    fault: TryAgainError | RequestError | None


def write_line(key: str, body: dict[str, Any]) -> bytes:
    """A request's line."""
    line = {"custom_id": key, "method": "POST", "url": URL, "body": body}
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"


def portions(lines: Iterable[tuple[str, int]], max_lines: int, max_bytes: int) -> Iterator[list[str]]:
    """Keys of requests, given with the bytes of their lines, that fit into a file each; one too large goes alone."""
    chosen: list[str] = []
    n_bytes = 0
    for key, n_more in lines:
        if chosen and (len(chosen) == max_lines or n_bytes + n_more > max_bytes):
            yield chosen
            chosen, n_bytes = [], 0
        chosen.append(key)
        n_bytes += n_more
    if chosen:
        yield chosen


def read_line(text: bytes, faults: FaultTranslator) -> Line | None:
    """What a line says; None where it cannot be read."""
    try:
        line = json.loads(text)
        key = str(line["custom_id"])
        response = line.get("response") or {}
        status = int(response.get("status_code") or _NO_RESPONSE)
        body = response.get("body") or {}
        fault = None if status == 200 else _fault(key, status, body.get("error") or line.get("error") or {}, faults)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return Line(key, json.dumps(body), fault)


def _fault(key: str, status: int, said: Any, faults: FaultTranslator) -> TryAgainError | RequestError:
    reason = faults.redact(f"HTTP {status}: {said.get('message') if isinstance(said, dict) else said}")
    if status >= 500 or status in WORTH_RETRYING:
        return TryAgainError(reason, str(status))
    return RequestError(f"Request {request_id(key)} was refused by {faults.endpoint.name!r} ({reason}).")
