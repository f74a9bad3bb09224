"""Inputs of a form that do not exist on this machine."""

from pathlib import Path
from typing import Any

import pytest

from dashboard.inputs import find_missing_inputs
from dashboard.runs import KINDS

pytestmark = pytest.mark.quick


def test_what_exists_is_not_missing(tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text("{}")
    sources: list[dict[str, Any]] = [
        {"name": "gsm8k", "path": str(questions)},
        {"name": "mine", "columns": {"question": "q", "answer": "a"}},
    ]
    assert find_missing_inputs("refresh", {"sources": sources}, ["gsm8k"]) == {}
    assert find_missing_inputs("train", {"datasets": [f"{tmp_path}=0.5", str(tmp_path)]}, []) == {}
    assert all(find_missing_inputs(kind, {}, []) == {} for kind in KINDS)
    for elsewhere in ("hf://datasets/owner/name", "s3://bucket/prefix", ""):
        assert find_missing_inputs("train", {"datasets": [elsewhere]}, []) == {}
    for checkpoint in ("owner/name", str(tmp_path), "none", None):
        assert find_missing_inputs("serve", {"checkpoint": checkpoint}, []) == {}


def test_what_does_not_exist_is_named_at_its_field(tmp_path: Path) -> None:
    sources = [{"name": "gsm8k", "path": str(tmp_path / "none.jsonl")}, {"name": "gsm9k"}]
    missing = find_missing_inputs("refresh", {"sources": sources}, ["gsm8k"])
    assert set(missing) == {"sources.0.path", "sources.1.name"}
    assert "no file" in missing["sources.0.path"]
    assert "'gsm9k'" in missing["sources.1.name"]
    assert "is not a file" in find_missing_inputs("speech", {"lexicon": str(tmp_path)}, [])["lexicon"]
    assert find_missing_inputs("evaluate", {"checkpoint": "\0"}, []).keys() == {"checkpoint"}
