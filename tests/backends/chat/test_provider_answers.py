"""What OpenAI, Anthropic and Google answer by their documentation (`provider_answers/README.md`), through the clients.

The clients, openai's library and the addresses are the real ones; a transport plays the answers, on a clock that jumps.
"""

import asyncio
import importlib
import json
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import looptime
import openai
import pytest

from backends.chat.batch_api import make_request_line
from backends.chat.cache import ReplyCache, make_reply_key
from backends.chat.client import OpenAIChatClient, ask_all
from backends.chat.faults import read_error
from backends.chat.limits import Delays
from backends.chat.live import OpenAILiveChat
from backends.chat.protocol import ChatReply, Endpoint
from backends.chat.providers import get_key_env, get_price, get_provider
from backends.chat.remote import RemoteEngine
from data_schemas.config import ChatConfig
from data_schemas.config.judge import JudgeConfig
from data_schemas.errors import AnswerRefused, BackendError, KameError, RequestError
from kame_model.evaluate.judge import Judge, Judgement, make_rating_request, make_verdict_request

ANSWERS = Path(__file__).with_name("provider_answers")
MODELS = {"openai": "gpt-4.1", "anthropic": "claude-opus-4-1", "google": "gemini-2.5-flash"}
"""The paper's three back-ends."""
PLACES = {
    "openai": "https://api.openai.com/v1/chat/completions",
    "anthropic": "https://api.anthropic.com/v1/chat/completions",
    "google": "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
}
TOKENS = {"openai": (1117, 1024, 7), "anthropic": (1204, None, 9), "google": (1093, None, 6)}
"""Read, of those from the provider's cache, and written, as the answers tell."""
WAITS_S = {"openai": 41.724, "anthropic": 45.0, "google": 45.837906927}
KEY = "sk-recorded-key"
PAYLOAD: dict[str, Any] = {
    "messages": [{"role": "user", "content": "What is half of forty?"}],
    "max_tokens": 20,
    "temperature": 0.0,
    "seed": 7,
    "stop": ["\n"],
}
NO_BACKOFF = Delays(first_backoff_s=0, gather_s=0)

HTTP_CLIENT = openai.DefaultAsyncHttpxClient
HTTP: Any = importlib.import_module(HTTP_CLIENT.__mro__[1].__module__.partition(".")[0])
"""httpx or httpx2, whichever openai's library is built on."""

_T = TypeVar("_T")


class Played:
    """Plays answers in the place of the network, one a request, the last one again and again; notes the requests."""

    def __init__(self, provider: str, *names: str, edit: Callable[[str], str] = str) -> None:
        self.requests: list[Any] = []
        self.times_s: list[float] = []
        self._texts = [edit((ANSWERS / provider / f"{name}.http").read_text(encoding="utf-8")) for name in names]
        self.client = partial(HTTP_CLIENT, transport=HTTP.MockTransport(self._answer))

    def bodies(self) -> list[dict[str, Any]]:
        """The bodies of the requests."""
        return [json.loads(request.content) for request in self.requests]

    def _answer(self, request: Any) -> Any:
        self.requests.append(request)
        self.times_s.append(asyncio.get_running_loop().time())
        text = self._texts[min(len(self.requests), len(self._texts)) - 1]
        head, _, body = text.partition("\n\n")
        status, *headers = head.splitlines()
        told = [tuple(line.split(": ", 1)) for line in headers]
        return HTTP.Response(int(status.split()[1]), headers=told, content=body.encode())


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Played]:
    """Has a provider's answers played to all clients; its key stands in the environment."""

    def playing(provider: str, *names: str, edit: Callable[[str], str] = str) -> Played:
        played = Played(provider, *names, edit=edit)
        monkeypatch.setattr(openai, "DefaultAsyncHttpxClient", played.client)
        monkeypatch.setenv(get_key_env(config_of(provider)), KEY)
        return played

    return playing


def config_of(provider: str, **more: Any) -> ChatConfig:
    """What `--llm-provider NAME --llm-model MODEL` makes."""
    return ChatConfig(engine="openai", provider=provider, model=MODELS[provider], **more)


def endpoint_of(provider: str) -> Endpoint:
    return RemoteEngine(config_of(provider)).describe()


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Runs it on a clock that jumps."""
    loop = looptime.new_event_loop(start=0)
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


async def ask(provider: str, folder: Path, n: int = 1, **more: Any) -> list[ChatReply | RequestError]:
    """The outcomes of so many payloads, by the client that keeps answers."""
    payloads = [PAYLOAD, *({**PAYLOAD, "max_tokens": 20 + number} for number in range(1, n))]
    with ReplyCache(folder / "replies.sqlite") as cache:
        config = config_of(provider, **more)
        async with OpenAIChatClient(endpoint_of(provider), config, cache, delays=NO_BACKOFF) as client:
            return await ask_all(client, payloads)


async def hear(provider: str) -> tuple[list[str], OpenAILiveChat]:
    """The pieces of a live answer."""
    chat = OpenAILiveChat(endpoint_of(provider), config_of(provider))
    async with chat, aclosing(chat.stream(PAYLOAD)) as pieces:
        return [piece async for piece in pieces if piece], chat


Play = Callable[..., Played]
providers = pytest.mark.parametrize("provider", MODELS)


@providers
def test_an_answer_is_read_with_its_tokens_and_asked_for_as_wanted(provider: str, tmp_path: Path, play: Play) -> None:
    played = play(provider, "answer")
    (reply,) = run(ask(provider, tmp_path))
    assert isinstance(reply, ChatReply)
    assert reply.text == "Half of forty is twenty."
    assert (reply.n_tokens_in, reply.n_tokens_cached, reply.n_tokens_out) == TOKENS[provider]
    assert reply.answered_by is not None
    assert reply.answered_by.startswith(MODELS[provider])
    (request,) = played.requests
    assert str(request.url) == PLACES[provider]
    assert get_price(config_of(provider), MODELS[provider]) is not None
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    (body,) = played.bodies()
    assert body["model"] == MODELS[provider]
    assert ("seed" in body) == (provider == "openai")
    assert ("max_completion_tokens" in body) == (provider == "openai")
    assert ("stop" in body) == (provider != "anthropic")


@providers
def test_a_live_answer_comes_in_pieces_with_its_tokens(provider: str, play: Play) -> None:
    played = play(provider, "stream")
    pieces, chat = run(hear(provider))
    assert pieces == ["Half of forty", " is twenty."]
    usage, (n_in, n_cached, n_out) = chat.usage, TOKENS[provider]
    assert (usage.n_tokens_in, usage.n_tokens_cached, usage.n_tokens_out) == (n_in, n_cached or 0, n_out)
    assert (usage.n_estimated, usage.n_failed) == (0, 0)
    (body,) = played.bodies()
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


@providers
def test_a_refusal_is_told_as_one_and_not_asked_for_again(provider: str, tmp_path: Path, play: Play) -> None:
    played = play(provider, "refusal")
    (outcome,) = run(ask(provider, tmp_path))
    assert isinstance(outcome, AnswerRefused)
    assert len(played.requests) == 1
    play(provider, "stream_refusal")
    with pytest.raises(AnswerRefused):
        run(hear(provider))


@providers
def test_a_rate_limit_is_waited_for_as_long_as_the_provider_asks(provider: str, tmp_path: Path, play: Play) -> None:
    played = play(provider, "rate_limited", "answer")
    (reply,) = run(ask(provider, tmp_path))
    assert isinstance(reply, ChatReply)
    first_s, second_s = played.times_s
    assert WAITS_S[provider] <= second_s - first_s < WAITS_S[provider] + 5


@providers
def test_an_account_that_is_used_up_stops_the_run_at_once(provider: str, tmp_path: Path, play: Play) -> None:
    played = play(provider, "used_up")
    with pytest.raises(BackendError, match="asks to wait 35652 s" if provider == "google" else "may spend no more"):
        run(ask(provider, tmp_path))
    assert len(played.requests) == 1


@providers
@pytest.mark.parametrize("is_live", [False, True])
def test_a_wrong_key_or_model_stops_the_run_and_hides_the_key(
    provider: str, is_live: bool, tmp_path: Path, play: Play
) -> None:
    for name, said in (
        ("wrong_key", f"refuses our key .*{get_key_env(config_of(provider))}"),
        ("unknown_model", f"cannot serve model '{MODELS[provider]}' .HTTP 404: .*{MODELS[provider]}"),
    ):
        played = play(provider, name)
        with pytest.raises(BackendError, match=said) as raised:
            run(hear(provider) if is_live else ask(provider, tmp_path))
        assert KEY not in str(raised.value)
        assert len(played.requests) == 1


@providers
def test_an_overloaded_provider_is_asked_again(provider: str, tmp_path: Path, play: Play) -> None:
    played = play(provider, "overloaded", "overloaded", "answer")
    (reply,) = run(ask(provider, tmp_path))
    assert isinstance(reply, ChatReply)
    assert len(played.requests) == 3


@providers
def test_a_bad_request_is_that_requests_own_and_quotes_the_provider(provider: str, tmp_path: Path, play: Play) -> None:
    said = {"openai": "does not support 1.5", "anthropic": "is deprecated", "google": 'Unknown name "seed"'}
    played = play(provider, "bad_request")
    (outcome,) = run(ask(provider, tmp_path))
    assert isinstance(outcome, RequestError)
    assert said[provider] in str(outcome)
    assert len(played.requests) == 1


@providers
def test_a_stream_that_breaks_off_is_an_error(provider: str, play: Play) -> None:
    play(provider, "stream_broken")
    with pytest.raises(KameError, match="gave no whole answer"):
        run(hear(provider))


@providers
def test_a_judge_that_the_provider_has_refuse_is_counted_so(provider: str, tmp_path: Path, play: Play) -> None:
    play(provider, "refusal")
    with ReplyCache(tmp_path / "replies.sqlite") as cache:
        judge = Judge(endpoint_of(provider), JudgeConfig(chat=config_of(provider)), cache)
        asked = "What is half of forty?"
        requests = [make_rating_request([asked], ["Twenty."]), make_verdict_request(asked, "20", "Twenty.")]
        assert judge.judge(requests) == [Judgement(None, "refused")] * 2


def test_a_batch_of_openais_brings_answers_refusals_and_errors(tmp_path: Path, play: Play) -> None:
    """Three requests in one file; of its answers one is a refusal, and one request was a bad one."""
    config, endpoint = config_of("openai", transport="batch"), endpoint_of("openai")
    keys = [make_reply_key(endpoint, {**PAYLOAD, "max_tokens": 20 + number}, 0) for number in range(3)]

    def with_keys(text: str) -> str:
        for number, key in enumerate(keys):
            text = text.replace(f"KEY_{number}", key)
        return text

    names = ("batch_upload", "batch_made", "batch_ended", "batch_answers", "batch_errors")
    played = play("openai", *names, edit=with_keys)
    answered, refused, wrong = run(ask("openai", tmp_path, n=3, transport="batch"))
    assert isinstance(answered, ChatReply)
    assert (answered.text, answered.n_tokens_cached) == ("Half of forty is twenty.", 1024)
    assert isinstance(refused, AnswerRefused)
    assert isinstance(wrong, RequestError)
    assert "Invalid value for 'stop'." in str(wrong)
    paths = [request.url.path for request in played.requests]
    assert paths == [
        "/v1/files",
        "/v1/batches",
        "/v1/batches/batch_abc123",
        "/v1/files/file-cvaTdG/content",
        "/v1/files/file-HOWS94/content",
    ]
    body = get_provider(config).make_body(PAYLOAD, MODELS["openai"])
    assert make_request_line(keys[0], body) in played.requests[0].content


@pytest.mark.parametrize("body", [None, [], [1], "no", {"error": "no"}, {"error": {"details": [{"retryDelay": 4}]}}])
def test_an_error_of_no_form_that_is_known_says_nothing(body: object) -> None:
    told = read_error(body)
    assert (told.message, told.codes, told.wait_s) == ("", frozenset(), 0.0)
