"""Why a chat model fails stands in the log for who runs the server; what it said, and keys, do not."""

import asyncio

import pytest

from backends.chat.live import OpenAILiveChat
from data_schemas.config import ChatConfig
from data_schemas.config.serving import BackEndConfig, ListenerConfig, ServeConfig
from data_schemas.errors import BackendError, KameError
from kame_model.serve.parts import build_parts
from kame_model.text.tokenizer import Tokenizer
from tests.support.cascade_talk import SlowChat, Talk
from tests.support.streaming_chat import StreamingChat, serving
from tests.support.timed_chat import CycleTalk, TimedChat

SECRET = "sk-very-secret"
DOWN = BackendError(f"It said: no such key {SECRET}, you asked 'How many litres'.", "Put a valid key into X.", "401")
TOLD = "failed: HTTP 401. Put a valid key into X."


def test_a_cycle_s_back_end(tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture) -> None:
    talk = CycleTalk(tokenizer, {"a": TimedChat([(0.01, DOWN)]), "b": TimedChat([(60.0, "late")])})

    async def course() -> None:
        await talk.speaks("How many litres are in a tank of this kind")
        talk.use("b")
        talk.user("How many litres", is_final=True)
        await asyncio.sleep(20)

    talk.runs(course)
    assert caplog.messages == [f"Back-end a {TOLD}", "Back-end b failed: timeout."]
    assert talk.counts.n_failed > 2


def test_a_cascade_s_back_end(caplog: pytest.LogCaptureFixture) -> None:
    talk = Talk(SlowChat([DOWN], [DOWN]))
    talk.plays("How many litres?", 20, "How many litres?", 20)
    assert caplog.messages == [f"Back-end default {TOLD}"]
    assert talk.counts.n_failed == 2


@pytest.mark.parametrize("status", [400, 401, 404, 429, 503])
async def test_a_live_answer_s_error_has_the_status_and_a_remedy_without_the_server_s_words(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAME_LLM_API_KEY", SECRET)

    server = StreamingChat()
    server.status = status
    config = ChatConfig(engine="openai", base_url="http://localhost/v1")
    async with serving(server) as endpoint, OpenAILiveChat(endpoint, config) as chat:
        with pytest.raises(KameError) as raised:
            _ = [piece async for piece in chat.stream({"messages": [{"role": "user", "content": "Hi"}]})]
    assert raised.value.status == str(status)
    assert bool(raised.value.remedy) == (status != 400)
    assert SECRET not in raised.value.remedy


def test_where_a_back_end_is_stands_without_what_else_its_url_has() -> None:
    chat = ChatConfig(engine="openai", base_url=f"http://10.0.0.5:8000/{SECRET}/v1", model="any")

    async def place() -> str:
        config = ServeConfig(
            checkpoint="tiny", back_ends=[BackEndConfig(chat=chat)], listener=ListenerConfig(engine="double")
        )
        async with build_parts(config) as parts:
            return parts.back_ends["default"].place

    assert asyncio.run(place()) == "10.0.0.5:8000"
