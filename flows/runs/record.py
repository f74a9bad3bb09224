"""The record that a run writes to `runs/`: times, tokens, versions, and how it ended."""

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

from backends.chat.budget import ChatUsage, list_spending, set_run_id
from backends.chat.log import log_to_file
from backends.chat.postgres_cache import open_reply_cache
from data_schemas import ids
from data_schemas.config import RefreshConfig
from data_schemas.errors import KameError, StoreError
from data_schemas.rates import PlanFigure
from data_schemas.store import Store
from flows.runs.plan import compare_with_actual
from flows.runs.usage import UsageMeter, add_processor_s
from pipelines.run.execute import ANSWERS, Runner, locate_answers
from pipelines.run.parts import Part
from pipelines.run.stages import MIXING

_PACKAGES = ("kame-pipeline", "pyarrow", "datasets", "openai", "numpy", "soundfile")
"""Packages whose versions are recorded; engines are identified by their digests."""


@dataclass(slots=True)
class RunRecord:
    """Record of a run, stored in `runs/<run_id>.json`, which is not part of byte comparisons.

    `seconds` is wall-clock time by step, and `processor_s` is processor time, including workers and servers; `planned`
    is the estimate for `parts`, those that were incomplete when the run began. `n_kept` is the number of items of
    earlier runs that were not read because of a limit; `languages_left` counts, by source and language, questions in
    languages that are not selected; `usages` is the usage of the chat models, one entry for each client,
    written as one sum. `outcome` is `done`, or the type and text of the error that ended the run.
    """

    run_id: str
    started_at: str
    configuration: dict[str, Any]
    versions: dict[str, str]
    outcome: str = "stopped"
    seconds: dict[str, float] = field(default_factory=dict)
    processor_s: dict[str, float] = field(default_factory=dict)
    peak_memory_bytes: int = 0
    planned: list[PlanFigure] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    n_kept: int = 0
    languages_left: dict[str, dict[str, int]] = field(default_factory=dict)
    usages: list[ChatUsage] = field(default_factory=list)

    @property
    def chat(self) -> ChatUsage:
        """Total usage of the chat model."""
        return ChatUsage.sum(self.usages)

    @contextmanager
    def time_step(self, step: str) -> Iterator[None]:
        """Adds the wall-clock and processor time of a `with` block to those of a step."""
        before_s = time.monotonic()
        try:
            with add_processor_s(self.processor_s, step):
                yield
        finally:
            self.seconds[step] = round(self.seconds.get(step, 0.0) + time.monotonic() - before_s, 3)


@contextmanager
def record_run(config: RefreshConfig) -> Iterator[RunRecord]:
    """Yields a run's record, and writes it to `runs/` when the block ends, also after an error, which is raised again.

    Requests to chat models in the block are counted for this run, and logged beside the record.
    """
    started = datetime.now(UTC)
    run_id = f"{started:%Y%m%dT%H%M%S}-{ids.digest(started.isoformat(), n_hex=6)}"
    versions = {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
    record = RunRecord(run_id, started.isoformat(timespec="seconds"), config.model_dump(mode="json"), versions)
    log = Path(Store(config.out).resolve_path(f"runs/{run_id}.chat.jsonl"))
    n_bytes_before = _count_bytes(config.out)
    try:
        with UsageMeter() as meter, set_run_id(run_id), log_to_file(log):
            try:
                yield record
            finally:
                record.peak_memory_bytes = meter.peak_bytes
        record.outcome = "done"
    except BaseException as error:
        record.outcome = f"{type(error).__name__}: {error}"
        with suppress(StoreError):  # on a full disk, the run's own error is reported
            _write_record(config, record, n_bytes_before)
        raise
    _write_record(config, record, n_bytes_before)


def _count_bytes(folder: str) -> int:
    """Returns the total size in bytes of a folder's files; files that are deleted during the count are ignored."""
    n_bytes = 0
    for each in Path(folder).rglob("*"):
        with suppress(OSError):
            n_bytes += each.stat().st_size if each.is_file() else 0
    return n_bytes


def _read_actual(record: RunRecord, store: Store, n_bytes_made: int, usd: float | None) -> dict[str, float | None]:
    """Returns the actual figures of a run, by the keys of an estimate's figures.

    Args:
        usd: cost of the chat models; None if a price is unknown.
    """
    runner, chat = Runner(store), record.chat
    made = [found.n_rows for part in record.parts if (found := runner.read_record(part, MIXING)) is not None]
    by_step = {f"processor.{step}": used_s for step, used_s in record.processor_s.items()}
    return {
        **by_step,
        "dialogues": float(sum(made)),
        "items": float(sum(part.n_items for part in record.parts)),
        "calls": float(chat.n_requests),
        "tokens_in": float(chat.n_tokens_in),
        "tokens_cached": chat.n_tokens_cached,
        "tokens_out": float(chat.n_tokens_out),
        "usd": usd,
        "wall_s": round(sum(record.seconds.values()), 3),
        "disk_bytes": float(n_bytes_made),
        "memory_bytes": float(record.peak_memory_bytes),
    }


def _write_record(config: RefreshConfig, record: RunRecord, n_bytes_before: int) -> None:
    """Writes a run's record with the comparison of its estimate with the actual figures, and the cost by chat model.

    The cost is null if the answer cache, which counts it, cannot be read.
    """
    left = ("usages", "planned", "parts")
    fields = {name: value for name, value in asdict(record).items() if name not in left}
    store = Store(config.out)
    models: list[dict[str, Any]] | None = []
    if config.cache_url or store.exists(ANSWERS):
        try:
            with open_reply_cache(locate_answers(config)) as cache:
                models = [asdict(each) for each in list_spending(cache, record.run_id)]
        except KameError:  # the cache's failure may have ended the run, of which the record tells
            models = None
    prices = [each["usd"] for each in models or []]
    usd = None if models is None or None in prices else sum(prices)
    actual = _read_actual(record, store, _count_bytes(config.out) - n_bytes_before, usd)
    plan = compare_with_actual(record.planned, actual)
    text = json.dumps({**fields, "plan": plan, "chat": asdict(record.chat), "models": models}, indent=1)
    store.write_bytes(f"runs/{record.run_id}.json", text.encode())
