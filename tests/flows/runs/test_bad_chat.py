"""Whatever is wrong with the chat model ends `kame refresh` with one message, the right exit code, and no dataset; what
was answered before is kept, and the same command goes on with it."""

import json
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from backends.chat import double
from backends.chat.cache import ReplyCache
from backends.chat.double import DoubleEngine
from data_schemas.config import ChatConfig
from tests.support.chat_server import MODEL, Behaviour, served
from tests.support.refreshing import GOOD, ROWS, Bench, assert_one_message

pytestmark = pytest.mark.full

KEY = "sk-not-a-real-key"
N_TOKENS = 1_500
"""More than a third, and less than all, of what the answers to `GOOD` take."""


def double_engine() -> DoubleEngine:
    return DoubleEngine(ChatConfig())


def asked(engine: DoubleEngine) -> list[str]:
    return [json.dumps(request, sort_keys=True) for request in engine.requests]


def test_a_chat_server_that_goes_away_on_the_way_and_comes_back(bench: Bench) -> None:
    more = [{**row, "question": f"{row['question'][:-1]} and cold?"} for row in ROWS]  # enough to be given up in a row
    bench.file("good.jsonl", GOOD + "".join(f"{json.dumps(row)}\n" for row in more).encode())
    engine = DoubleEngine(ChatConfig(), faults=[None] * 6, faults_for_ever="hang-up")
    assert_one_message(bench.refresh_by(engine, max_attempts=2, max_in_flight=1), 4, "run again|Run|again")
    assert bench.state() == {}
    back = double_engine()
    assert bench.refresh_by(back).exit_code == 0
    assert 0 < len(back.requests) < len(engine.requests) + len(back.requests) - 1
    assert not set(asked(engine)[:6]) & set(asked(back))


def test_the_embedded_servers_process_killed_on_the_way(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = ReplyCache.put

    def keep_and_kill(self: ReplyCache, *answer: Any) -> Any:
        kept = keep(self, *answer)
        for child in psutil.Process().children():
            if "backends.chat.llamacpp_server" in child.cmdline():
                child.kill()
        return kept

    monkeypatch.setattr(ReplyCache, "put", keep_and_kill)
    chat = {"engine": "llamacpp", "max_attempts": 2}
    assert_one_message(bench.refresh("--limit", 1, chat=chat), 4, "embedded|127.0.0.1", "again")
    assert bench.state() == {}


def test_a_wrong_key(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a server that lets nobody see its models without the key; it quotes what it was given."""
    answers = double._Handler.do_GET

    def guarded(self: Any) -> None:
        given = self.headers.get("Authorization", "")
        answers(self) if given == "Bearer right" else self._send(401, {"error": {"message": f"bad key {given}"}})

    monkeypatch.setattr(double._Handler, "do_GET", guarded)
    monkeypatch.setenv("KAME_LLM_API_KEY", KEY)
    engine = double_engine()
    result = bench.refresh_by(engine, max_attempts=2)
    assert_one_message(result, 4, "'mine' refuses our key", "KAME_LLM_API_KEY")
    assert KEY not in f"{result.output}{result.stderr}"
    assert (bench.state(), engine.requests) == ({}, [])
    monkeypatch.setenv("KAME_LLM_API_KEY", "right")
    assert bench.refresh_by(double_engine()).exit_code == 0


def test_a_model_that_the_server_does_not_have(bench: Bench) -> None:
    engine = double_engine()
    result = bench.refresh_by(engine, model="large-9b")
    assert_one_message(result, 2, "'mine' has no model 'large-9b'", "chat.model to one that it has: double")
    assert (bench.state(), engine.requests) == ({}, [])


def test_nobody_at_the_url_is_said_before_any_speech_is_made(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    result = bench.refresh("--llm-url", f"http://127.0.0.1:{port}/v1", "--llm-model", "x", chat={"max_attempts": 1})
    assert_one_message(result, 4, f"127.0.0.1:{port}.*not answering", "server runs, then run again")
    assert bench.state() == {}
    assert not list(bench.out.rglob("speech*"))


def test_a_budget_of_tokens_stops_the_run_and_the_same_command_goes_on(bench: Bench) -> None:
    stopped = double_engine()
    result = bench.refresh_by(stopped, "--budget-tokens", N_TOKENS, max_in_flight=1)
    assert_one_message(result, 7, f"{N_TOKENS:,}|{N_TOKENS}", "run again|same command|go on")
    assert bench.state() == {}
    assert stopped.requests
    after = double_engine()
    assert bench.refresh_by(after).exit_code == 0
    assert after.requests
    assert not set(asked(stopped)) & set(asked(after)), "what was paid for is not asked again"


def test_a_budget_of_dollars(bench: Bench) -> None:
    engine = double_engine()
    unpriced = bench.refresh_by(engine, "--budget-usd", 0.01)
    assert_one_message(unpriced, 2, "the price of 'double'", "chat.price")
    assert engine.requests == []
    price = {"in_usd_per_mtok": 1.0, "out_usd_per_mtok": 1.0}
    spent = bench.refresh_by(engine, "--budget-usd", N_TOKENS / 1e6, price=price, max_in_flight=1)
    assert_one_message(spent, 7, "0.0015", "run again|same command|go on")
    assert engine.requests
    assert bench.state() == {}


def test_a_disk_that_is_full_where_the_answers_are_kept(bench: Bench, tiny_disk: Path) -> None:
    kept, place = tiny_disk / "answers.sqlite", bench.out / ".store" / "answers.sqlite"
    place.parent.mkdir(parents=True)
    place.symlink_to(kept)
    ReplyCache(kept).close()
    room = os.statvfs(tiny_disk)
    (tiny_disk / "ballast").write_bytes(bytes(room.f_bavail * room.f_frsize - 120_000))  # for some answers
    first = double_engine()
    assert_one_message(bench.refresh_by(first, max_in_flight=1), 5, "answer cache .*answers.sqlite failed", "full")
    assert bench.state() == {}
    place.unlink()
    for file in tiny_disk.glob("answers.sqlite*"):
        shutil.copy(file, place.parent)  # to where there is room
    with ReplyCache(place) as answers:
        n_kept = len(answers)
    again = double_engine()
    assert bench.refresh_by(again).exit_code == 0
    assert n_kept > 0
    assert len(set(asked(first)) - set(asked(again))) == n_kept, "what was kept is not asked for again"


def test_a_model_that_thinks_until_it_is_cut_off_is_stopped_early_and_told_not_to_think(bench: Bench) -> None:
    """Its thoughts take all tokens that an oracle may have; the same command with `chat.extra` goes on."""
    many = [{**row, "question": f"{row['question'][:-1]} and {n}?"} for row in ROWS for n in range(4)]
    bench.file("good.jsonl", "".join(f"{json.dumps(row)}\n" for row in many).encode())
    with served(Behaviour(thinks=True, thought="well " * 60)) as (root, server):
        chat = {"engine": "openai", "base_url": f"{root}/v1", "model": MODEL, "endpoint": "mine", "max_in_flight": 1}
        assert_one_message(
            bench.refresh(chat=chat), 4, "38 of the last (38|39|40) answers.*only_thought", "enable_thinking"
        )
        n_paid = len(server.counts.bodies)
        assert bench.state() == {}
        extra = {"chat_template_kwargs": {"enable_thinking": False}}
        assert bench.refresh(chat={**chat, "extra": extra}).exit_code == 0
    assert n_paid < 80 < len(server.counts.bodies)


def test_a_model_that_thinks_shortly_is_heard_and_cached_tokens_nobody_told_are_unknown(bench: Bench) -> None:
    with served(Behaviour(thinks=True, thought="")) as (root, _):
        chat = {"engine": "openai", "base_url": f"{root}/v1", "model": MODEL, "endpoint": "mine"}
        assert bench.refresh(chat=chat).exit_code == 0
    (record,) = [json.loads(path.read_text()) for path in (bench.out / "runs").glob("*.json")]
    assert record["chat"]["n_requests"] > 0
    assert (record["chat"]["n_tokens_cached"], record["models"][0]["n_tokens_cached"]) == (None, None)
