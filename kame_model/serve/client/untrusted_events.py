"""Validates a server's events before they are recorded or shown: the server is not trusted."""

import json
from collections.abc import Mapping
from types import UnionType
from typing import Any, Final

_STEERS_TERMINALS: Final = (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0))
_HALVES: Final = range(0xD800, 0xE000)
_PLAIN: Final = dict.fromkeys(_STEERS_TERMINALS) | dict.fromkeys(_HALVES, "\N{REPLACEMENT CHARACTER}")
_LONGEST_S: Final = 1e9
_NUMBER_OR_NAME: Final = int | str
"""An oracle's identifier: the cascade's answers have names, the others numbers."""
_DATA: Final[Mapping[str, Mapping[str, type | UnionType]]] = {
    "started": {"mode": str, "back_end": str},
    "heard": {"text": str, "is_final": bool},
    "oracle_asked": {"oracle": _NUMBER_OR_NAME, "back_end": str},
    "oracle": {"oracle": _NUMBER_OR_NAME, "text": str, "age_s": float},
    "oracle_done": {"oracle": _NUMBER_OR_NAME},
    "oracle_failed": {"oracle": _NUMBER_OR_NAME, "back_end": str, "reason": str},
    "sentence_left_out": {"reason": str},
    "voice_failed": {"text": str, "reason": str},
    "dropped": {"direction": str, "n_frames": int},
    "ended": {"reason": str},
}
"""The types of the fields that a caller uses in the data of an event, by its kind."""


def remove_control_characters(text: str) -> str:
    """Removes characters that control the terminal, except tabs and line feeds.

    Surrogates (halves of UTF-16 characters) are replaced by U+FFFD.
    """
    return text.translate(_PLAIN)


def read_event(body: bytes) -> dict[str, Any]:
    """Parses an event of the server, checks the fields that a caller uses, and removes control characters.

    They are removed from the texts that are values of `data` (see `remove_control_characters`); the kind, further
    fields of the event and texts nested deeper are returned as they are.

    Raises:
        ValueError: it is not a valid event.
    """
    try:
        event = json.loads(body)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    match event:
        case {"kind": str(kind), "time_s": time_s, "data": dict(data)} if _is_of_form(time_s, float):
            for name, form in _DATA.get(kind, {}).items():
                if not _is_of_form(data.get(name), form):
                    raise ValueError(f"an event {kind[:40]!r} without a valid {name}")
            texts = {name: remove_control_characters(value) for name, value in data.items() if isinstance(value, str)}
            return {**event, "data": data | texts}
        case _:
            raise ValueError("no event")


def _is_of_form(value: object, form: type | UnionType) -> bool:
    """Returns whether a value has this type; for float, whether it is a number that is plausible as seconds."""
    if form is float:
        return isinstance(value, int | float) and abs(value) < _LONGEST_S
    return isinstance(value, form)
