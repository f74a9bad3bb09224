"""Prompt sets: what each level is told, and what is no prompt set."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from data_schemas.config import ChatConfig, OracleConfig
from data_schemas.errors import ConfigError
from pipelines.oracle.hints import find_keywords, make_hint_fields
from pipelines.oracle.plan import PlannedRequest
from pipelines.oracle.prompts import (
    PromptTexts,
    choose_prompts,
    find_prompt_set,
    list_prompt_sets,
    load_prompts,
    make_payload,
)
from spoken.spoken_text import split_words

OURS = Path(__file__).resolve().parents[3] / "pipelines" / "oracle" / "prompt_sets" / "v2.yaml"
SENTINEL = "Zyzzyva"
OUR_SETS = ["v2", "whole"]
TELLING = {"forty", "two", "boxes", "seven", "stand", "six", "rows", "yellow", "house"}


def everything(prompts: PromptTexts, level: int, hint: str, heard: str = "How many", history: Any = ()) -> str:
    return "\n".join(message["content"] for message in prompts.make_messages(history, heard, level, hint))


@given(
    heard=st.lists(st.sampled_from(["how", "many", "pens", "has", "{hint}", "{notes}", "{keywords}"])).map(" ".join),
    n_turns=st.integers(0, 4),
    name=st.sampled_from(OUR_SETS),
)
@pytest.mark.full
def test_level_0_never_contains_the_hint(heard: str, n_turns: int, name: str) -> None:
    history = [f"{who}: hello" for who in ("User", "Assistant") * 2][:n_turns]
    prompts = load_prompts(name)
    assert SENTINEL not in everything(prompts, 0, f"It is {SENTINEL}.", heard, history)
    assert SENTINEL in everything(prompts, 4, f"It is {SENTINEL}.", heard, history)


@pytest.mark.parametrize("level", [1, 2, 3, 4])
@pytest.mark.parametrize("name", OUR_SETS)
@pytest.mark.parametrize("speaker", ["A", "B"])
def test_higher_levels_are_told_of_the_hint(level: int, name: str, speaker: str) -> None:
    texts = load_prompts(name).get_texts(speaker)
    assert SENTINEL in everything(texts, level, f"{SENTINEL}, green {SENTINEL} and blue {SENTINEL}.")


@pytest.mark.parametrize("name", OUR_SETS)
def test_each_level_is_shown_no_less_than_the_one_before(name: str) -> None:
    hint = "It is forty two boxes because seven boxes stand in each of six rows behind the yellow house."
    shown = []
    for level in range(5):
        instruction = everything(load_prompts(name), level, hint).rsplit("How many", 1)[-1]
        shown.append(sum(word in instruction for word in sorted(set(split_words(hint)) & TELLING)))
    assert shown[0] == 0
    assert shown == sorted(shown)
    assert name == "whole" or shown[1] < shown[2] < shown[3]


@pytest.mark.parametrize("name", OUR_SETS)
def test_all_that_requests_share_comes_before_what_differs(name: str) -> None:
    prompts = load_prompts(name)
    ladder = [prompts.make_messages(["User: hello"], "How many pens", level, "It is four.") for level in range(5)]
    assert all(messages[:-1] == ladder[0][:-1] for messages in ladder)
    asked = [messages[-1]["content"] for messages in ladder]
    assert len(set(asked)) == 5
    assert all(text.startswith("User: hello\nUser (unfinished): How many pens ...\nHidden") for text in asked)
    roles = [message["role"] for message in ladder[0]]
    assert roles == ["system", *["user", "assistant"] * (len(roles) // 2 - 1), "user"]


@pytest.mark.parametrize("attempt", [1, 2])
def test_another_attempt_samples_by_a_seed_of_its_own(attempt: int) -> None:
    def payload(number: int, temperature: float = 0.0) -> dict[str, Any]:
        request = PlannedRequest("A", (), "How many pens", 0, "It is four.")
        return make_payload(load_prompts("v2"), request, OracleConfig(temperature=temperature), 7, number)

    assert payload(attempt)["messages"] == payload(0)["messages"]
    assert len({payload(number)["seed"] for number in range(3)}) == 3
    assert payload(0)["temperature"] == 0.0
    assert payload(attempt)["temperature"] > 0.5
    assert payload(attempt, temperature=1.2)["temperature"] == 1.2


@pytest.mark.parametrize(
    ("chat", "version"),
    [
        ({}, "v2"),
        ({"model": "mine.gguf"}, "v2"),
        ({"engine": "double"}, "v2"),
        ({"engine": "vllm"}, "whole-1"),
        ({"engine": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "large"}, "whole-1"),
        ({"engine": "openai", "provider": "anthropic", "model": "large"}, "whole-1"),
    ],
)
def test_who_names_no_prompts_is_given_those_for_the_model(chat: dict[str, str], version: str) -> None:
    config = ChatConfig.model_validate(chat)
    assert choose_prompts(OracleConfig(), config).version == version
    assert choose_prompts(OracleConfig(prompt="v2"), config).version == "v2"


def test_our_sets_are_found_by_name_and_by_digest_of_their_text(tmp_path: Path) -> None:
    assert list_prompt_sets() == OUR_SETS
    assert all(find_prompt_set(load_prompts(name).digest) == load_prompts(name) for name in OUR_SETS)
    assert find_prompt_set("0123456789abcdef") is None
    with pytest.raises(ConfigError, match=r"no prompt set 'v9'.*Choose one of: .*v2"):
        load_prompts("v9")
    with pytest.raises(ConfigError, match="no prompt set"):
        load_prompts(str(tmp_path))
    raw = yaml.safe_load(OURS.read_text(encoding="utf-8"))
    same, other = tmp_path / "same.yaml", tmp_path / "other.yaml"
    same.write_text(yaml.safe_dump(raw), encoding="utf-8")
    other.write_text(yaml.safe_dump(raw | {"system": "Be brief."}), encoding="utf-8")
    assert load_prompts(str(same)).digest == load_prompts("v2").digest
    assert load_prompts(str(other)).digest != load_prompts("v2").digest


@pytest.mark.parametrize(
    ("hint", "heard", "expected"),
    [
        ("Plants need carbon dioxide and light.", "which gas do plants", ["need"]),
        ("Green plants need carbon dioxide and some sun light.", "which gas do plants", ["Green", "need"]),
        ("It is ten.", "how many", []),
        ("The answer should have been Rome.", "which city", []),
        ("It was Rome, in the year three hundred.", "which city", ["Rome"]),
    ],
)
def test_keywords_are_telling_words_that_were_not_said(hint: str, heard: str, expected: list[str]) -> None:
    assert find_keywords(hint, heard) == expected


def test_notes_are_the_telling_words_half_of_them_every_second_note_and_none_where_there_are_none() -> None:
    shown = make_hint_fields("It is Paris, which has been the capital of France. The river is the Seine.", "which city")
    assert shown["notes"] == "Paris, capital, France, river, Seine"
    assert shown["half_notes"] == "capital, river"
    assert shown["keywords"] == "Paris"
    assert make_hint_fields("It is ten.", "how many")["keywords"] == "none"
    assert make_hint_fields("It is the one.", "how many")["notes"] == "one"
    assert set(make_hint_fields("That is it.", "how many").values()) == {"That is it.", "none"}


@pytest.mark.parametrize(("hint", "half"), [("Penetration pricing.", "Penetration"), ("Heuristics.", "none")])
def test_of_a_short_hint_half_the_notes_are_less_than_all(hint: str, half: str) -> None:
    shown = make_hint_fields(f"It is {hint}", "what is it called")
    assert (shown["keywords"], shown["half_notes"], shown["notes"]) == ("none", half, hint.rstrip("."))


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
        (b"\xff\xfe\x00", "is not valid"),
    ],
    ids=[
        "no YAML", "no mapping", "empty", "levels", "hint at 0", "hint in request", "hint in system", "more", "no text",
    ],
)  # fmt: skip
def test_what_is_no_prompt_set_is_refused_with_the_reason(tmp_path: Path, text: str | bytes, why: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=why):
        load_prompts(str(file))
