"""What a cascade asks, of whom, and what happens when the chat model fails or does not end."""

import asyncio
import gc
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from data_schemas.config.serving import RouteConfig
from data_schemas.errors import BackendError, ConfigError, UnexpectedThought
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.oracle.routing import BackEnd, Choice, Router
from tests.support.cascade_talk import SlowChat, Talk


def test_the_chat_model_is_told_what_was_said_before() -> None:
    chat = SlowChat(["It is nine."], ["Ten."])
    Talk(chat).plays("What is four and five?", 60, "And one more?", 60)
    last = chat.asked[1]["messages"][-1]["content"]
    assert "What is four and five?" in last
    assert "It is nine." in last
    assert last.index("It is nine.") < last.index("And one more?")


def test_a_turn_without_words_asks_for_nothing() -> None:
    chat = SlowChat()
    talk = Talk(chat)
    talk.plays(lambda: talk.cascade.on_turn_end("  "), 5)
    assert chat.asked == []


@pytest.mark.parametrize(
    ("pieces", "gap_s", "reason"),
    [
        ([BackendError("nobody there")], 0.1, "nobody there"),
        ([ConfigError("No chat model is named.", "Name one.")], 0.1, "No chat model is named."),
        (["Never."], 60.0, "nothing came for 5 s"),
        (["Rings? ", "It may be. ", UnexpectedThought("It thinks aloud.")], 0.0, "It thinks aloud."),
    ],
)
def test_a_chat_model_that_fails_is_told_and_the_next_turn_is_answered(
    pieces: list[str | Exception], gap_s: float, reason: str
) -> None:
    chat = SlowChat(pieces, ["All is well."], gap_s=gap_s)
    talk = Talk(chat)
    talk.plays("Are you there?", 100, lambda: setattr(chat, "gap_s", 0.1), "Are you there now?", 60)
    assert talk.told("oracle_failed") == [{"oracle": "cascade-1", "back_end": "default", "reason": reason}]
    assert talk.text == " All is well."
    assert chat.n_open == 0
    assert (talk.counts.n_asked, talk.counts.n_failed, talk.counts.n_answered) == (2, 1, 1)


def test_an_answer_without_end_is_cut_and_told(caplog: pytest.LogCaptureFixture) -> None:
    chat = SlowChat(["one "] * 10_000, ["x" * 10_000] * 10, gap_s=0.0)
    talk = Talk(chat, max_tokens=20)
    talk.plays("Count.", 400, "And once more.", 400)
    assert [each["n_tokens"] for each in talk.told("oracle_done")] == [40, 1]
    assert chat.n_open == 0
    assert "far more than the requested 20 tokens" in caplog.text


def test_rules_and_the_session_s_own_wish_choose_whom_the_cascade_asks() -> None:
    plain, maths = (SlowChat(["Yes."] * 3) for _ in range(2))
    back_ends = {
        name: BackEnd(name, chat, load_prompt("tandem"), answer_prompt=load_prompt("cascade"), answer_max_tokens=99)
        for name, chat in (("plain", plain), ("maths", maths))
    }
    choice = Choice(back_ends, Router(list(back_ends), [RouteConfig(words=["litres"], back_end="maths")]))
    talk = Talk(choice)
    talk.plays("How many litres?", 30, lambda: choice.use(prompt="You speak like a pirate."), "Who are you?", 30)
    assert [each["back_end"] for each in talk.told("oracle_asked")] == ["maths", "plain"]
    assert [each.asked[0]["max_tokens"] for each in (maths, plain)] == [99, 99]
    system = load_prompt("cascade").system.strip()
    assert system in maths.asked[0]["messages"][0]["content"]
    assert plain.asked[0]["messages"][0]["content"] == f"You speak like a pirate. {system}"
    assert (talk.counts.n_asked, talk.counts.n_answered) == (2, 2)


@pytest.mark.full
def test_nothing_that_fails_after_the_user_has_spoken_in_is_left_for_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(SlowChat):
        async def stream(self, payload: dict[str, Any]) -> AsyncGenerator[str, None]:
            try:
                await asyncio.sleep(100)
            finally:
                raise BackendError("the connection was closed in disorder")
            yield ""

    def interrupted() -> None:
        talk = Talk(Stubborn())
        talk.plays("Who are you?", 3, talk.cascade.on_speech_started, 3)
        assert talk.told("oracle_failed") == []
        assert (talk.counts.n_given_up, talk.counts.n_failed) == (1, 0)

    interrupted()
    gc.collect()  # a task tells when it goes
    assert "never retrieved" not in caplog.text
