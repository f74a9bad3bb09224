"""A scheduler of runs for the dashboard's pages that keeps what it is asked for, in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from dashboard.catalog import MissingError
from dashboard.runs import LogLine, Run, Schedule, SchedulerGoneError, State
from data_schemas.rates import PlanFigure

RUN = Run(
    run_id="r1",
    name="refresh gsm8k 2026-11-23 #1",
    kind="refresh",
    state="running",
    state_name="Running",
    message="",
    settings={"out": "data", "limit": 3, "sources": [{"name": "gsm8k"}]},
    due=datetime(2026, 11, 23, 9, tzinfo=UTC),
    began=datetime(2026, 11, 23, 9, tzinfo=UTC),
    duration_s=75.0,
    percent=40.0,
    step="speech gsm8k-train-s0000",
)


class KeptScheduler:
    """Implements `dashboard.runs.RunScheduler` in memory.

    Schedules are kept. Other requests are only recorded, in `started`, `cancelled`, `trained_after` and `planned`, and
    runs do not change. While `is_gone`, methods that concern runs raise `SchedulerGoneError`.
    """

    def __init__(self, *runs: Run) -> None:
        self.runs = {each.run_id: each for each in runs}
        self.log = [LogLine(f"l{n}", datetime(2026, 11, 23, 9, tzinfo=UTC), "info", f"line {n}") for n in range(3)]
        self.schedules: list[Schedule] = []
        self.started: list[tuple[str, Mapping[str, Any]]] = []
        self.trained_after: list[tuple[str, Mapping[str, Any]]] = []
        self.cancelled: list[str] = []
        self.is_gone = False
        self.planned: list[tuple[str, Mapping[str, Any]]] = []

    def list_runs(self, kinds: Sequence[str], states: Sequence[State], first: int, n: int) -> list[Run]:
        self._answer()
        found = [each for each in self.runs.values() if each.kind in kinds and (not states or each.state in states)]
        return found[first : first + n]

    def read_run(self, run_id: str) -> Run:
        self._answer()
        if run_id not in self.runs:
            raise MissingError(f"There is no run {run_id!r}.", "Look into the list.")
        return self.runs[run_id]

    def read_log(self, run_id: str, first: int, n: int) -> list[LogLine]:
        self.read_run(run_id)
        return self.log[first : first + n]

    def cancel(self, run_id: str) -> None:
        self.read_run(run_id)
        self.cancelled.append(run_id)

    def start(self, kind: str, settings: Mapping[str, Any]) -> str:
        """Records the start, and returns `r1` for any run."""
        self._answer()
        self.started.append((kind, settings))
        return "r1"

    def list_schedules(self) -> list[Schedule]:
        return self.schedules

    def add_schedule(self, kind: str, settings: Mapping[str, Any], cron: str, timezone: str) -> None:
        self.schedules.append(Schedule(f"s{len(self.schedules)}", kind, cron, timezone, True, settings))

    def set_schedule_active(self, kind: str, schedule_id: str, is_active: bool) -> None:
        self.schedules = [
            replace(each, is_active=is_active) if each.schedule_id == schedule_id else each for each in self.schedules
        ]

    def remove_schedule(self, kind: str, schedule_id: str) -> None:
        self.schedules = [each for each in self.schedules if each.schedule_id != schedule_id]

    def train_after_refresh(self, dataset: str, settings: Mapping[str, Any]) -> None:
        self.trained_after.append((dataset, settings))

    def list_automations(self) -> list[str]:
        return [f"train on {dataset} when it has changed" for dataset, _ in self.trained_after]

    def list_choices(self) -> Mapping[str, Sequence[str]]:
        return {"tts": ["kokoro"]}

    def get_sample_settings(self) -> Mapping[str, Any]:
        return {"sources": [{"name": "gsm8k", "path": "samples.jsonl"}]}

    def plan(self, kind: str, settings: Mapping[str, Any]) -> list[PlanFigure]:
        self._answer()
        self.planned.append((kind, settings))
        return [
            PlanFigure("wall_s", "machine", f"wall time of {kind}", 5400.0, "s", "3 × 1,800 s", "measured, here"),
            PlanFigure("usd", "chat", "price", None, "USD", "", "unknown: no price is known"),
        ]

    def _answer(self) -> None:
        if self.is_gone:
            raise SchedulerGoneError("Prefect's server does not answer.", "Start it: kame up.")
