"""Nobody is recorded who was not told of it: consent names the notice, and the session begins with it."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.types import ASGIApp

from data_schemas.config.serving import RecordConfig
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.parts import build_parts
from kame_model.serve.session.recordings import RecordingFacts, Recordings
from kame_model.serve.web.access import make_consent_word
from tests.support.inline_threads import InlineThreads
from tests.support.served import AsgiSocket, app_of, http_client, recording_app
from tests.support.serving import doubles, serve_config, until

pytestmark = [pytest.mark.looptime, pytest.mark.full]
NOTICE = "What you say is kept for thirty days."


async def consent_of(app: ASGIApp) -> str:
    """What `/v1/about` says beside the notice."""
    async with http_client(app) as client:
        about = (await client.get("/v1/about")).json()
    assert about["record_notice"] == NOTICE
    return str(about["record_consent"])


@pytest.mark.parametrize("path", ["/api/chat", "/v1/realtime"])
@pytest.mark.parametrize("said", ["yes", "0123456789abcdef", make_consent_word("Of another notice.")])
async def test_who_does_not_name_the_notice_is_not_let_in_and_told_how(
    checkpoint: Checkpoint, tmp_path: Path, path: str, said: str
) -> None:
    async with recording_app(checkpoint, tmp_path, NOTICE) as (server, app):
        socket = AsgiSocket(app, f"{path}?record={said}")
        await socket.over
        assert not server.sessions
    assert (socket.status, socket.answer["error"]["code"]) == (400, "consent")
    assert "/v1/about" in socket.answer["error"]["message"]
    assert "record_consent" in socket.answer["error"]["message"]


async def test_a_server_that_records_no_more_keeps_its_word_on_the_rest(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """Nobody new is recorded, and what there is goes in its time, or when its caller says so."""
    config = RecordConfig(folder=str(tmp_path), notice=NOTICE, keep_days=30, enabled=False)
    for name, at in (("old", "2026-03-01T12:00:00+00:00"), ("new", "2026-04-20T12:00:00+00:00")):
        pq.write_table(pa.table({"started_at": [at]}), tmp_path / f"{name}.parquet")
    about = RecordingFacts(checkpoint="tiny", recogniser="double", notice=NOTICE)
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    recordings = Recordings(config, about, thread=InlineThreads(), now=lambda: now)
    sweeping = asyncio.create_task(recordings.run())
    async with (
        app_of(checkpoint, doubles(recordings=recordings), record=config) as (_, app),
        http_client(app) as client,
    ):
        said = (await client.get("/v1/about")).json()
        assert said["records"] is False
        for consent in ("yes", said["record_consent"]):
            socket = AsgiSocket(app, f"/api/chat?record={consent}")
            await socket.over
            assert (socket.status, socket.answer["error"]["code"]) == (400, "not_possible")
            assert "makes no recordings" in socket.answer["error"]["message"]
        await asyncio.sleep(1)
        assert [each.stem for each in tmp_path.glob("*.parquet")] == ["new"]
        assert (await client.delete("/v1/recordings/new")).status_code == 204
        assert not list(tmp_path.glob("*.parquet"))
    sweeping.cancel()
    await recordings.aclose()


@pytest.mark.looptime(False)
async def test_a_server_that_records_no_more_deletes_what_is_old_as_it_is_put_together(tmp_path: Path) -> None:
    old, new = tmp_path / "old.parquet", tmp_path / "new.parquet"
    for path, at in ((old, "2020-01-01T12:00:00+00:00"), (new, datetime.now(UTC).isoformat())):
        pq.write_table(pa.table({"started_at": [at]}), path)
    config = serve_config(
        listener={"engine": "double"},
        cascade={"tts": "double"},
        back_ends=[{"chat": {"engine": "openai", "base_url": "http://127.0.0.1:9/v1"}}],
        record={"folder": str(tmp_path), "enabled": False, "keep_days": 30},
    )
    async with build_parts(config):
        await until(lambda: not old.exists())
        assert new.exists()


async def told_first(app: ASGIApp, url: str, n_messages: int) -> AsgiSocket:
    """A socket that has been told so much, and has left: one at a time, for a machine may be too slow for two."""
    socket = AsgiSocket(app, url)
    await until(lambda: len(socket.received) >= n_messages)
    await socket.leave()
    return socket


@pytest.mark.parametrize("as_text", [True, False])
async def test_clients_of_moshi_read_the_notice_first(checkpoint: Checkpoint, tmp_path: Path, as_text: bool) -> None:
    care = {"notice": "A machine speaks.", "notice_as_text": as_text}
    async with recording_app(checkpoint, tmp_path, NOTICE, care=care) as (_, app):
        socket = await told_first(app, f"/api/chat?record={await consent_of(app)}", 2)
        not_recorded = await told_first(app, "/api/chat", 1)
    text = NOTICE.encode()
    assert socket.received[1] == (b"\x02A machine speaks. " if as_text else b"\x02") + text
    assert not any(text in each for each in not_recorded.received if isinstance(each, bytes))


async def test_events_and_the_realtime_protocol_tell_the_notice_first(checkpoint: Checkpoint, tmp_path: Path) -> None:
    async with recording_app(checkpoint, tmp_path, NOTICE) as (_, app):
        query = f"record={await consent_of(app)}"
        moshi = await told_first(app, f"/api/chat?events=1&{query}", 2)
        realtime = await told_first(app, f"/v1/realtime?{query}", 1)
        not_recorded = await told_first(app, "/v1/realtime", 1)
    assert isinstance(moshi.received[1], bytes)
    started = json.loads(moshi.received[1][1:])
    assert (started["kind"], started["data"]["record_notice"]) == ("started", NOTICE)
    created = realtime.events[0]
    assert created["type"] == "session.created"
    assert (created["kame"]["is_recorded"], created["kame"]["record_notice"]) == (True, NOTICE)
    assert not_recorded.events[0]["kame"]["record_notice"] == ""
