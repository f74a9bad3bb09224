"""A session's requests to a chat model that thinks, or writes what cannot be said; on a clock that jumps."""

import asyncio
from pathlib import Path

import pytest

from data_schemas.errors import RequestError, UnexpectedThought
from kame_model.text.tokenizer import Tokenizer
from tests.support.timed_chat import QUICK, SIXTY, CycleTalk, Step, TimedChat
from tests.support.vocabularies import make_vocabulary


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder: Path = tmp_path_factory.mktemp("vocabulary")
    return make_vocabulary(folder)


def told(chat: TimedChat, tokenizer: Tokenizer) -> CycleTalk:
    """A talk in which one question was asked, and time has passed."""
    talk = CycleTalk(tokenizer, {"a": chat}, first_token_timeout_s=2.0)

    async def course() -> None:
        talk.user("How many litres", is_final=True)
        await asyncio.sleep(60)

    talk.runs(course)
    return talk


def test_an_answer_after_a_thought_that_is_longer_than_silence_may_be_is_heard(tokenizer: Tokenizer) -> None:
    chat = TimedChat([*[(1.0, "")] * 6, *QUICK])
    talk = told(chat, tokenizer)
    assert (talk.queued(), len(chat.asked_s), talk.told("oracle_failed")) == (SIXTY, 1, [])


def test_a_thought_that_takes_too_long_is_told_once_and_cancelled(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(1.0, "")] * 100)
    talk = told(chat, tokenizer)
    assert [each["reason"] for each in talk.told("oracle_failed")] == ["The chat model was still thinking after 10 s."]
    assert chat.given_up == [0]


def test_a_request_that_fails_is_asked_again(tokenizer: Tokenizer) -> None:
    chat = TimedChat([(0.1, RequestError("It broke."))], [(0.5, ""), *QUICK])
    talk = told(chat, tokenizer)
    assert (talk.queued(), len(chat.asked_s)) == (SIXTY, 2)


def test_what_was_thought_and_waits_to_be_whispered_is_withdrawn_and_asked_for_once(tokenizer: Tokenizer) -> None:
    thought: list[Step] = [*QUICK, (0.1, UnexpectedThought("It thinks aloud."))]
    chat = TimedChat(thought)
    talk = told(chat, tokenizer)
    assert [each["reason"] for each in talk.told("oracle_failed")] == ["It thinks aloud."]
    assert (talk.queued(), len(chat.asked_s)) == ("", 1)


def test_what_cannot_be_said_is_asked_for_once(tokenizer: Tokenizer) -> None:
    answer: list[Step] = [(0.1, "你好")]
    chat = TimedChat(answer)
    talk = told(chat, tokenizer)
    assert [each["reason"] for each in talk.told("oracle_failed")] == ["The answer cannot be said (non_latin: 你好)."]
    assert len(chat.asked_s) == 1
