"""A server that fails in every way it can: each request is answered once or marked failed, also over a kill."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from backends.chat.answers import estimate_tokens
from backends.chat.cache import ReplyCache
from backends.chat.client import OpenAIChatClient, ask_all
from backends.chat.double import MOST_REMEMBERED, DoubleEngine, make_answer
from backends.chat.log import log_to_file
from backends.chat.protocol import ChatReply
from data_schemas.config import ChatConfig
from data_schemas.errors import BackendError, RequestError
from tests.backends.chat.chatting import asking, endpoint_at, numbered, use
from tests.support.chat_server import FAULTS, MODEL, Behaviour, served

pytestmark = pytest.mark.full

CONFIG = ChatConfig(engine="openai", timeout_s=3.0, max_in_flight=16)
KILLED = """
import os, signal, sys
from pathlib import Path
from backends.chat.client import ask_all
from tests.backends.chat.test_faulty_server import CONFIG
from tests.backends.chat.chatting import endpoint_at, numbered, use

done = []
def note(index, outcome):
    done.append(index)
    if len(done) == 40:
        os.kill(os.getpid(), signal.SIGKILL)
use(endpoint_at(sys.argv[1]), Path(sys.argv[2]), lambda client: ask_all(client, numbered(120), note), CONFIG)
"""


def test_each_request_is_answered_once_or_marked_failed(tmp_path: Path) -> None:
    payloads = numbered(150)
    config = CONFIG.model_copy(update={"max_attempts": 2})
    with served(Behaviour(fault_share=0.2, retry_after_s=0.01)) as (root, server):
        outcomes = use(endpoint_at(root), tmp_path, asking(payloads), config)
        counts = server.counts.as_json()
    assert set(counts["n_faults"]) == set(FAULTS)
    assert counts["n_answered_twice"] == 0
    n_failed = sum(isinstance(outcome, RequestError) for outcome in outcomes)
    assert 0 < n_failed < 30
    assert counts["n_answered"] == len(payloads) - n_failed
    for payload, outcome in zip(payloads, outcomes, strict=True):
        assert isinstance(outcome, RequestError) or outcome.text == make_answer({"model": MODEL, **payload})


def test_a_killed_run_asks_nothing_again_that_was_answered(tmp_path: Path) -> None:
    with served(Behaviour(fault_share=0.2, retry_after_s=0.01, first_token_s=0.005)) as (root, server):
        command = [sys.executable, "-c", KILLED, root, str(tmp_path)]
        assert subprocess.run(command, env={**os.environ, "PYTHONPATH": "."}).returncode == -signal.SIGKILL
        with ReplyCache(tmp_path / "replies.sqlite") as cache:
            n_kept = len(cache)
        outcomes = use(endpoint_at(root), tmp_path, asking(numbered(120)), CONFIG)
        counts = server.counts.as_json()
    assert 40 <= n_kept < 120
    assert all(isinstance(outcome, ChatReply) for outcome in outcomes)
    assert sum(outcome.from_cache for outcome in outcomes) == n_kept
    assert counts["n_answered_twice"] <= CONFIG.n_in_flight  # those on the wire when it was killed


def test_refusals_by_a_full_server_bring_the_number_in_flight_down(tmp_path: Path) -> None:
    behaviour = Behaviour(n_slots=4, n_queue=4, first_token_s=0.005, retry_after_s=0.01)
    config = ChatConfig(engine="openai", max_in_flight=64, max_attempts=20)
    with served(behaviour) as (root, server), log_to_file(tmp_path / "log.jsonl"):
        outcomes = use(endpoint_at(root), tmp_path, asking(numbered(200)), config)
        assert server.counts.n_faults["queue full"] > 0
    limits = [json.loads(line)["limit"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert all(isinstance(outcome, ChatReply) for outcome in outcomes)
    assert max(limits) >= 32
    assert limits[-1] <= 16


def test_the_first_request_of_a_beginning_goes_alone(tmp_path: Path) -> None:
    wanted = [("be brief", f"question {number}") for number in range(5)] + [("be kind", "question 0")]
    payloads = [
        {"messages": [{"role": "system", "content": system}, {"role": "user", "content": question}]}
        for system, question in wanted
    ]
    config = ChatConfig(engine="openai", timeout_s=0.2, max_attempts=1)
    with served(Behaviour(n_slots=0)) as (root, server):  # nobody is answered: the first of each beginning holds
        with pytest.raises(BackendError, match="no answer"):
            use(endpoint_at(root), tmp_path, asking(payloads), config)
        asked = [(body["messages"][0]["content"], body["messages"][1]["content"]) for body in server.counts.bodies]
    assert asked[:2] == [("be brief", "question 0"), ("be kind", "question 0")]
    assert sorted(asked) == sorted(wanted)


def test_a_server_that_goes_half_way_stops_the_run_and_keeps_what_it_said(tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"max_attempts": 3, "max_in_flight": 1})
    with served(Behaviour()) as (root, _):

        async def work(client: OpenAIChatClient) -> None:
            await ask_all(client, numbered(10))
            raise EOFError

        with pytest.raises(EOFError):
            use(endpoint_at(root), tmp_path, work, config)
    with pytest.raises(BackendError, match=r"is not answering: 3 tries, no connection.*answers are cached"):
        use(endpoint_at(root), tmp_path, asking(numbered(20)), config)
    with ReplyCache(tmp_path / "replies.sqlite") as cache:
        assert len(cache) == 10


def test_the_log_tells_of_each_try_and_never_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAME_LLM_API_KEY", "sk-very-secret")
    path = tmp_path / "logs" / "chat.jsonl"
    with served(Behaviour(key="sk-very-secret", fault_share=0.3, retry_after_s=0.01)) as (root, server):
        with log_to_file(path):
            use(endpoint_at(root), tmp_path, asking(numbered(40)), CONFIG)
        use(endpoint_at(root), tmp_path, asking(numbered(3, first=40)), CONFIG)  # nobody listens any more
        n_tries = server.counts.n_tries.total()
    with served(Behaviour(key="another")) as (root, _), log_to_file(path), pytest.raises(BackendError):
        use(endpoint_at(root), tmp_path / "other", asking(numbered(1)), CONFIG)  # the server quotes what it was given
    text = path.read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert "sk-very-secret" not in text
    assert n_tries - 6 <= len(lines) <= n_tries
    assert {"200", "429", "500", "503", "malformed", "cut off", "timeout", "401"} == {line["status"] for line in lines}
    answered = next(line for line in lines if line["status"] == "200")
    assert (answered["event"], answered["endpoint"], answered["model"]) == ("try", "test", MODEL)
    assert answered["attempt"] >= 1
    assert answered["latency_s"] > 0
    assert answered["n_in"] > 0
    assert len(answered["request_id"]) == 20
    assert "question" not in text
    assert "Incorrect API key" not in text  # nor what the server says, which may quote what it was asked


def test_pictures_and_text_are_estimated_before_they_are_asked() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:" + "x" * 90_000}}
    seen = {"messages": [{"role": "user", "content": [{"type": "text", "text": "x" * 300}, picture]}]}
    assert estimate_tokens(seen) == (1_108, 512)


@pytest.mark.parametrize(("text", "n_tokens"), [("x" * 300, 100), ("水" * 300, 300), ("я" * 300, 200), ("\ud800", 0)])
def test_other_scripts_are_estimated_by_their_bytes(text: str, n_tokens: int) -> None:
    assert estimate_tokens({"messages": [{"content": text}], "max_tokens": 1}) == (8 + n_tokens, 1)


@pytest.mark.parametrize("fault", ["503", "hang-up"])
def test_a_server_that_turns_everybody_away_half_way_stops_the_run(fault: str, tmp_path: Path) -> None:
    async def work(client: OpenAIChatClient) -> None:
        await ask_all(client, numbered(10))
        with pytest.raises(BackendError, match="is not answering: 2 tries"):
            await ask_all(client, [{**payload, "seed": 1} for payload in numbered(30)])

    config = CONFIG.model_copy(update={"max_attempts": 2, "max_in_flight": 1})
    faults = DoubleEngine(config, faults=[None] * 10, faults_for_ever="hang-up" if fault == "hang-up" else int(fault))
    with faults.serve() as endpoint:
        use(endpoint, tmp_path, work, config)
    assert 10 + 2 * 3 <= len(faults.requests) <= 10 + 2 * 4  # one may have begun before the run stopped


def test_a_double_keeps_the_last_requests_only() -> None:
    engine = DoubleEngine(CONFIG)
    for number in range(MOST_REMEMBERED + 2):
        engine.take({"number": number})
    assert [each["number"] for each in engine.requests] == list(range(2, MOST_REMEMBERED + 2))
