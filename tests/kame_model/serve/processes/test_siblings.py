"""A server of two processes, each of which answers for both; the network between them is left out."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from data_schemas.config.serving import RecordConfig
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.processes.shared_counts import COUNTS, SharedCounts
from kame_model.serve.processes.siblings import AllProcessesMiddleware, ForwardedRequestApp, join_metrics
from kame_model.serve.server import KameServer
from kame_model.serve.session.recordings import RecordingFacts, Recordings
from kame_model.serve.web.access import make_consent_word
from kame_model.serve.web.app import create_app
from tests.support.served import AsgiSocket, http_client
from tests.support.serving import doubles, inline, saying, serve_config, tiny_checkpoint, until

pytestmark = [pytest.mark.full]


class Silent(httpx.AsyncBaseTransport):
    """A process that has died: nobody answers at its socket."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no such file", request=request)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> list[Checkpoint]:
    """A checkpoint a process: each has a model of its own."""
    return [tiny_checkpoint(tmp_path_factory.mktemp("checkpoint")) for _ in range(2)]


@dataclass
class Pair:
    """Two processes of one server, and how they reach each other."""

    servers: list[KameServer]
    apps: list[FastAPI]
    reached: list[httpx.AsyncBaseTransport]

    async def call(self, number: int, address: str = "192.0.2.1", query: str = "") -> tuple[AsgiSocket, str]:
        """A caller of one process, and the session's id."""
        before = set(self.servers[number].sessions)
        socket = AsgiSocket(self.apps[number], f"/api/chat{query}", address=address)
        await until(lambda: len(self.servers[number].sessions) > len(before) and socket.accepted is not None)
        (session_id,) = set(self.servers[number].sessions) - before
        return socket, session_id


@asynccontextmanager
async def processes(checkpoints: list[Checkpoint], folder: Path, **changes: Any) -> AsyncIterator[Pair]:
    """Two processes with one slot each, unless said otherwise."""
    pair = Pair([], [], [])
    async with AsyncExitStack() as stack:
        for number in range(2):
            counts = SharedCounts(folder / COUNTS, 100 + number)
            stack.callback(counts.close)
            counts.record_state(number, "serving")
            config = serve_config(**{"limits": {"max_sessions": 1}, **changes})
            record = RecordConfig(folder=str(folder / str(number)))
            recordings = Recordings(
                record, RecordingFacts(checkpoint="tiny", recogniser="loudness", notice=record.notice)
            )
            stack.push_async_callback(recordings.aclose)
            config = config.model_copy(update={"record": record})
            server = KameServer(checkpoints[number], config, doubles(recordings=recordings), run=inline, others=counts)
            pair.servers.append(await stack.enter_async_context(server))
            app = create_app(server, None, counts)

            def others(number: int = number) -> dict[int, httpx.AsyncBaseTransport]:
                return {1 - number: pair.reached[1 - number]}

            app.add_middleware(AllProcessesMiddleware, number=number, others=others, counts=counts)
            pair.apps.append(app)
            pair.reached.append(httpx.ASGITransport(ForwardedRequestApp(app), client=("", 0)))
        yield pair


async def test_it_is_ready_as_long_as_one_process_is(checkpoints: list[Checkpoint], tmp_path: Path) -> None:
    async with processes(checkpoints, tmp_path) as pair, http_client(pair.apps[0]) as client:
        first, _ = await pair.call(0)
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
        assert (await client.get("/v1/about")).json()["refusal"] is None
        second, _ = await pair.call(1)
        full = await client.get("/readyz")
        assert (full.status_code, full.json()["error"]["code"], full.headers["retry-after"]) == (503, "full", "5")
        assert (await client.get("/v1/about")).json()["refusal"]["code"] == "full"
        await second.leave()
        assert (await client.get("/readyz")).status_code == 200
        pair.reached[1] = Silent()
        assert (await client.get("/readyz")).status_code == 503
        await first.leave()
        assert (await client.get("/readyz")).status_code == 200


async def test_a_session_is_changed_whichever_process_is_asked(checkpoints: list[Checkpoint], tmp_path: Path) -> None:
    async with (
        processes(checkpoints, tmp_path) as pair,
        http_client(pair.apps[0]) as client,
        http_client(pair.apps[0], "192.0.2.2", **{"kame-caller": "192.0.2.1"}) as somebody,
    ):
        socket, session_id = await pair.call(1)
        shown = await client.get(f"/v1/sessions/{session_id}")
        assert (shown.status_code, shown.json()["mode"]) == (200, "tandem")
        changed = await client.patch(f"/v1/sessions/{session_id}", json={"mode": "direct"})
        assert changed.json()["mode"] == pair.servers[1].sessions[session_id].mode == "direct"
        wrong = await client.patch(f"/v1/sessions/{session_id}", json={"mode": "loud"})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "invalid")
        for path in (session_id, "nobody"):
            kept_out = await somebody.patch(f"/v1/sessions/{path}", json={"mode": "tandem"})
            assert (kept_out.status_code, kept_out.json()["error"]["code"]) == (404, "unknown_session")
        assert pair.servers[1].sessions[session_id].mode == "direct"
        await socket.leave()


async def test_a_recording_is_deleted_whichever_process_is_asked(checkpoints: list[Checkpoint], tmp_path: Path) -> None:
    async with processes(checkpoints, tmp_path) as pair, http_client(pair.apps[0]) as client:
        agreed = f"?record={make_consent_word(pair.servers[1].config.record.notice)}"
        socket, session_id = await pair.call(1, query=agreed)
        session = pair.servers[1].sessions[session_id]
        session.hear(saying("alpha"))
        await until(lambda: session.time_s > 0)
        await socket.leave()
        await until(lambda: (tmp_path / "1" / f"{session_id}.parquet").exists())
        assert (await client.delete("/v1/recordings/nobodys")).status_code == 404
        assert (await client.delete(f"/v1/recordings/{session_id}")).status_code == 204
        assert not (tmp_path / "1" / f"{session_id}.parquet").exists()


async def test_figures_are_those_of_all_processes_by_process(checkpoints: list[Checkpoint], tmp_path: Path) -> None:
    async with processes(checkpoints, tmp_path) as pair, http_client(pair.apps[0]) as client:
        socket, _ = await pair.call(1)
        text = (await client.get("/metrics")).text
        samples = {
            (sample.name, sample.labels["process"], sample.labels.get("mode", "")): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        assert [samples["kame_sessions", number, "tandem"] for number in "01"] == [0, 1]
        assert [samples["kame_ready", number, ""] for number in "01"] == [1, 0]
        assert [samples["kame_process_serving", number, ""] for number in "01"] == [1, 1]
        assert samples["kame_process_deaths_total", "1", ""] == 0
        assert text.count("# TYPE kame_slots gauge") == 1
        pair.reached[1] = Silent()
        left = (await client.get("/metrics")).text
        assert 'kame_slots{process="0"}' in left
        assert 'kame_slots{process="1"}' not in left
        await socket.leave()


async def test_who_may_not_ask_is_refused_where_he_asks(
    checkpoints: list[Checkpoint], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAME_SERVE_TOKEN", "right")
    async with processes(checkpoints, tmp_path) as pair:
        async with http_client(pair.apps[0], authorization="Bearer wrong") as client:
            for path in ("/metrics", "/v1/sessions/x"):
                assert (await client.get(path)).status_code == 401
        async with http_client(pair.apps[0], authorization="Bearer right") as client:
            answer = await client.get("/metrics")
            assert 'kame_slots{process="1"}' in answer.text  # the token is passed on with the rest of the request
            denied = [line for line in answer.text.splitlines() if line.startswith("kame_denied_total")]
            assert denied == ['kame_denied_total{code="token",process="0"} 2.0']
            too_long = await client.patch("/v1/sessions/x", content=b"x" * 70_000)
            assert too_long.status_code == 413


async def test_only_what_no_process_knows_is_counted_as_denied_and_once(
    checkpoints: list[Checkpoint], tmp_path: Path
) -> None:
    async with processes(checkpoints, tmp_path) as pair, http_client(pair.apps[0]) as client:
        agreed = f"?record={make_consent_word(pair.servers[1].config.record.notice)}"
        socket, session_id = await pair.call(1, query=agreed)
        assert (await client.get(f"/v1/sessions/{session_id}")).status_code == 200
        assert (await client.delete(f"/v1/recordings/{session_id}")).status_code == 204
        assert (await client.get("/v1/sessions/nobody")).status_code == 404
        assert (await client.delete("/v1/recordings/nobodys")).status_code == 404
        text = (await client.get("/metrics")).text
        assert [line for line in text.splitlines() if line.startswith("kame_denied_total")] == [
            'kame_denied_total{code="unknown_recording",process="0"} 1.0',
            'kame_denied_total{code="unknown_session",process="0"} 1.0',
        ]
        await socket.leave()


async def test_a_browser_may_ask_what_is_allowed_before_it_sends_a_token(
    checkpoints: list[Checkpoint], tmp_path: Path
) -> None:
    page = "https://talk.example"
    asked = {"origin": page, "access-control-request-method": "GET", "access-control-request-headers": "Authorization"}
    async with (
        processes(checkpoints, tmp_path, care={"origins": [page]}) as pair,
        http_client(pair.apps[0], **asked) as client,
    ):
        for path in ("/readyz", "/metrics", "/v1/about", "/v1/sessions/x", "/v1/recordings/x"):
            answer = await client.options(path)
            assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, page), path


async def test_counters_and_histograms_of_several_processes_keep_their_names(tmp_path: Path) -> None:
    counts = SharedCounts(tmp_path / COUNTS, 1)
    text = (
        "# HELP a_total What.\n# TYPE a_total counter\na_total 3\n# HELP h How.\n# TYPE h histogram\n"
        'h_bucket{le="1.0"} 1\nh_bucket{le="+Inf"} 2\nh_count 2\nh_sum 7\n'
    )
    lines = join_metrics({0: text, 3: text}, counts).decode().splitlines()
    for each in (
        'a_total{process="0"} 3.0',
        'a_total{process="3"} 3.0',
        'h_bucket{le="1.0",process="3"} 1.0',
        'h_sum{process="0"} 7.0',
        "# TYPE h histogram",
        "# TYPE a_total counter",
    ):
        assert each in lines
    assert lines.count("# TYPE h histogram") == 1
    counts.close()
