"""HTTP beside the sockets."""

import asyncio
import errno
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import given, settings
from prometheus_client.parser import text_string_to_metric_families
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from backends.chat.live import LiveUsage
from data_schemas.units import FRAME_S
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.server import KameServer
from kame_model.serve.web.access import make_consent_word
from kame_model.serve.web.app import create_app
from kame_model.serve.web.metrics import Metrics
from tests.support.realtime_protocol import of_type, say
from tests.support.served import AsgiSocket, app_of, http_client, recording_app, served
from tests.support.serving import Client, RepeatingChat, doubles, inline, saying, serve_config, until

pytestmark = [pytest.mark.full]


async def session_of(app: Any, server: KameServer, address: str = "192.0.2.1") -> tuple[AsgiSocket, str]:
    before = set(server.sessions)
    agreed = f"?record={make_consent_word(server.config.record.notice)}" if server.recordings else ""
    socket = AsgiSocket(app, f"/api/chat{agreed}", address=address)
    await until(lambda: len(server.sessions) > len(before) and socket.accepted is not None)
    (session_id,) = set(server.sessions) - before
    return socket, session_id


@pytest.mark.looptime
async def test_a_caller_sees_and_changes_its_own_sessions_alone(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint) as (server, app), http_client(app) as me, http_client(app, "192.0.2.2") as somebody:
        socket, session_id = await session_of(app, server)
        shown = (await me.get(f"/v1/sessions/{session_id}")).json()
        is_so = {"mode": "tandem", "back_end": "default", "model": "", "is_recorded": False, "time_s": 0.0}
        assert shown == {"id": session_id, **is_so}
        changed = await me.patch(f"/v1/sessions/{session_id}", json={"mode": "direct"})
        assert changed.json()["mode"] == server.sessions[session_id].mode == "direct"
        assert (await somebody.get(f"/v1/sessions/{session_id}")).status_code == 404
        assert (await me.get("/v1/sessions")).status_code == 404  # nobody is told of ids
        kept_out = await somebody.patch(f"/v1/sessions/{session_id}", json={"mode": "tandem"})
        assert (kept_out.status_code, kept_out.json()["error"]["code"]) == (404, "unknown_session")
        for wrong, status in (({"back_end": "nobody"}, 400), ({"mode": "loud"}, 422), ({"moods": 1}, 422), ([], 422)):
            answer = await me.patch(f"/v1/sessions/{session_id}", json=wrong)
            assert answer.status_code == status
            assert answer.json()["error"]["message"]
        assert server.sessions[session_id].mode == "direct"
        await socket.leave()


@pytest.mark.looptime
async def test_readiness_is_whether_a_caller_is_let_in_and_asking_counts_for_nothing(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint, limits={"max_sessions": 2}) as (server, app), http_client(app) as client:

        async def unready() -> tuple[int, str, bool]:
            told = await client.get("/readyz")
            return told.status_code, told.json()["error"]["code"], "retry-after" in told.headers

        async def refusal(query: str = "") -> Any:
            return (await client.get(f"/v1/about{query}")).json()["refusal"]

        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert (await client.get("/readyz")).status_code == 200
        server.meter.set_idle_times({1: 0.1, 4: 0.4})  # too slow for one caller, who is let in all the same
        assert (await unready())[:2] == (503, "too_slow")
        assert "kame_ready 0.0" in (await client.get("/metrics")).text
        assert await refusal() is None
        sockets = [(await session_of(app, server))[0]]
        server.meter.set_idle_times({1: 0.05, 4: 0.2})  # a device that keeps the time of one caller
        assert await unready() == (503, "busy", True)
        told = await refusal()
        assert (told["code"], "no time for another caller" in told["message"]) == ("busy", True)
        assert await refusal("?mode=cascade") is None  # takes no time of the device
        assert (await client.get("/v1/about?mode=loud")).status_code == 422
        figures = (await client.get("/metrics")).text
        assert ("kame_ready 0.0" in figures, "kame_denied_total{" in figures) == (True, False)
        assert server.admission.n_refused == {}
        server.meter.set_idle_times({})
        assert (await client.get("/readyz")).status_code == 200
        sockets.append((await session_of(app, server))[0])
        assert await unready() == (503, "full", True)
        for socket in sockets:
            await socket.leave()
        await server.drain()
        assert (await unready())[1] == "draining"
        assert (await client.get("/healthz")).status_code == 200


@pytest.mark.looptime
async def test_a_caller_who_is_refused_is_told_its_own_reason(checkpoint: Checkpoint) -> None:
    limits = {"max_sessions_per_address": 1, "max_starts_per_minute": 2}
    async with (
        app_of(checkpoint, limits=limits) as (server, app),
        http_client(app) as me,
        http_client(app, "192.0.2.2") as other,
    ):

        async def reasons() -> list[str | None]:
            abouts = [(await each.get("/v1/about")).json() for each in (me, other)]
            return [None if about["refusal"] is None else about["refusal"]["code"] for about in abouts]

        for _ in range(2):
            assert await reasons() == [None, None]
            socket, _ = await session_of(app, server)
            assert await reasons() == ["too_many_sessions", None]
            assert (await me.get("/readyz")).status_code == 200  # the server's own, whoever asks
            await socket.leave()
        assert await reasons() == ["too_many_starts", None]


def figures_in(text: str) -> dict[tuple[str, ...], float]:
    """Figures as Prometheus reads them, by name and labels."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.looptime
async def test_figures_are_told_to_prometheus(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint) as (_, app), http_client(app) as client:
        socket = AsgiSocket(app, "/v1/realtime")
        await say(socket, "alpha", 12)
        await say(socket, None, 12)
        await client.get("/v1/sessions/x", headers={"origin": "https://evil.example"})
        text = (await client.get("/metrics")).text
        await socket.leave()
    found = figures_in(text)
    assert found["kame_sessions", "tandem"] == 1
    assert found["kame_steps_total",] >= 20
    assert found["kame_events_total", "started"] == 1
    assert found["kame_events_total", "oracle_asked"] >= 1
    assert found["kame_oracle_first_words_seconds_count",] >= 1
    assert found["kame_denied_total", "origin"] == 1
    assert found["kame_step_seconds", "0.99"] >= 0


@pytest.mark.looptime
@pytest.mark.parametrize("mode", ["tandem", "cascade"])
async def test_requests_are_told_by_outcome_and_tokens_by_chat_model(checkpoint: Checkpoint, mode: str) -> None:
    usage = LiveUsage(n_tokens_in=200, n_tokens_cached=150, n_tokens_out=30)
    parts = replace(doubles(), usage=lambda: {"default": usage})
    async with KameServer(checkpoint, serve_config(mode=mode), parts, run=inline) as server:
        client = Client(await server.open_session("here"))
        await client.talk(["alpha"] * 12 + [None] * 30)
        await client.session.close("bye")
        await client.over()
        text = Metrics(server).format_text().decode()
        found = figures_in(text)
        n_asked = found["kame_requests_total", "asked"]
        assert n_asked == found["kame_events_total", "oracle_asked"] >= 1
        assert found["kame_requests_total", "answered"] == found["kame_events_total", "oracle_done"] >= 1
        assert n_asked == sum(found["kame_requests_total", each] for each in ("answered", "given_up", "failed"))
        assert [found["kame_chat_tokens_total", "default", each] for each in ("in", "cached", "out")] == [200, 150, 30]
    assert asyncio.all_tasks() == {asyncio.current_task()}


def refuse(path: str) -> None:
    raise PermissionError(errno.EACCES, "Permission denied", path)


@pytest.mark.looptime
async def test_a_recording_is_deleted_by_who_knows_its_session(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "recordings"
    async with recording_app(checkpoint, folder) as (server, app), http_client(app) as me:
        assert server.recordings is not None
        assert (await me.get("/v1/about")).json()["records"] is True
        socket, session_id = await session_of(app, server)
        for _ in range(3):
            server.sessions[session_id].hear(saying("alpha"))
            await asyncio.sleep(FRAME_S)
        await socket.leave()
        await until(lambda: any(folder.glob("*.parquet")))
        assert (await me.delete("/v1/recordings/somebody")).status_code == 404
        with monkeypatch.context() as broken:
            broken.setattr(server.recordings.store.fs, "rm_file", refuse)
            failed = await me.delete(f"/v1/recordings/{session_id}")
        assert (failed.status_code, any(folder.glob("*.parquet"))) == (500, True)
        assert "could not be deleted" in failed.text
        assert (await me.delete(f"/v1/recordings/{session_id}")).status_code == 204
        assert not any(folder.glob("*.parquet"))
        assert (await me.delete(f"/v1/recordings/{session_id}")).status_code == 404


@pytest.mark.looptime
async def test_everything_but_health_wants_its_token_and_wrong_ones_are_throttled(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAME_SERVE_TOKEN", "s3cret")
    monkeypatch.setenv("KAME_METRICS_TOKEN", "figures")
    async with (
        app_of(checkpoint) as (_, app),
        http_client(app) as nobody,
        http_client(app, authorization="Bearer s3cret") as caller,
        http_client(app, authorization="Bearer figures") as prometheus,
        http_client(app, "192.0.2.9", authorization="Bearer guess") as stranger,
    ):
        assert (await nobody.get("/healthz")).status_code == 200
        assert (await nobody.get("/v1/about")).json()["needs_token"] is True
        assert (await nobody.patch("/v1/sessions/x", json={})).status_code == 401
        assert (await nobody.delete("/v1/recordings/x")).status_code == 401
        assert [(await each.get("/metrics")).status_code for each in (nobody, caller, prometheus)] == [401, 401, 200]
        assert [(await each.get("/v1/sessions/x")).status_code for each in (nobody, caller)] == [401, 404]
        assert (await prometheus.get("/v1/sessions/x")).status_code == 401
        for _ in range(10):
            assert (await stranger.get("/v1/sessions/x")).status_code == 401
        for socket in (
            AsgiSocket(app, f"{path}?token=guess", address="192.0.2.9") for path in ("/api/chat", "/v1/realtime")
        ):
            await socket.over
            assert socket.status == 429
        assert (await stranger.get("/metrics")).status_code == 401, "its tokens are counted apart"
        throttled = await stranger.get("/v1/sessions/x")
        assert (throttled.status_code, throttled.json()["error"]["code"]) == (429, "wrong_tokens")
        assert int(throttled.headers["retry-after"]) > 0
        assert (await prometheus.get("/metrics")).status_code == 200
        assert 'kame_denied_total{code="wrong_tokens"}' in (await prometheus.get("/metrics")).text


@pytest.mark.looptime
async def test_callers_are_told_whose_voice_they_hear_and_which_modes_there_are(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint, voice="synthesised") as (_, app), http_client(app) as client:
        about = (await client.get("/v1/about")).json()
    assert (about["voice"], about["modes"]) == ("synthesised", ["tandem", "direct", "cascade"])
    async with app_of(checkpoint, replace(doubles(), speaker=None)) as (_, app), http_client(app) as client:
        about = (await client.get("/v1/about")).json()
    assert (about["voice"], about["modes"]) == ("decoded", ["tandem", "direct"])
    async with app_of(None) as (_, app), http_client(app) as client:
        assert (await client.get("/v1/about")).json()["modes"] == ["cascade"]


@pytest.mark.looptime
async def test_a_host_that_locks_the_prompts_has_them_everywhere(checkpoint: Checkpoint) -> None:
    chat = RepeatingChat()
    async with (
        app_of(checkpoint, doubles(chat), care={"prompts": "locked"}) as (server, app),
        http_client(app) as client,
    ):
        assert (await client.get("/v1/about")).json()["prompts"] == "locked"
        for path in ("/api/chat", "/v1/realtime"):
            for wished in ("Talk+like+a+pirate.", "cascade"):
                refused = AsgiSocket(app, f"{path}?prompt={wished}")
                await refused.over
                assert (refused.status, refused.answer["error"]["code"]) == (400, "not_possible")
                assert "locked" in refused.answer["error"]["message"]
        moshi, realtime = AsgiSocket(app, "/api/chat?events=1"), AsgiSocket(app, "/v1/realtime?prompt=")
        await until(lambda: len(server.sessions) == 2)
        moshi.send(b'\x04{"prompt": "Talk like a pirate."}')
        realtime.send({"type": "session.update", "session": {"instructions": "Talk like a pirate."}})
        realtime.send({"type": "session.update", "kame": {"prompt": "Talk like a pirate.", "events": True}})
        await until(lambda: len(of_type(realtime, "session.updated")) == 2)
        await until(lambda: any(each[:1] == b"\x05" for each in moshi.received if isinstance(each, bytes)))
        changed = await client.patch(f"/v1/sessions/{next(iter(server.sessions))}", json={"prompt": "A pirate speaks."})
        assert (changed.status_code, "locked" in changed.text) == (400, True)
        assert [each["error"]["param"] for each in of_type(realtime, "error")] == ["session.instructions", "kame"]
        assert {each["session"]["instructions"] for each in of_type(realtime, "session.updated")} == {""}
        await say(realtime, "alpha", 10)
        await say(realtime, None, 10)
        changed = await client.patch(
            f"/v1/sessions/{next(iter(server.sessions))}", json={"prompt": "", "mode": "direct"}
        )
        assert changed.status_code == 200, "what changes nothing is no wish"
        await moshi.leave()
        await realtime.leave()
    told = [payload["messages"][0]["content"] for payload in chat.asked]
    assert told
    assert all(load_prompt("tandem").instructions.strip() in each and "pirate" not in each for each in told)


@pytest.mark.looptime
async def test_every_answer_says_what_speaks_and_long_requests_are_not_read(checkpoint: Checkpoint) -> None:
    async with app_of(checkpoint) as (_, app), http_client(app) as client:
        answer = await client.get("/nowhere")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
        assert "machine" in answer.headers["kame-notice"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert (await client.put("/healthz")).json()["error"]["code"] == "method_not_allowed"

        async def endless() -> AsyncIterator[bytes]:
            for _ in range(100):
                yield b"[" * 1024

        for body in (b"[" * 100_000, endless()):
            long = await client.patch("/v1/sessions/x", content=body, headers={"content-type": "application/json"})
            assert (long.status_code, long.json()["error"]["code"]) == (413, "too_long")


@pytest.mark.looptime
async def test_the_page_is_served_beside_the_rest(checkpoint: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<h1>Talk</h1>")
    async with (
        app_of(checkpoint, care={"origins": ["https://talk.example"]}) as (server, _),
        http_client(create_app(server, tmp_path)) as client,
    ):
        page = await client.get("/")
        assert "Talk" in page.text
        policy = page.headers["content-security-policy"]
        assert "default-src 'self'; connect-src 'self' ws://localhost wss://localhost; " in policy
        for host in ("[::1]:8998", "talk.example.org:443"):
            policy = (await client.get("/", headers={"host": host})).headers["content-security-policy"]
            assert f"connect-src 'self' ws://{host} wss://{host}; " in policy
        policy = (await client.get("/", headers={"host": "a; script-src *"})).headers["content-security-policy"]
        assert "connect-src 'self'; " in policy
        assert "*" not in policy
        assert (await client.get("/healthz")).status_code == 200
        asked = {"origin": "https://talk.example", "access-control-request-method": "PATCH"}
        preflight = await client.options("/v1/sessions/x", headers=asked)
        assert preflight.headers["access-control-allow-origin"] == "https://talk.example"
        socket = AsgiSocket(create_app(server, tmp_path), "/index.html")
        await socket.over
        assert (socket.status, socket.answer["error"]["code"]) == (404, "not_found")


async def test_http_is_as_its_schema_says_whatever_is_asked(checkpoint: Checkpoint) -> None:
    async with served(checkpoint) as running:
        asked = await asyncio.to_thread(_ask_everything, f"http://{running.place}/openapi.json")
    assert len(asked) == 7


def _ask_everything(url: str) -> set[str]:
    """Requests that fit the schema, and others that do not; every answer must be one that the schema has."""
    asked = set()
    for result in schemathesis.openapi.from_url(url).get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        has_inputs = "{" in operation.path
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)[: 1 + has_inputs]:

            @settings(max_examples=15 if has_inputs else 1, database=None)
            @given(case=operation.as_strategy(generation_mode=mode))
            def ask(case: "schemathesis.Case[Any]") -> None:
                case.call_and_validate()

            ask()
        asked.add(operation.label)
    return asked
