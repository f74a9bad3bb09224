"""The flow `serve` at a Prefect server: it serves until it is told to stop, and its page is an artifact."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from prefect.client.orchestration import get_client

from data_schemas.config.serving import ServeConfig
from flows import serve as serve_flow
from flows.prefect_runs import PrefectRuns
from flows.runs import serve as serving
from flows.runs.serve import Serving
from tests.support.serving import tiny_checkpoint

pytestmark = pytest.mark.full

Told = Callable[[Serving], None]
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.usefixtures("server", "serve_doubles")
def test_it_serves_until_its_worker_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_checkpoint(tmp_path)
    urls: list[str] = []
    shown: list[str] = []
    run = serving.run

    async def run_and_stop(config: ServeConfig, on_ready: Told, on_drain: Told) -> None:
        def ready(running: Serving) -> None:
            on_ready(running)
            urls.append(running.url)
            with get_client(sync_client=True) as client:
                (seen,) = PrefectRuns(str(client.api_url)).list_runs(["serve"], ["running"], 0, 9)
            shown.append(seen.url)
            os.kill(os.getpid(), signal.SIGTERM)

        await run(config, ready, on_drain)

    monkeypatch.setattr(serve_flow, "run", run_and_stop)
    config = ServeConfig(checkpoint=str(tmp_path / "export"), port=0)
    serve_flow.serve(config)
    with get_client(sync_client=True) as client:
        (flow_run,) = client.read_flow_runs()
        (page,) = client.read_artifacts()
    assert (flow_run.state_name, page.key) == ("Completed", "page")
    assert urls[0] in str(page.data)
    assert shown == urls  # the dashboard leads there
    with pytest.raises(httpx.ConnectError):
        httpx.get(urls[0])
