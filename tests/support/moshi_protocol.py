"""A client of Moshi's protocol without a network: says words as Opus, and keeps what comes by its kind."""

import asyncio
import json
from typing import Any

import sphn
from starlette.types import ASGIApp

from data_schemas.units import FRAME_S, SAMPLE_RATE_HZ
from tests.support.served import AsgiSocket
from tests.support.serving import saying


class MoshiClient(AsgiSocket):
    """A client that says words."""

    def __init__(self, app: ASGIApp, query: str = "", **more: Any) -> None:
        super().__init__(app, f"/api/chat{query}", **more)
        self._opus = sphn.OpusStreamWriter(SAMPLE_RATE_HZ)

    async def say(self, word: str | None, n_frames: int, wait_s: float = FRAME_S) -> None:
        """Says a word for so many frames, each some time after the other; None: silence."""
        for _ in range(n_frames):
            self.send(b"\x01" + self._opus.append_pcm(saying(word)))
            await asyncio.sleep(wait_s)

    def select_kind(self, kind: int) -> list[bytes]:
        """What came of one kind, without its first byte."""
        return [each[1:] for each in self.received if isinstance(each, bytes) and each[0] == kind]

    def told(self, kind: str) -> list[dict[str, Any]]:
        """What events of one kind said."""
        return [event["data"] for event in map(json.loads, self.select_kind(4)) if event["kind"] == kind]
