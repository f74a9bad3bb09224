"""Prompts of the server, and what a caller may ask for."""

from pathlib import Path

import pytest

from data_schemas.errors import ConfigError
from kame_model.serve.oracle.prompts import Instructions, Prompt, choose_prompt, list_prompts, load_prompt
from pipelines.oracle.prompts import load_prompts

TANDEM = load_prompt("tandem")


def test_a_request_has_system_examples_history_and_the_turn_last() -> None:
    before = ["User: Hello.", "Assistant: Hi there ..."]
    unfinished = TANDEM.make_messages(before, "how far is", is_finished=False)
    finished = TANDEM.make_messages(before, "how far is it", is_finished=True)
    examples = ["user", "assistant"] * len(TANDEM.examples)
    assert [message["role"] for message in unfinished] == ["system", *examples, "user"]
    last = "User: Hello.\nAssistant: Hi there ...\nUser (unfinished): how far is ..."
    assert unfinished[-1]["content"].startswith(last)
    assert "User: how far is it" in finished[-1]["content"]
    assert unfinished[:-1] == finished[:-1], "what a server's prefix cache serves"
    told = TANDEM.make_messages(["User: {heard} {history}"], "what is {history}", is_finished=True)[-1]["content"]
    assert "what is {history}" in told, "braces are words"


def test_the_unfinished_turn_looks_as_it_does_in_training() -> None:
    """Oracles of serving and of training are asked for in the same form: history, turn, cut-off marks."""
    training = load_prompts("v2").make_messages(["User: Hello."], "how far is", 0, "")[-1]["content"].splitlines()
    serving = TANDEM.make_messages(["User: Hello."], "how far is", is_finished=False)[-1]["content"].splitlines()
    assert serving[:2] == training[:2]


@pytest.mark.parametrize("name", list_prompts())
def test_ours_ask_for_spoken_words_and_end_at_the_line(name: str) -> None:
    prompt = load_prompt(name)
    assert "\n" in prompt.stop
    for example in prompt.examples:
        assert 3 <= len(example.reply.split()) <= 30
        assert not any(char.isdigit() for char in example.reply + example.heard)


def test_a_caller_s_instructions_stand_in_the_place_of_ours_and_the_form_stays() -> None:
    own = choose_prompt("You are a pirate and only talk of ships.", TANDEM)
    system = own.make_messages([], "hello", is_finished=True)[0]["content"]
    assert system.startswith("You are a pirate")
    assert TANDEM.system.strip() in system
    assert TANDEM.instructions.strip() not in system
    assert choose_prompt(" ", own) is own
    assert choose_prompt("tandem", own) == TANDEM
    for wish in ("nothing-like-it", "/etc/passwd", "../prompts"):
        with pytest.raises(ConfigError):
            choose_prompt(wish, TANDEM)


@pytest.mark.parametrize("text", ["Brief.", "tandem", "/etc/passwd"])
def test_what_is_said_to_be_instructions_is_no_name(text: str) -> None:
    assert choose_prompt(Instructions(f" {text}\n"), TANDEM) == TANDEM.with_instructions(text)
    assert choose_prompt(Instructions(" "), TANDEM) is TANDEM


def test_a_prompt_of_the_operator_s_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("version: mine\ninstructions: a\nsystem: b\nunfinished: '{heard}?'\nfinished: '{heard}'\n")
    assert load_prompt(str(path)) == Prompt(
        version="mine", instructions="a", system="b", unfinished="{heard}?", finished="{heard}"
    )
    with pytest.raises(ConfigError, match="Choose one of: "):
        load_prompt(str(tmp_path / "none.yaml"))
    path.write_text("version: [")
    with pytest.raises(ConfigError, match="is not valid"):
        load_prompt(str(path))
