"""When failures are the endpoint's and stop the run, and when they are the requests' own."""

import asyncio
from pathlib import Path

import pytest

from backends.chat.cache import ReplyCache
from backends.chat.client import OpenAIChatClient, ask_all
from backends.chat.double import DoubleEngine, Fault
from backends.chat.limits import MIN_FAILURES, Pace
from data_schemas.config import ChatConfig
from data_schemas.errors import BackendError, RequestError
from tests.backends.chat.chatting import CONFIG, QUICK, numbered, use, use_with

pytestmark = pytest.mark.full


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
