"""Several servers of one chat model: who is asked, who is left out, and that nothing depends on who answered."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from backends.chat.cache import StoredReply, make_reply_key
from backends.chat.double import DoubleEngine
from backends.chat.faults import NO_CONNECTION, TryAgainError, UnusableAnswerError, make_timeout_error
from backends.chat.live import OpenAILiveChat
from backends.chat.providers import get_endpoint_name
from backends.chat.remote import RemoteEngine
from backends.chat.servers import FIRST_LEFT_OUT_S, LONGEST_LEFT_OUT_S, EndpointServer, EndpointServers
from data_schemas.config import ChatConfig
from data_schemas.errors import BackendError, ConfigError
from data_schemas.fingerprint import dump_relevant_fields
from tests.backends.chat.chatting import QUICK, asking, numbered, use
from tests.support.chat_server import MODEL, Behaviour, ChatServer, served


def config_of(*urls: str, **more: object) -> ChatConfig:
    """The servers' configuration."""
    return ChatConfig.model_validate({"engine": "openai", "base_url": list(urls), "model": MODEL, **more})


@contextmanager
def servers_of(*behaviours: Behaviour) -> Iterator[list[tuple[str, ChatServer]]]:
    """Base URLs and servers."""
    with ExitStack() as stack:
        pairs = [stack.enter_context(served(behaviour)) for behaviour in behaviours]
        yield [(f"{root}/v1", server) for root, server in pairs]


def nobody() -> str:
    """The base URL of a port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


class Clock:
    """Seconds that go on when they are told to."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def ask(servers: EndpointServers, fault: TryAgainError | None = None) -> EndpointServer:
    """One request, to its end."""
    server = servers.choose()
    try:
        with servers.track_request(server):
            if fault is not None:
                raise fault
    except TryAgainError:
        pass
    return server


def test_who_has_fewest_requests_to_answer_is_asked() -> None:
    servers = EndpointServers(["a", "b", "c"], Clock())
    with ExitStack() as stack:
        asked = []
        for _ in range(6):
            asked.append(servers.choose())
            stack.enter_context(servers.track_request(asked[-1]))
        assert [each.url for each in asked] == ["a", "b", "c", "a", "b", "c"]
    with servers.track_request(servers.all[0]):
        assert {ask(servers).url for _ in range(8)} == {"b", "c"}
    assert [each.n_asked for each in servers.all] == [0, 0, 0]


def test_a_server_that_failed_is_left_out_then_tried_by_one_request_and_trusted_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    servers = EndpointServers(["http://key@a:1/v1", "http://b:2/v1"], clock)
    assert ask(servers, TryAgainError("x", NO_CONNECTION, endpoint_gone=True)) is servers.all[0]
    assert "The chat server at a:1 gets no requests for 2 s: no connection." in caplog.text
    assert {ask(servers).url for _ in range(5)} == {"http://b:2/v1"}
    clock.now_s += FIRST_LEFT_OUT_S
    with servers.track_request(servers.choose()) as _:
        assert servers.all[0].n_asked == 1
        assert ask(servers) is servers.all[1]  # one request alone finds out
    assert "The chat server at a:1 answers again." in caplog.text
    with servers.track_request(servers.all[1]):
        assert ask(servers) is servers.all[0]


def test_the_longer_it_fails_the_longer_it_is_left_out_and_requests_together_count_as_one() -> None:
    clock, fault = Clock(), TryAgainError("x", "500")
    servers = EndpointServers(["a", "b"], clock)
    waits_s = []
    for _ in range(8):
        server = servers.all[0]
        together = [servers.track_request(server) for _ in range(5)]
        for each in together:
            each.__enter__()
        clock.now_s += 1
        for each in together:
            assert not each.__exit__(type(fault), fault, None)  # the fault goes on to who asked
        waits_s.append(server.left_out_s[1] - clock.now_s)
        clock.now_s = server.left_out_s[1]
    assert waits_s == [2, 4, 8, 16, 32, LONGEST_LEFT_OUT_S, LONGEST_LEFT_OUT_S, LONGEST_LEFT_OUT_S]


def test_an_answer_without_a_text_and_the_only_server_leave_nobody_out() -> None:
    servers = EndpointServers(["a", "b"], Clock())
    paid = StoredReply("", 1, None, 1)
    ask(servers, UnusableAnswerError("no text", paid, is_final=False))
    assert [each.n_failed for each in servers.all] == [0, 0]
    only = EndpointServers(["a"], Clock())
    ask(only, TryAgainError("x", NO_CONNECTION, endpoint_gone=True))
    assert (only.all[0].n_failed, ask(only)) == (0, only.all[0])


def test_a_server_is_left_out_as_long_as_it_asks_and_where_all_are_the_first_to_come_back_is_asked() -> None:
    clock = Clock()
    servers = EndpointServers(["a", "b"], clock)
    ask(servers, TryAgainError("x", NO_CONNECTION, endpoint_gone=True))
    clock.now_s += 1
    ask(servers, TryAgainError("x", "429", overloaded=True, retry_after_s=300))
    assert servers.all[1].left_out_s[1] == clock.now_s + 300
    assert servers.choose() is servers.all[0]
    assert servers.choose([servers.all[0]]) is servers.all[1]


def test_only_what_a_server_has_not_worked_on_goes_to_another_at_once() -> None:
    servers = EndpointServers(["a", "b"], Clock())
    moves = [
        (TryAgainError("x", NO_CONNECTION, endpoint_gone=True), True),
        (TryAgainError("x", "429", overloaded=True), True),
        (make_timeout_error("x", was_taken=False), True),
        (make_timeout_error("x"), False),
        (TryAgainError("x", "cut off", endpoint_gone=True, may_be_paid=True), False),
        (TryAgainError("x", "500"), False),
    ]
    assert [servers.may_ask_another(fault, servers.all[:1]) for fault, _ in moves] == [moved for _, moved in moves]
    assert not servers.may_ask_another(moves[0][0], servers.all)


def test_a_list_is_typed_with_commas_or_written_in_yaml_and_each_url_is_checked() -> None:
    typed = ChatConfig(engine="openai", base_url="http://a/v1, http://b/v1/")
    assert typed.base_urls == config_of("http://a/v1", "http://b/v1").base_urls == ["http://a/v1", "http://b/v1"]
    assert (typed.n_in_flight, ChatConfig(engine="openai", base_url="http://a/v1").n_in_flight) == (128, 64)
    for wrong, told in (
        (["http://a/v1", "b/v1"], "must begin with http"),
        (["http://a/v1", "http://u:secret@b/v1"], "user, password"),
        (["http://a/v1", "http://b:port/v1"], "the port .* must be a number"),
        (["http://a/v1", "http://a/v1/"], "is listed twice"),
        ([], "must begin with http"),
    ):
        with pytest.raises(ValidationError, match=told):
            config_of(*wrong)
    with pytest.raises(ValidationError, match="transport batch needs one base_url"):
        config_of("http://a/v1", "http://b/v1", transport="batch")


def test_identity_does_not_see_how_many_servers_there_are() -> None:
    one, two = config_of("http://a/v1"), config_of("http://a/v1", "http://b:9/v1")
    assert dump_relevant_fields(one) == dump_relevant_fields(two)
    assert get_endpoint_name(one) == get_endpoint_name(two) == "a"
    payload = numbered(1)[0]
    keys = {make_reply_key(RemoteEngine(each).describe(), payload, 0) for each in (one, two)}
    assert len(keys) == 1
    named = [config_of(*urls, endpoint="ours") for urls in (["http://a/v1"], ["http://b/v1", "http://a/v1"])]
    assert len({make_reply_key(RemoteEngine(each).describe(), payload, 0) for each in named}) == 1


@pytest.mark.full
def test_a_slow_server_gets_fewer_requests_and_every_answer_is_the_same(tmp_path: Path) -> None:
    with servers_of(Behaviour(first_token_s=0.4), Behaviour()) as ((slow_url, slow), (quick_url, quick)):
        config = config_of(slow_url, quick_url, max_in_flight=4, endpoint="ours")
        endpoint = RemoteEngine(config).describe()
        balanced = use(endpoint, tmp_path / "both", asking(numbered(30)), config)
        alone = config_of(quick_url, max_in_flight=4, endpoint="ours")
        single = use(RemoteEngine(alone).describe(), tmp_path / "one", asking(numbered(30)), alone)
        assert [(each.text, each.request_id) for each in balanced] == [(each.text, each.request_id) for each in single]
        assert 0 < len(slow.counts.bodies) < 10
        assert len(slow.counts.bodies) + len(quick.counts.bodies) == 30 + 30
        again = use(endpoint, tmp_path / "one", asking(numbered(30)), config)  # another list, the same answers
        assert all(each.from_cache for each in again)


@pytest.mark.full
def test_a_dead_server_costs_no_try_and_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    dead = nobody()
    with servers_of(Behaviour()) as ((url, server),):
        config = config_of(dead, url, max_attempts=1, endpoint="ours")
        with RemoteEngine(config, QUICK).serve() as endpoint:
            outcomes = use(endpoint, tmp_path, asking(numbered(40)), config)
        assert [type(each).__name__ for each in outcomes] == ["ChatReply"] * 40
        assert len(server.counts.bodies) == 40
    place = dead.removeprefix("http://").removesuffix("/v1")
    assert f"The chat server at {place} is not used: no connection." in caplog.text  # at the start
    assert caplog.text.count(f"The chat server at {place} gets no requests for 2 s: no connection.") == 1


@pytest.mark.full
@pytest.mark.parametrize(
    ("fault", "n_tries", "n_most", "left_out"),
    [("500", 2, 8, "2 s: HTTP 500."), ("429", 1, 4, "600 s: HTTP 429.")],
)
def test_requests_of_a_server_that_fails_or_refuses_for_now_are_asked_of_another_without_a_pause(
    fault: str, n_tries: int, n_most: int, left_out: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Behaviour(fault_share=1.0, faults=(fault,), retry_after_s=600)
    with servers_of(failing, Behaviour()) as ((bad_url, bad), (url, server)):
        config = config_of(bad_url, url, max_attempts=n_tries, max_in_flight=4, endpoint="ours")
        outcomes = use(RemoteEngine(config).describe(), tmp_path, asking(numbered(40)), config)
        assert [type(each).__name__ for each in outcomes] == ["ChatReply"] * 40
        assert len(server.counts.bodies) == 40
        assert 1 <= len(bad.counts.bodies) <= n_most
    assert f"gets no requests for {left_out}" in caplog.text


@pytest.mark.full
def test_where_no_server_answers_the_run_stops_with_the_error_of_one(tmp_path: Path) -> None:
    config = config_of(nobody(), nobody(), max_attempts=2, endpoint="ours")
    with pytest.raises(BackendError, match=r"'ours' is not answering: 2 tries, no connection"):
        use(RemoteEngine(config).describe(), tmp_path, asking(numbered(3)), config)
    with (
        pytest.raises(BackendError, match=r"'ours' at http://127.*, http://127.* is not answering as it should"),
        RemoteEngine(config, QUICK).serve(),
    ):
        pytest.fail("nobody is there")


@pytest.mark.full
def test_a_server_without_the_model_is_named(tmp_path: Path) -> None:
    with servers_of(Behaviour(), Behaviour()) as ((url, _), (other, _)):
        config = config_of(url, other, model="another")
        with pytest.raises(ConfigError, match=rf"has no model 'another' at {url}"), RemoteEngine(config).serve():
            pytest.fail("it has no such model")
        assert RemoteEngine(config_of(url, other, model=None)).describe().model == MODEL


@pytest.mark.full
def test_a_live_answer_comes_from_another_server_where_one_is_gone() -> None:
    with DoubleEngine(ChatConfig(engine="double")).serve() as there:
        config = config_of(nobody(), there.base_url, model=there.model)

        async def talk() -> list[str]:
            async with OpenAILiveChat(RemoteEngine(config).describe(), config) as chat:
                said = ["".join([piece async for piece in chat.stream(payload)]) for payload in numbered(3)]
                assert chat.usage.n_failed == 0
                return said

        said = asyncio.run(talk())
        assert all(said)
        assert len(said) == 3
