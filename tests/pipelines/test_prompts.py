"""Prompt sets: what each level is told, and what is no prompt set."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from data_schemas.errors import ConfigError
from pipelines.oracle.prompts import PromptSet, keywords, load_prompts

OURS = Path(__file__).resolve().parents[2] / "pipelines" / "oracle" / "prompt_sets" / "v1.yaml"
SENTINEL = "Zyzzyva"


def everything(prompts: PromptSet, level: int, hint: str, heard: str = "How many", history: Any = ()) -> str:
    return "\n".join(message["content"] for message in prompts.messages(history, heard, level, hint))


@given(
    heard=st.lists(st.sampled_from(["how", "many", "pens", "has", "{hint}", "{keywords}"])).map(" ".join),
    n_turns=st.integers(0, 4),
)
def test_level_0_never_contains_the_hint(heard: str, n_turns: int) -> None:
    history = [f"{who}: hello" for who in ("User", "Assistant") * 2][:n_turns]
    prompts = load_prompts("v1")
    assert SENTINEL not in everything(prompts, 0, f"It is {SENTINEL}.", heard, history)
    assert SENTINEL in everything(prompts, 4, f"It is {SENTINEL}.", heard, history)


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_higher_levels_are_told_of_the_hint(level: int) -> None:
    assert SENTINEL in everything(load_prompts("v1"), level, f"It is {SENTINEL}.")


def test_level_1_is_told_keywords_alone() -> None:
    said = everything(load_prompts("v1"), 1, f"It is {SENTINEL} because nobody else would come.")
    assert "nobody else would come" not in said


def test_all_that_requests_share_comes_before_what_differs() -> None:
    prompts = load_prompts("v1")
    ladder = [prompts.messages(["User: hello"], "How many pens", level, "It is four.") for level in range(5)]
    assert all(messages[:-1] == ladder[0][:-1] for messages in ladder)
    asked = [messages[-1]["content"] for messages in ladder]
    assert len(set(asked)) == 5
    assert all(text.startswith("User: hello\nQuestion so far: How many pens") for text in asked)


def test_messages_alternate_and_end_with_the_user() -> None:
    roles = [message["role"] for message in load_prompts("v1").messages([], "How", 0, "Four.")]
    assert roles == ["system", *["user", "assistant"] * (len(roles) // 2 - 1), "user"]


@pytest.mark.parametrize(
    ("hint", "heard", "expected"),
    [
        ("Plants need carbon dioxide and light.", "which gas do plants", ["need", "carbon"]),
        ("It is ten.", "how many", []),
        ("The answer should have been Rome.", "which city", ["Rome"]),
    ],
)
def test_keywords_are_telling_words_that_were_not_said(hint: str, heard: str, expected: list[str]) -> None:
    assert keywords(hint, heard) == expected


def test_a_changed_text_changes_the_digest(tmp_path: Path) -> None:
    raw = yaml.safe_load(OURS.read_text(encoding="utf-8"))
    same, other = tmp_path / "same.yaml", tmp_path / "other.yaml"
    same.write_text(yaml.safe_dump(raw), encoding="utf-8")
    other.write_text(yaml.safe_dump(raw | {"system": "Be brief."}), encoding="utf-8")
    assert load_prompts(str(same)).digest == load_prompts("v1").digest
    assert load_prompts(str(other)).digest != load_prompts("v1").digest


def changed(**changes: Any) -> str:
    text: str = yaml.safe_dump(yaml.safe_load(OURS.read_text(encoding="utf-8")) | changes)
    return text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("version: [", "expected"),
        ("just text", "PromptSet"),
        ("", "PromptSet"),
        (changed(levels=["a", "b"]), "at least 5"),
        (changed(levels=["{hint}", "b", "c", "d", "e"]), "levels 1 to 4 only"),
        (changed(request="{history}{heard}{keywords}"), "levels 1 to 4 only"),
        (changed(system="{hint}"), "levels 1 to 4 only"),
        (changed(more="text"), "Extra inputs"),
    ],
    ids=["no YAML", "no mapping", "empty", "levels", "hint at 0", "hint in request", "hint in system", "more"],
)
def test_what_is_no_prompt_set_is_refused_with_the_reason(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=why):
        load_prompts(str(file))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be used"):
        load_prompts(str(tmp_path / "mine.yaml"))


def test_a_name_nobody_knows_is_answered_with_those_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no prompt set 'v9'.*Ours: .*v1"):
        load_prompts("v9")
    with pytest.raises(ConfigError, match="no prompt set"):
        load_prompts(str(tmp_path))
