"""What chat models were asked, and what they cost, as Prometheus is told it."""

import asyncio
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from backends.chat.live import LiveUsage
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.server import KameServer
from kame_model.serve.web.metrics import Metrics
from tests.support.serving import Client, doubles, inline, serve_config

pytestmark = pytest.mark.full


@pytest.mark.asyncio
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
        text = Metrics(server).text().decode()
        found = {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        n_asked = found["kame_requests_total", "asked"]
        assert n_asked == found["kame_events_total", "oracle_asked"] >= 1
        assert found["kame_requests_total", "answered"] == found["kame_events_total", "oracle_done"] >= 1
        assert n_asked == sum(found["kame_requests_total", each] for each in ("answered", "given_up", "failed"))
        assert [found["kame_chat_tokens_total", "default", each] for each in ("in", "cached", "out")] == [200, 150, 30]
    assert asyncio.all_tasks() == {asyncio.current_task()}
