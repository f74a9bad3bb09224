"""One refresh from beginning to end in this process, and what it writes of itself under `runs/`."""

import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Protocol

from backends.chat.client import ChatUsage
from data_schemas import ids
from data_schemas.config import RefreshConfig
from data_schemas.manifest import Manifest
from pipelines import refresh
from pipelines.card import Figures
from pipelines.publish import compact_group, publish
from pipelines.runner import Part, PartRecord
from pipelines.stations import CPU_STAGES, ORACLE
from pipelines.store import Store
from pipelines.workers import Workers


class Progress(Protocol):
    """What wants to be told how far a run is."""

    def stage(self, name: str, n_items: int) -> None:
        """A stage begins, on so many items."""

    def part(self, stage: str, part: Part, record: PartRecord) -> None:
        """A stage has a part's output, made now or found."""


@dataclass(slots=True)
class RunRecord:
    """What a run did, kept in `runs/<run_id>.json`: times, tokens and versions, outside byte comparisons."""

    run_id: str
    started_at: str
    configuration: dict[str, Any]
    versions: dict[str, str]
    outcome: str = "stopped"
    seconds: dict[str, float] = field(default_factory=dict)
    chat: dict[str, int] = field(default_factory=dict)

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
    versions = {"kame-pipeline": version("kame-pipeline"), "python": platform.python_version()}
    record = RunRecord(run_id, started.isoformat(timespec="seconds"), config.model_dump(mode="json"), versions)
    try:
        yield record
        record.outcome = "done"
    except BaseException as error:
        record.outcome = f"{type(error).__name__}: {error}"
        raise
    finally:
        text = json.dumps(asdict(record), indent=1)
        Store(config.out).write_bytes(f"runs/{run_id}.json", text.encode())


def run_refresh(config: RefreshConfig, progress: Progress) -> tuple[RunRecord, Manifest, Figures]:
    """Makes or refreshes a dataset; again = resume.

    Raises:
        KameError: with cause and remedy; what was finished before stays and is used by the next run.
    """
    with refresh.one_run_at_a_time(config), recorded(config) as record:
        with record.timed("plan"):
            plan = refresh.plan(config)
        n_items = sum(part.n_items for part in plan.parts)
        with Workers(config) as workers:
            for stage in CPU_STAGES:
                progress.stage(stage, n_items)
                with record.timed(stage):
                    refresh.run_stage(workers, stage, plan.parts, progress.part)
        progress.stage(ORACLE, n_items)
        with record.timed(ORACLE), refresh.oracle_endpoint(config, plan.parts) as endpoint:
            usage: ChatUsage = refresh.run_oracle(config, plan.parts, endpoint, progress.part)
            record.chat = asdict(usage)
        with record.timed("publish"):
            entries = [entry for group in plan.groups() for entry in compact_group(config, group)]
            manifest, figures = publish(config, entries, refresh.all_rejects(config, plan))
        return record, manifest, figures
