"""Batches: many payloads in one file, answered late, stored under the same keys, never handed in twice; their sizes."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from backends.chat.batch import BatchCapacity, BatchStore
from backends.chat.budget import list_spending, set_run_id
from backends.chat.cache import ReplyCache
from backends.chat.client import OpenAIChatClient, ask_all
from backends.chat.double import make_answer
from backends.chat.protocol import ChatReply
from data_schemas.config import BudgetConfig, ChatConfig
from data_schemas.errors import BackendError, BudgetError, ConfigError, RequestError, StoreError
from tests.backends.chat.chatting import QUICK, Use, asking, batch_config, endpoint_at, n_lines, numbered, use
from tests.support.chat_server import MODEL, Behaviour, ChatServer, served

pytestmark = pytest.mark.full

KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from backends.chat.batch import BatchStore
from tests.backends.chat.chatting import asking, batch_config, endpoint_at, numbered, use

note = getattr(BatchStore, sys.argv[3])
def note_and_kill(*arguments):
    if sys.argv[4] == "after":
        note(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(BatchStore, sys.argv[3], note_and_kill)
use(endpoint_at(sys.argv[1]), Path(sys.argv[2]), asking(numbered(10)), batch_config(Path(sys.argv[2])))
"""


def test_many_requests_are_one_batch_come_back_in_their_order_and_are_found_by_either_transport(tmp_path: Path) -> None:
    payloads = [{**payload, "seed": 3} for payload in numbered(31)]
    config = batch_config(tmp_path)
    with served(Behaviour()) as (root, server):
        replies = use(endpoint_at(root), tmp_path, asking(payloads[:30]), config)
        assert (n_lines(server), len(server.batches.batches)) == (30, 1)
        direct = config.model_copy(update={"transport": "direct"})
        again = use(endpoint_at(root), tmp_path, asking(payloads), direct)
        assert [reply.from_cache for reply in again] == [True] * 30 + [False]
        assert n_lines(server) == 31
    for payload, reply in zip(numbered(30), replies, strict=True):
        assert reply.text == make_answer({"model": MODEL, **payload})  # the seed was dropped on the way
        assert not reply.from_cache


def test_lines_that_fail_go_into_the_next_batch(tmp_path: Path) -> None:
    async def work(client: OpenAIChatClient) -> list[Any]:
        outcomes = await ask_all(client, numbered(40))
        assert client.usage.n_retries > 0
        return outcomes

    with served(Behaviour(fault_share=0.4)) as (root, server):
        outcomes = use(endpoint_at(root), tmp_path, work, batch_config(tmp_path, max_attempts=20))
        assert all(isinstance(outcome, ChatReply) for outcome in outcomes)
        assert n_lines(server) > 40
        assert server.counts.as_json()["n_answered_twice"] == 0


def test_a_line_that_always_fails_is_marked_failed(tmp_path: Path) -> None:
    with served(Behaviour(fault_share=1.0, faults=("500",))) as (root, _):
        (outcome,) = use(endpoint_at(root), tmp_path, asking(numbered(1)), batch_config(tmp_path, max_attempts=2))
    assert isinstance(outcome, RequestError)
    assert "failed 2 times: HTTP 500" in str(outcome)


def test_what_an_expired_batch_left_is_handed_in_again(tmp_path: Path) -> None:
    with served(Behaviour(batch_status="expired")) as (root, server):
        outcomes = use(endpoint_at(root), tmp_path, asking(numbered(12)), batch_config(tmp_path, max_attempts=9))
        assert sum(isinstance(outcome, ChatReply) for outcome in outcomes) == 11  # half of one is none
        assert server.counts.as_json()["n_answered_twice"] == 0


def test_line_ends_inside_an_answer_do_not_cut_its_line(tmp_path: Path) -> None:
    ending = " so\u2028far\u0085and\x0bon"
    with served(Behaviour(ending=ending)) as (root, server):
        replies = use(endpoint_at(root), tmp_path, asking(numbered(3)), batch_config(tmp_path))
        assert n_lines(server) == 3
    assert all(reply.text.endswith(ending) for reply in replies)


def test_a_line_that_cannot_be_read_is_asked_again_and_breaks_no_later_run(tmp_path: Path) -> None:
    config = batch_config(tmp_path, max_attempts=1)
    with served(Behaviour(n_bad_lines=2)) as (root, server):
        first = use(endpoint_at(root), tmp_path, asking(numbered(6)), config)
        with ReplyCache(tmp_path / "replies.sqlite") as cache:
            assert (len(cache), BatchStore(cache, endpoint_at("")).list_open_batches()) == (4, [])
        second = use(endpoint_at(root), tmp_path, asking(numbered(6)), config)
        assert n_lines(server) == 6 + 2
    assert [isinstance(each, RequestError) for each in first].count(True) == 2
    assert all(isinstance(reply, ChatReply) for reply in second)


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (Behaviour(batch_status="failed"), "(?s)refused batch batch-.*the model does not exist"),
        (Behaviour(batch_status="full"), "enqueued.*run again"),  # a queue that never empties
        (Behaviour(key="sk-right"), "refuses our key"),
    ],
)
def test_a_refusal_of_batches_stops_the_run_with_its_reason(behaviour: Behaviour, reason: str, tmp_path: Path) -> None:
    with served(behaviour) as (root, _), pytest.raises(BackendError, match=reason):
        use(endpoint_at(root), tmp_path, asking(numbered(3)), batch_config(tmp_path, max_attempts=2))


def test_a_provider_without_batches_is_told_up_front(tmp_path: Path) -> None:
    config = ChatConfig(engine="openai", provider="ollama", transport="batch")
    with pytest.raises(ConfigError, match=r"not known to accept batches.*chat\.transport"):
        use(endpoint_at("http://127.0.0.1:1"), tmp_path, asking(numbered(1)), config)


@pytest.mark.parametrize(
    ("step", "when"), [("record_upload", "after"), ("record_batch", "before"), ("record_batch", "after")]
)
def test_a_run_killed_around_the_making_of_a_batch_waits_for_that_batch(step: str, when: str, tmp_path: Path) -> None:
    with served(Behaviour(n_looks=3)) as (root, server):
        command = [sys.executable, "-c", KILLED, root, str(tmp_path), step, when]
        assert subprocess.run(command, env={**os.environ, "PYTHONPATH": "."}).returncode == -signal.SIGKILL
        replies = use(endpoint_at(root), tmp_path, asking(numbered(12)), batch_config(tmp_path))
        assert all(isinstance(reply, ChatReply) for reply in replies)
        assert server.counts.as_json()["n_answered_twice"] == 0
        assert n_lines(server) == 12
    with ReplyCache(tmp_path / "replies.sqlite") as cache:
        assert BatchStore(cache, endpoint_at("")).list_open_batches() == []


def test_answers_nobody_waits_for_any_more_are_kept_and_counted(tmp_path: Path) -> None:
    async def ask_and_go(client: OpenAIChatClient) -> None:
        others = [asyncio.create_task(client.ask(payload)) for payload in numbered(5)]
        await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)

    with served(Behaviour()) as (root, server), set_run_id("gone"):
        use(endpoint_at(root), tmp_path, ask_and_go, batch_config(tmp_path))
        use(endpoint_at(root), tmp_path, asking(numbered(5)), batch_config(tmp_path))
        assert n_lines(server) == 5
    with ReplyCache(tmp_path / "replies.sqlite") as cache:
        assert [model.n_requests for model in list_spending(cache, "gone")] == [5]


def test_a_budget_bounds_what_is_handed_in(tmp_path: Path) -> None:
    payloads = [{**payload, "max_tokens": 20} for payload in numbered(50)]
    with served(Behaviour()) as (root, server), pytest.raises(BudgetError):
        use(endpoint_at(root), tmp_path, asking(payloads), batch_config(tmp_path), BudgetConfig(tokens=400))
    with ReplyCache(tmp_path / "replies.sqlite") as cache:
        assert 0 < len(cache) == n_lines(server) < 50


@pytest.mark.parametrize("faults", [["lost"], ["lost", "500"], ["503", "lost"]])
def test_a_batch_that_was_made_unheard_is_found_and_not_made_again(faults: list[str], tmp_path: Path) -> None:
    with served(Behaviour(batch_faults={"make": faults})) as (root, server):
        replies = use(endpoint_at(root), tmp_path, asking(numbered(6)), batch_config(tmp_path, timeout_s=0.5))
        assert len(server.batches.batches) == 1
        assert n_lines(server) == 6
    assert all(isinstance(reply, ChatReply) for reply in replies)


@pytest.mark.parametrize("call", ["upload", "make", "look", "content"])
def test_each_call_waits_as_it_is_asked_to_and_tries_again(call: str, tmp_path: Path) -> None:
    behaviour = Behaviour(batch_faults={call: ["429", "500", "503"]}, retry_after_s=0.15)
    with served(behaviour) as (root, server):
        replies = use(endpoint_at(root), tmp_path, asking(numbered(4)), batch_config(tmp_path))
        refused_s, next_s, *_ = [at_s for name, at_s in server.batches.calls if name == call]
        assert next_s - refused_s >= 0.15
        assert n_lines(server) == 4
    assert all(isinstance(reply, ChatReply) for reply in replies)


def test_a_provider_that_takes_no_batches_now_stops_the_run_and_fails_no_request(tmp_path: Path) -> None:
    config = batch_config(tmp_path, max_attempts=3)
    with served(Behaviour(batch_faults={"upload": ["500"] * 3})) as (root, server):
        with pytest.raises(BackendError, match=r"does not answer requests about batches: 3 tries, HTTP 500"):
            use(endpoint_at(root), tmp_path, asking(numbered(4)), config)
        assert [name for name, _ in server.batches.calls] == ["upload"] * 3
        assert all(
            isinstance(reply, ChatReply) for reply in use(endpoint_at(root), tmp_path, asking(numbered(4)), config)
        )


@pytest.mark.parametrize("call", ["look", "content", "make"])
def test_what_the_provider_has_deleted_is_asked_again_and_bricks_nothing(call: str, tmp_path: Path) -> None:
    with served(Behaviour(batch_faults={call: ["gone"]})) as (root, server):
        replies = use(endpoint_at(root), tmp_path, asking(numbered(5)), batch_config(tmp_path))
        assert len(server.batches.files) >= 2
    assert all(isinstance(reply, ChatReply) for reply in replies)
    with ReplyCache(tmp_path / "replies.sqlite") as cache:
        assert BatchStore(cache, endpoint_at("")).list_open_batches() == []


def test_a_server_without_batches_does_not_pass_for_one_that_deleted_them(tmp_path: Path) -> None:
    behaviour = Behaviour(batch_faults={"look": ["gone"], "list": ["gone"]})
    with served(behaviour) as (root, _), pytest.raises(BackendError, match="HTTP 404"):
        use(endpoint_at(root), tmp_path, asking(numbered(2)), batch_config(tmp_path))
    with ReplyCache(tmp_path / "replies.sqlite") as cache:
        assert len(BatchStore(cache, endpoint_at("")).list_open_batches()) == 1


def test_one_process_at_a_time_hands_in_batches_of_a_file(tmp_path: Path) -> None:
    with served(Behaviour()) as (root, server), FileLock(f"{tmp_path / 'replies.sqlite'}.batches.lock"):
        with pytest.raises(BackendError, match=r"Another process .* batches"):
            use(endpoint_at(root), tmp_path, asking(numbered(2)), batch_config(tmp_path))
        assert server.batches.files == {}


def test_a_batch_brought_in_twice_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put = ReplyCache.put

    def put_until_killed(cache: ReplyCache, *arguments: Any) -> Any:
        if len(cache) == 3:
            raise StoreError("killed")
        return put(cache, *arguments)

    with served(Behaviour()) as (root, server), set_run_id("twice"):
        with monkeypatch.context() as patch:
            patch.setattr(ReplyCache, "put", put_until_killed)
            with pytest.raises(StoreError):
                use(endpoint_at(root), tmp_path, asking(numbered(5)), batch_config(tmp_path))
        use(endpoint_at(root), tmp_path, asking(numbered(5)), batch_config(tmp_path))
        assert n_lines(server) == 5
    with ReplyCache(tmp_path / "replies.sqlite") as cache:
        n_counted = sum(model.n_requests for model in list_spending(cache, "twice"))
        assert (len(cache), n_counted) == (5, 5 + 1)  # one was counted when its storing failed


def leaving_a_batch(server: ChatServer) -> Use:
    """Asks one request, and goes when its batch has been made."""

    async def ask_and_go(client: OpenAIChatClient) -> None:
        asked = asyncio.create_task(client.ask(numbered(1)[0]))
        async with asyncio.timeout(20):
            while not server.batches.batches:
                await asyncio.sleep(0)
        asked.cancel()

    return ask_and_go


def test_batches_of_earlier_runs_are_brought_in_whoever_asks(tmp_path: Path) -> None:
    async def ask_for_another(client: OpenAIChatClient) -> None:
        await client.ask(numbered(1, first=1)[0])
        async with asyncio.timeout(20):
            while len(cached()) < 2:
                await asyncio.sleep(0)

    def cached() -> list[Any]:
        with ReplyCache(tmp_path / "replies.sqlite") as cache:
            return cache.run("SELECT key FROM replies")

    with served(Behaviour(n_looks=4)) as (root, server):
        use(endpoint_at(root), tmp_path, leaving_a_batch(server), batch_config(tmp_path))
        assert cached() == []
        use(endpoint_at(root), tmp_path, ask_for_another, batch_config(tmp_path))
        assert n_lines(server) == 2


def test_a_batch_of_another_model_is_left_to_a_run_with_that_model(tmp_path: Path) -> None:
    with served(Behaviour(n_looks=4)) as (root, server), set_run_id("models"):
        dear, cheap = (endpoint_at(root, model=model) for model in ("dear", "cheap"))
        use(dear, tmp_path, leaving_a_batch(server), batch_config(tmp_path))
        for endpoint, counted in ((cheap, ["cheap"]), (dear, ["cheap", "dear"])):
            use(endpoint, tmp_path, asking(numbered(1)), batch_config(tmp_path))
            with ReplyCache(tmp_path / "replies.sqlite") as cache:
                spent = [(model.model, model.n_requests) for model in list_spending(cache, "models")]
                assert spent == [(model, 1) for model in counted]
                assert sorted(cache.run("SELECT model FROM replies")) == [(model,) for model in counted]
        assert n_lines(server) == 2


async def settled() -> None:
    """Lets all that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_refused_batch_waits_for_the_end_of_one_that_was_taken() -> None:
    capacity, under_way = BatchCapacity(100, 3, QUICK), {"taken", "refused too"}
    waiting = asyncio.create_task(capacity.wait(50, under_way, "lab"))
    await settled()
    under_way.remove("refused too")
    capacity.notify_change()
    await settled()
    assert not waiting.done()  # nothing has left the queue
    under_way.remove("taken")
    capacity.record_success()
    await waiting
    assert capacity.n_most == 100


async def test_it_waits_for_none_that_was_refused_as_well() -> None:
    capacity, under_way = BatchCapacity(100, 3, QUICK), {"refused too"}
    waiting = asyncio.create_task(capacity.wait(50, under_way, "lab"))
    await settled()
    assert not waiting.done()
    under_way.clear()
    capacity.notify_change()
    await settled()
    assert waiting.done()
    await waiting
    assert capacity.n_most == 100  # others were refused with it, so its own size need not be at fault


def test_alone_it_is_halved_until_one_passes_and_grows_again() -> None:
    async def work() -> list[int]:
        capacity, sizes = BatchCapacity(20, 3, QUICK), []
        for _ in range(3):
            await capacity.wait(capacity.n_most, (), "lab")
            sizes.append(capacity.n_most)
        for _ in range(4):
            capacity.record_success()
            sizes.append(capacity.n_most)
        return sizes

    assert asyncio.run(work()) == [10, 5, 2, 4, 8, 16, 20]


def sizes(server: ChatServer) -> list[int]:
    """Requests of each batch."""
    made = server.batches.batches.values()
    return sorted(server.batches.files[batch["input_file_id"]].count("\n") for batch in made)


def test_batches_are_no_larger_than_the_provider_takes(tmp_path: Path) -> None:
    with served(Behaviour()) as (root, server):
        config = batch_config(tmp_path, "batch_max_requests: 7\n")
        use(endpoint_at(root), tmp_path, asking(numbered(20)), config)
        assert sizes(server) == [6, 7, 7]
        config = batch_config(tmp_path, "batch_max_bytes: 1000\n")
        use(endpoint_at(root), tmp_path, asking(numbered(20, first=20)), config)
        inputs = {batch["input_file_id"] for batch in server.batches.batches.values()}
        assert 3 + 3 < len(inputs) < 3 + 20
        assert all(len(server.batches.files[each]) <= 2000 for each in inputs)


def test_a_full_queue_at_the_provider_is_waited_for_with_smaller_batches(tmp_path: Path) -> None:
    with served(Behaviour(max_enqueued=6)) as (root, server):
        replies = use(endpoint_at(root), tmp_path, asking(numbered(20)), batch_config(tmp_path))
        assert all(isinstance(reply, ChatReply) for reply in replies)
        assert n_lines(server) == 20  # each paid for once
        assert max(sizes(server)) == 20
