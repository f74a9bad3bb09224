"""A server whose device breaks does not go on as if it were well: its callers are told, and its process ends."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from data_schemas.config.serving import ServeConfig
from data_schemas.errors import BackendError
from flows.runs import serve
from flows.runs.serve import Serving
from kame_model.serve.device.engine import FrameIn, FrameOut, FrontEndEngine
from tests.support.serving import saying, tiny_checkpoint


@pytest.mark.full
@pytest.mark.usefixtures("serve_doubles")
def test_a_broken_device_ends_the_process_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_checkpoint(tmp_path)
    reasons: list[str] = []
    talking: list[asyncio.Task[None]] = []

    def broken(engine: FrontEndEngine, inputs: Mapping[int, FrameIn]) -> dict[int, FrameOut]:
        raise RuntimeError("CUDA error: device-side assert triggered")

    async def talk(running: Serving) -> None:
        async with httpx.AsyncClient(base_url=running.url) as client:
            monkeypatch.setattr(FrontEndEngine, "step", broken)
            for _ in range(3):
                session = await running.server.open_session("here")
                session.hear(saying("alpha"))
                async for _ in session.read_frames():
                    pass
            reasons.append((await client.get("/readyz")).json()["error"]["code"])

    def ready(running: Serving) -> None:
        talking.append(asyncio.create_task(talk(running)))

    def draining(running: Serving) -> None:
        raise AssertionError("nobody asked it to end")

    config = ServeConfig(checkpoint=str(tmp_path / "export"), port=0)
    with pytest.raises(BackendError, match="3 times in a row, the last time by RuntimeError: CUDA error"):
        asyncio.run(asyncio.wait_for(serve.run(config, ready, draining), 60))
    assert reasons == ["draining"]
    talking[0].result()
