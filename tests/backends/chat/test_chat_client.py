"""The chat client against a real HTTP server that misbehaves on demand, and when that is the endpoint's own fault."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.chat.answers import TOKENS_PER_MESSAGE
from backends.chat.cache import ReplyCache
from backends.chat.client import OpenAIChatClient, ask_all
from backends.chat.double import DoubleEngine, Fault, make_answer
from backends.chat.faults import parse_retry_after_s
from backends.chat.limits import MIN_FAILURES, Pace, RateLimit
from backends.chat.protocol import ChatReply, Endpoint
from data_schemas.config import ChatConfig
from data_schemas.errors import BackendError, RequestError
from tests.backends.chat.chatting import CONFIG, QUICK, numbered, use, use_with

pytestmark = pytest.mark.full

PAYLOAD = {"messages": [{"role": "user", "content": "What is half of"}], "max_tokens": 40, "temperature": 0.0}


class Ledger(RateLimit):
    """A rate without a bound that adds up what was taken of it."""

    n_taken = 0

    async def take(self, amount: int) -> None:
        self.n_taken += amount
        await super().take(amount)

    def correct(self, amount: int) -> None:
        self.n_taken += amount


@pytest.mark.parametrize("fault", [429, "retry-after", 400, 500, "stall", "hang-up", "malformed", "empty"])
def test_a_try_that_fails_takes_of_the_rate_what_it_may_have_cost(fault: Fault, tmp_path: Path) -> None:
    pace, ledger = Pace(CONFIG), Ledger(None)
    pace.tokens = ledger

    async def work(endpoint: Endpoint) -> None:
        config = CONFIG.model_copy(update={"timeout_s": 0.3, "max_attempts": 6})
        with ReplyCache(tmp_path / "replies.sqlite") as cache:
            async with OpenAIChatClient(endpoint, config, cache, pace=pace, delays=QUICK) as client:
                await ask_all(client, [PAYLOAD])
                assert client.usage.n_tokens_in + client.usage.n_tokens_out == ledger.n_taken
                assert client.usage.n_estimated == (fault in ("stall", "hang-up", "malformed", "empty"))

    with DoubleEngine(CONFIG, [fault]).serve() as endpoint:
        asyncio.run(work(endpoint))
    assert (ledger.n_taken == 0) == (fault == 400)


@pytest.mark.parametrize("fault", [429, "retry-after", 500, 503, 408, "hang-up", "malformed", "empty"])
def test_a_passing_fault_costs_a_retry_and_is_counted_once(fault: Fault, tmp_path: Path) -> None:
    async def work(client: OpenAIChatClient) -> None:
        reply = await client.ask(PAYLOAD)
        assert reply.text == make_answer({**PAYLOAD, "model": "double"})
        assert not reply.from_cache
        assert (client.usage.n_requests, client.usage.n_retries, client.usage.n_failed) == (1, 2, 0)
        assert (reply.n_tokens_in, reply.n_tokens_out, reply.finish_reason) == (4, len(reply.text.split()), "stop")
        n_unusable = 2 if fault in ("malformed", "empty", "hang-up") else 0  # the server worked on them
        assert client.usage.n_estimated == n_unusable
        assert client.usage.n_tokens_in == 4 + n_unusable * (TOKENS_PER_MESSAGE + len("What is half of") // 3)
        assert (client.usage.n_tokens_out > reply.n_tokens_out) == (n_unusable > 0)

    use_with([fault, fault], tmp_path, work)


def test_an_attempt_is_asked_for_once_whatever_the_port_and_another_anew(tmp_path: Path) -> None:
    async def ask(client: OpenAIChatClient) -> tuple[list[ChatReply], int]:
        return [await client.ask(PAYLOAD, attempt) for attempt in (0, 1, 0)], client.usage.n_from_cache

    engine = DoubleEngine(CONFIG)
    with engine.serve() as endpoint:
        first, _ = use(endpoint, tmp_path, ask)
    with engine.serve() as elsewhere:
        second, n_from_cache = use(elsewhere, tmp_path, ask)
    assert endpoint.base_url != elsewhere.base_url
    assert len(engine.requests) == 2
    assert [reply.from_cache for reply in first] == [False, False, True]
    assert first[0].request_id == first[2].request_id != first[1].request_id
    assert ([reply.from_cache for reply in second], n_from_cache) == ([True] * 3, 3)
    for one, other in zip(first, second, strict=True):
        assert (one.text, one.request_id, one.n_tokens_in) == (other.text, other.request_id, other.n_tokens_in)


def test_the_same_question_at_the_same_time_is_asked_once(tmp_path: Path) -> None:
    engine = DoubleEngine(CONFIG)

    async def work(client: OpenAIChatClient) -> None:
        replies = await asyncio.gather(*(client.ask(PAYLOAD) for _ in range(10)))
        assert len({reply.text for reply in replies}) == 1
        assert (client.usage.n_requests, client.usage.n_from_cache) == (1, 9)

    with engine.serve() as endpoint:
        use(endpoint, tmp_path, work)
    assert len(engine.requests) == 1


def test_an_asker_that_gives_up_does_not_take_the_answer_from_another(tmp_path: Path) -> None:
    async def work(client: OpenAIChatClient) -> None:
        first = asyncio.create_task(client.ask(PAYLOAD))
        second = asyncio.create_task(client.ask(PAYLOAD))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).text
        assert first.cancelled()

    use_with([500], tmp_path, work)


@pytest.mark.parametrize("status", [400, 401, 403, 422, 500])
def test_the_key_is_blotted_out_of_what_a_server_says_and_its_variable_is_named(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAME_LLM_API_KEY", "sk-very-secret")
    is_key = status in (401, 403)
    error, told = (BackendError, "KAME_LLM_API_KEY") if is_key else (RequestError, rf"HTTP {status}.*Bearer \*\*\*")
    with pytest.raises(error, match=told) as caught:
        use_with([status] * 3, tmp_path, lambda client: client.ask(PAYLOAD))
    assert "sk-very-secret" not in str(caught.value)
    assert not is_key or "sk-very-secret" not in str(caught.value.__cause__)


@pytest.mark.parametrize(("status", "n_asked"), [(400, 1), (422, 1), (404, 1), (402, 1), (500, 3), (429, 3), (503, 3)])
def test_a_fault_is_tried_again_only_where_it_may_pass(status: int, n_asked: int, tmp_path: Path) -> None:
    engine = DoubleEngine(CONFIG, faults_for_ever=status)
    stops_the_run = status in {402, 404, 429, 503}
    with engine.serve() as endpoint, pytest.raises(BackendError if stops_the_run else RequestError, match=str(status)):
        use(endpoint, tmp_path, lambda client: client.ask(PAYLOAD))
    assert len(engine.requests) == n_asked


@pytest.mark.parametrize("fault", ["malformed", "empty", 500])
def test_unusable_answers_fail_the_request_and_store_nothing(fault: Fault, tmp_path: Path) -> None:
    async def work(client: OpenAIChatClient) -> None:
        with pytest.raises(RequestError, match="failed 3 times"):
            await client.ask(PAYLOAD)
        assert (client.usage.n_retries, client.usage.n_failed) == (2, 1)  # a try that is not made is no retry
        assert not (await client.ask(PAYLOAD)).from_cache

    use_with([fault] * 3, tmp_path, work)


def test_a_server_that_never_answers_fails_the_request(tmp_path: Path) -> None:
    config = ChatConfig(engine="double", max_attempts=2, timeout_s=0.05)
    with pytest.raises(RequestError, match=r"no answer in 0\.05 s"):
        use_with(["stall", "stall"], tmp_path, lambda client: client.ask(PAYLOAD), config)


@pytest.mark.parametrize(
    ("fault", "config"),
    [("retry-later", {"timeout_s": 5_000.0}), ("retry-after", {"max_wait_s": 0.001})],
)
def test_a_wait_longer_than_allowed_stops_the_run_however_long_an_answer_may_take(
    fault: Fault, config: dict[str, float], tmp_path: Path
) -> None:
    asked = CONFIG.model_copy(update=config)
    with pytest.raises(BackendError, match=r"asks to wait .*chat\.max_wait_s"):
        use_with([fault], tmp_path, lambda client: client.ask(PAYLOAD), asked)


def test_ask_all_keeps_the_order_and_reports_each_outcome(tmp_path: Path) -> None:
    payloads, done = numbered(12), dict[int, ChatReply | RequestError]()
    outcomes = use_with([None, 400, None, 500], tmp_path, lambda client: ask_all(client, payloads, done.__setitem__))
    assert [done[index] for index in range(12)] == outcomes
    assert sum(isinstance(outcome, RequestError) for outcome in outcomes) == 1
    for payload, outcome in zip(payloads, outcomes, strict=True):
        if isinstance(outcome, ChatReply):
            assert outcome.text == make_answer({**payload, "model": "double"})


def test_ask_all_stops_at_once_when_the_endpoint_is_gone(tmp_path: Path) -> None:
    engine = DoubleEngine(CONFIG, faults=[None, 401], faults_for_ever="stall")
    with engine.serve() as endpoint, pytest.raises(BackendError, match="refuses our key"):
        use(endpoint, tmp_path, lambda client: ask_all(client, numbered(50)))
    assert len(engine.requests) <= CONFIG.n_in_flight + 2


def test_after_an_error_of_the_endpoint_nothing_more_is_sent_and_what_was_sent_is_kept(tmp_path: Path) -> None:
    config = ChatConfig(engine="double", max_in_flight=2)
    engine = DoubleEngine(config, faults=[None, 404])

    async def work(client: OpenAIChatClient) -> None:
        with pytest.raises(BackendError, match="404"):
            await ask_all(client, numbered(40))
        n_sent = len(engine.requests)
        await client.ask(numbered(1, first=40)[0])  # sent after all that wait for a place
        sent = [{"messages": request["messages"]} for request in engine.requests]
        assert len(sent) <= n_sent + config.n_in_flight + 1 < 40
        for answered in sent[:1] + sent[2:]:
            assert (await client.ask(answered)).from_cache
        assert len(engine.requests) == len(sent)

    with engine.serve() as endpoint:
        use(endpoint, tmp_path, work, config)


def test_a_request_that_was_cancelled_before_it_was_sent_can_be_asked_again(tmp_path: Path) -> None:
    async def work(client: OpenAIChatClient) -> None:
        first, second = (asyncio.create_task(client.ask(payload)) for payload in numbered(2))
        await asyncio.sleep(0)
        second.cancel()  # it waits for the place of the first
        await asyncio.wait([second])
        assert not (await client.ask(numbered(2)[1])).from_cache
        assert not (await first).from_cache

    use_with([], tmp_path, work, CONFIG.model_copy(update={"max_in_flight": 1}))


def test_no_more_than_allowed_are_in_flight(tmp_path: Path) -> None:
    config = ChatConfig(engine="double", max_in_flight=2, max_attempts=1, timeout_s=0.2)
    engine = DoubleEngine(config, faults_for_ever="stall")

    async def work(client: OpenAIChatClient) -> None:
        asking = [asyncio.create_task(client.ask(payload)) for payload in numbered(6)]
        await asyncio.wait(asking, return_when=asyncio.FIRST_EXCEPTION)
        assert len(engine.requests) <= 4  # two at first, and those that took their places
        for task in asking:
            task.cancel()

    with engine.serve() as endpoint:
        use(endpoint, tmp_path, work, config)


@given(st.text())
def test_any_retry_after_header_is_a_wait_that_can_be_waited(header: str) -> None:
    assert parse_retry_after_s(header) >= 0


def test_retry_after_reads_seconds_and_dates() -> None:
    assert parse_retry_after_s("7") == 7
    assert parse_retry_after_s("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert parse_retry_after_s("Mon, 01 Jan 99999 00:00:00 GMT") == 0  # no calendar has it
    assert parse_retry_after_s("Wed, 21 Oct 2099 07:28:00 GMT") > 1e9


def test_timeouts_in_a_row_stop_the_run_and_one_does_not(tmp_path: Path) -> None:
    config = ChatConfig(engine="double", max_attempts=1, timeout_s=0.2, max_in_flight=1)
    faults: list[Fault | None] = [None, "stall", None, "stall", "stall", "stall"]

    async def work(client: OpenAIChatClient) -> list[str]:
        outcomes = []
        for payload in numbered(6):
            try:
                await client.ask(payload)
                outcomes.append("answer")
            except (RequestError, BackendError) as error:
                outcomes.append(type(error).__name__)
        return outcomes

    told = use_with(faults, tmp_path, work, config)
    assert told == ["answer", "RequestError", "answer", "RequestError", "RequestError", "BackendError"]


def test_a_server_that_breaks_half_way_stops_the_run_whatever_it_had_answered(tmp_path: Path) -> None:
    async def work(client: OpenAIChatClient) -> None:
        await ask_all(client, numbered(100))
        await ask_all(client, numbered(100))  # from the cache: no sign of life
        with pytest.raises(BackendError, match=r"36 of the last 40 requests failed.*HTTP 500"):
            await ask_all(client, [{**payload, "seed": 1} for payload in numbered(200)])

    config = CONFIG.model_copy(update={"max_attempts": 1})
    engine = DoubleEngine(config, faults=[None] * 100, faults_for_ever=500)
    with engine.serve() as endpoint:
        use(endpoint, tmp_path, work, config)
    assert 100 + 36 <= len(engine.requests) <= 100 + 36 + 2 * CONFIG.n_in_flight


def test_nothing_but_failures_stops_the_run(tmp_path: Path) -> None:
    engine = DoubleEngine(CONFIG, faults_for_ever=400)
    with engine.serve() as endpoint, pytest.raises(BackendError, match="failed and 0 were answered"):
        use(endpoint, tmp_path, lambda client: ask_all(client, numbered(3 * MIN_FAILURES)), CONFIG)
    assert len(engine.requests) < 2 * MIN_FAILURES


def test_a_third_of_failures_stops_nothing_however_they_cluster(tmp_path: Path) -> None:
    faults: list[Fault | None] = [*[None] * 20, *[400] * 10]
    outcomes = use_with(faults, tmp_path, lambda client: ask_all(client, numbered(30)))
    assert sum(isinstance(outcome, RequestError) for outcome in outcomes) == 10


def test_what_one_client_saw_the_next_one_of_the_same_endpoint_knows(tmp_path: Path) -> None:
    config = ChatConfig(engine="double", max_attempts=1, max_in_flight=1)
    outcomes: list[str] = []

    async def one_client_a_part() -> None:
        pace = Pace(config)
        for part in range(2 * MIN_FAILURES):
            with ReplyCache(tmp_path / "replies.sqlite") as cache:
                async with OpenAIChatClient(endpoint, config, cache, pace=pace, delays=QUICK) as client:
                    try:
                        await ask_all(client, numbered(1, first=part))
                        outcomes.append("failed")
                    except BackendError:
                        outcomes.append("stopped")
                        return

    with DoubleEngine(config, faults_for_ever=500).serve() as endpoint:
        asyncio.run(one_client_a_part())
    assert outcomes == ["failed"] * (MIN_FAILURES - 1) + ["stopped"]
