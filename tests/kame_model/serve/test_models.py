"""Another model of the same back-end, chosen by a caller from those that the operator allows, in mid-conversation."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from data_schemas.config.serving import BackEndConfig, RouteConfig
from data_schemas.errors import ConfigError
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.oracle.routing import BackEnd, Choice, Router
from kame_model.serve.parts import build_parts
from kame_model.serve.server import KameServer
from tests.support.serving import Client, RepeatingChat, doubles, inline, serve_config, tiny_checkpoint
from tests.support.streaming_chat import StreamingChat, serving

pytestmark = pytest.mark.full


def back_end(name: str, *models: str) -> BackEnd:
    return BackEnd(name, RepeatingChat(), load_prompt("tandem"), models={each: RepeatingChat() for each in models})


def asked(choice: Choice, text: str = "hello") -> BackEnd:
    return asyncio.run(choice.choose_back_end(text))


def test_a_model_is_chosen_among_those_of_the_back_end() -> None:
    back_ends = {"a": back_end("a", "big", "huge"), "b": back_end("b", "small")}
    choice = Choice(back_ends, Router(list(back_ends)))
    assert asked(choice).chat is back_ends["a"].chat
    assert choice.use(model="big")
    assert not choice.use(model="big")
    assert (choice.model, asked(choice).chat) == ("big", back_ends["a"].models["big"])
    assert not choice.use(back_end="a")  # the same again: the model stays
    for wrong in ({"model": "small"}, {"back_end": "b", "model": "big"}, {"back_end": "b", "model": "gpt-9"}):
        with pytest.raises(ConfigError, match="has no model"):
            choice.use(**wrong)
    assert (choice.own, choice.model) == ("a", "big")
    assert choice.use(back_end="b")  # which has no such model
    assert (choice.model, asked(choice).chat) == ("", back_ends["b"].chat)
    assert choice.use(back_end="a", model="huge")
    assert choice.use(model="")
    assert asked(choice).chat is back_ends["a"].chat
    by_rules = Choice(back_ends, Router(list(back_ends), [RouteConfig(words=["sum"], back_end="b")]))
    by_rules.use(model="big")
    assert asked(by_rules, "the sum").chat is back_ends["b"].chat, "with its own model"
    assert asked(by_rules, "the rest").chat is back_ends["a"].models["big"]


def test_an_embedded_engine_has_the_one_model() -> None:
    with pytest.raises(ValidationError, match="models: only a remote endpoint"):
        BackEndConfig.model_validate({"chat": {"engine": "llamacpp"}, "models": ["other"]})


async def test_each_model_is_asked_for_by_its_name_and_counted() -> None:
    chat = StreamingChat("It is ", "five.")
    async with serving(chat) as endpoint:
        remote = {"engine": "openai", "base_url": endpoint.base_url, "model": "small"}
        config = serve_config(
            back_ends=[{"name": "fast", "chat": remote, "models": ["big", "small"]}], listener={"engine": "double"}
        )
        async with build_parts(config) as parts:
            fast = parts.back_ends["fast"]
            assert list(fast.models) == ["small", "big"]
            assert fast.models["small"] is fast.chat
            question = {"messages": [{"role": "user", "content": "How many?"}], "max_tokens": 20}
            for each in (fast.chat, fast.models["big"], fast.models["big"]):
                assert [piece async for piece in each.stream(question)] == ["It is ", "five."]
            assert [body["model"] for body in chat.bodies] == ["small", "big", "big"]
            assert {name: usage.n_requests for name, usage in parts.usage().items()} == {"fast": 1, "fast/big": 2}


@pytest.mark.looptime
async def test_a_session_changes_its_model_without_a_gap(tmp_path: Path) -> None:
    only = back_end("default", "big")
    parts = replace(doubles(), back_ends={"default": only})
    async with KameServer(tiny_checkpoint(tmp_path), serve_config(), parts, run=inline) as server:
        session = await server.open_session("here")
        client = Client(session)
        await client.talk(["alpha"] * 9 + [None] * 6)
        session.change(model="big")
        await client.talk(["bravo"] * 9 + [None] * 6)
        with pytest.raises(ConfigError, match="has no model 'gpt-9'"):
            session.change(model="gpt-9", mode="direct")
        assert (session.mode, session.model) == ("tandem", "big")
        session.reset()
        await session.close("bye")
        await client.over()
    assert len(client.frames) == 30
    first, big = only.chat, only.models["big"]
    assert isinstance(first, RepeatingChat)
    assert isinstance(big, RepeatingChat)
    assert "bravo" not in str([payload["messages"][-1] for payload in first.asked])
    assert "bravo" in str(big.asked[-1]["messages"][-1])
    assert client.told("changed") == [{"mode": "tandem", "back_end": "default", "model": "big"}]
    assert client.told("started")[-1]["model"] == "big"
