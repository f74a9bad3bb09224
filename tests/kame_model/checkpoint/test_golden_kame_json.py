"""The `kame.json` that each format was written with is read as it was meant; a format without one is none.

Formats 1 and 2 are of small exports by the code of their time, the others are those of the nano that was included then.
They are never edited. A new format gets its own when `FORMAT` is raised.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from kame_model.checkpoint.kame_json import FORMAT, read_kame_json

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_facts_of_each_format_are_read_as_they_were_meant(number: int) -> None:
    file = GOLDEN / f"kame_json_{number}.json"
    meant = json.loads(file.read_text(encoding="utf-8"))
    assert meant["format"] == number
    assert choose_fields(read_kame_json(file).model_dump(mode="json"), meant) == meant


def choose_fields(found: Any, meant: Any) -> Any:
    """What was found, less the fields that later versions have added."""
    if isinstance(found, dict) and isinstance(meant, dict):
        return {name: choose_fields(found[name], meant[name]) for name in found.keys() & meant.keys()}
    if isinstance(found, list) and isinstance(meant, list):
        return [choose_fields(*pair) for pair in zip(found, meant, strict=True)]
    return found
