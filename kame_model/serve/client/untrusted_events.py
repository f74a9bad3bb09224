"""What a server tells its caller, looked at before it is kept or shown: it may be anybody's."""

import json
from collections.abc import Mapping
from types import UnionType
from typing import Any, Final

_STEERS_TERMINALS: Final = (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0))
_HALVES: Final = range(0xD800, 0xE000)
_PLAIN: Final = dict.fromkeys(_STEERS_TERMINALS) | dict.fromkeys(_HALVES, "\N{REPLACEMENT CHARACTER}")
_LONGEST_S: Final = 1e9
_NUMBER_OR_NAME: Final = int | str
"""An oracle's: the cascade's answers have names beside the numbers of the others."""
_DATA: Final[Mapping[str, Mapping[str, type | UnionType]]] = {
    "started": {"mode": str, "back_end": str},
    "heard": {"text": str, "is_final": bool},
    "oracle_asked": {"oracle": _NUMBER_OR_NAME, "back_end": str},
    "oracle": {"oracle": _NUMBER_OR_NAME, "text": str, "age_s": float},
    "oracle_failed": {"oracle": _NUMBER_OR_NAME, "back_end": str, "reason": str},
    "sentence_left_out": {"reason": str},
    "voice_failed": {"text": str, "reason": str},
    "dropped": {"direction": str, "n_frames": int},
    "ended": {"reason": str},
}
"""What a caller goes by in the data of an event, by its kind."""


def remove_control_characters(text: str) -> str:
    """Text without what would steer the terminal that it is shown on, and without halves of characters (UTF-16's)."""
    return text.translate(_PLAIN)


def read_event(body: bytes) -> dict[str, Any]:
    """An event of the server, with all in it that a caller goes by, its texts plain.

    Raises:
        ValueError: it is none.
    """
    try:
        event = json.loads(body)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    match event:
        case {"kind": str(kind), "time_s": time_s, "data": dict(data)} if _is_of_form(time_s, float):
            for name, form in _DATA.get(kind, {}).items():
                if not _is_of_form(data.get(name), form):
                    raise ValueError(f"an event {kind[:40]!r} without a fitting {name}")
            texts = {name: remove_control_characters(value) for name, value in data.items() if isinstance(value, str)}
            return {**event, "data": data | texts}
        case _:
            raise ValueError("no event")


def _is_of_form(value: object, form: type | UnionType) -> bool:
    """Whether a value is of this form; a number is one of seconds: finite, and no longer than a life."""
    if form is float:
        return isinstance(value, int | float) and abs(value) < _LONGEST_S
    return isinstance(value, form)
