"""What a run writes of itself under `runs/`: times, tokens, versions and how it ended."""

import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from backends.chat.budget import ChatUsage, run_named, spent
from backends.chat.cache import ReplyCache
from backends.chat.log import written_to
from data_schemas import ids
from data_schemas.config import RefreshConfig
from data_schemas.errors import StoreError
from data_schemas.store import Store
from pipelines.run.execute import ANSWERS

_PACKAGES = ("kame-pipeline", "pyarrow", "datasets", "openai", "numpy", "soundfile")
"""Whose versions are recorded; engines tell theirs by their digests."""


@dataclass(slots=True)
class RunRecord:
    """What a run did, kept in `runs/<run_id>.json`, outside byte comparisons.

    `seconds` is by step; `n_kept` are items of earlier runs that a limit left unread this time;
    `languages_left` counts, by source and language, questions in languages not asked for; `usages` is what the
    chat model took, an entry a part, written as one sum.
    """

    run_id: str
    started_at: str
    configuration: dict[str, Any]
    versions: dict[str, str]
    outcome: str = "stopped"
    seconds: dict[str, float] = field(default_factory=dict)
    n_kept: int = 0
    languages_left: dict[str, dict[str, int]] = field(default_factory=dict)
    usages: list[ChatUsage] = field(default_factory=list)

    @property
    def chat(self) -> ChatUsage:
        """What the chat model took in all."""
        return ChatUsage.total(self.usages)

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Adds the block's time to the step's."""
        before_s = time.monotonic()
        try:
            yield
        finally:
            self.seconds[step] = round(self.seconds.get(step, 0.0) + time.monotonic() - before_s, 3)


@contextmanager
def recorded(config: RefreshConfig) -> Iterator[RunRecord]:
    """A run's record, written when the block ends, well or not."""
    started = datetime.now(UTC)
    run_id = f"{started:%Y%m%dT%H%M%S}-{ids.digest(started.isoformat(), n_hex=6)}"
    versions = {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
    record = RunRecord(run_id, started.isoformat(timespec="seconds"), config.model_dump(mode="json"), versions)
    log = Path(Store(config.out).at(f"runs/{run_id}.chat.jsonl"))
    try:
        with run_named(run_id), written_to(log):
            yield record
        record.outcome = "done"
    except BaseException as error:
        record.outcome = f"{type(error).__name__}: {error}"
        with suppress(StoreError):  # on a full disk the run's own error is the one to tell
            _write(config, record)
        raise
    _write(config, record)


def _write(config: RefreshConfig, record: RunRecord) -> None:
    told = {name: value for name, value in asdict(record).items() if name != "usages"}
    store, models = Store(config.out), []
    if store.exists(ANSWERS):
        with ReplyCache(store.at(ANSWERS)) as cache:
            models = [asdict(each) for each in spent(cache, record.run_id)]
    text = json.dumps({**told, "chat": asdict(record.chat), "models": models}, indent=1)
    store.write_bytes(f"runs/{record.run_id}.json", text.encode())
