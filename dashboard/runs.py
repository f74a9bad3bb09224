"""Protocol of the scheduler of runs, which `flows` implements with Prefect's API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, Protocol

from pydantic import BaseModel

from data_schemas.config import RefreshConfig
from data_schemas.config.evaluate import EvaluateConfig
from data_schemas.config.front_end import FrontEndConfig
from data_schemas.config.serving import ServeConfig
from data_schemas.config.speech_rows import SpeechRowsConfig
from data_schemas.errors import KameError
from data_schemas.rates import PlanFigure

State = Literal[
    "scheduled", "pending", "running", "cancelling", "paused", "completed", "failed", "cancelled", "crashed"
]
PLANNED_KINDS: Final = ("refresh", "train")
"""Kinds of runs that can be estimated."""
STATES_AT_WORK: Final[tuple[State, ...]] = ("scheduled", "pending", "running", "cancelling", "paused")
"""States of active runs; in any other state a run has ended."""


@dataclass(frozen=True, slots=True)
class RunKind:
    """A kind of run: name of its flow, description, and configuration class."""

    name: str
    title: str
    does: str
    config: type[BaseModel]


KINDS: Final[Mapping[str, RunKind]] = {
    each.name: each
    for each in (
        RunKind(
            "refresh", "Refresh", "Makes a dataset from question sets, or adds their new items to one.", RefreshConfig
        ),
        RunKind("speech", "Speech", "Makes hours of speech in the assistant's voice, as token rows.", SpeechRowsConfig),
        RunKind("train", "Training", "Trains a front-end on datasets and registers its checkpoint.", FrontEndConfig),
        RunKind(
            "evaluate",
            "Evaluation",
            "Evaluates a checkpoint: recall, spoken questions, MT-Bench or turn-taking.",
            EvaluateConfig,
        ),
        RunKind("serve", "Server", "Serves a checkpoint for people to talk with, until it is stopped.", ServeConfig),
    )
}


@dataclass(frozen=True, slots=True)
class Blocker:
    """A run that another run waits for.

    Attributes:
        kind: kind of run; empty if it is not one of KAME's.
    """

    run_id: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Run:
    """The current state of a run.

    Attributes:
        state_name: the scheduler's name of the state, such as Late.
        message: the scheduler's message on the state; for a failed run its error.
        settings: its configuration; missing fields have their defaults.
        began: start time; None if it has not started.
        duration_s: how long it has run so far, or ran until its end, in seconds.
        percent: progress in percent; None if it is unknown.
        step: current step.
        url: page of a server.
        waits_for: what it needs to start; empty if nothing.
        blockers: runs of which one must end before it starts.
    """

    run_id: str
    name: str
    kind: str
    state: State
    state_name: str
    message: str
    settings: Mapping[str, Any]
    due: datetime | None
    began: datetime | None
    duration_s: float
    percent: float | None = None
    step: str = ""
    url: str = ""
    waits_for: str = ""
    blockers: Sequence[Blocker] = ()

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state not in STATES_AT_WORK


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a run's log."""

    line_id: str
    at: datetime
    level: str
    text: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule that starts runs of a kind.

    Attributes:
        when: cron expression, or another description of the times.
        next_at: start of the next run; None if it is paused or not planned yet.
    """

    schedule_id: str
    kind: str
    when: str
    timezone: str
    is_active: bool
    settings: Mapping[str, Any] = field(default_factory=dict)
    next_at: datetime | None = None


class SchedulerGoneError(KameError):
    """The scheduler does not answer, or none is configured; HTTP 503."""


class RefusedRunError(KameError):
    """The scheduler rejected the start of a run; HTTP 400."""


class RunScheduler(Protocol):
    """Starts runs and returns their states. Its methods are called from several threads.

    Each raises `SchedulerGoneError` if the scheduler does not answer, and `dashboard.catalog.MissingError` if no run or
    schedule has the id.
    """

    def list_runs(self, kinds: Sequence[str], states: Sequence[State], first: int, n: int) -> list[Run]:
        """Returns at most `n` runs of some kinds, the newest first, from offset `first` on; no future ones.

        Args:
            states: wanted states; if empty, all.
        """

    def read_run(self, run_id: str) -> Run:
        """Returns the current state of a run."""

    def read_log(self, run_id: str, first: int, n: int) -> list[LogLine]:
        """Returns at most `n` lines of a run's log in order, from offset `first` on."""

    def cancel(self, run_id: str) -> None:
        """Requests the cancellation of a run; one that has ended is not changed."""

    def start(self, kind: str, settings: Mapping[str, Any]) -> str:
        """Schedules a run to start as soon as a worker is free, and returns its id.

        Raises:
            RefusedRunError: the kind is unknown, or the settings are rejected.
        """

    def list_schedules(self) -> list[Schedule]:
        """Returns all schedules of KAME's kinds of runs."""

    def add_schedule(self, kind: str, settings: Mapping[str, Any], cron: str, timezone: str) -> None:
        """Adds a schedule that starts runs of a kind with these settings.

        Raises:
            RefusedRunError: the cron expression or time zone is invalid, or the settings are rejected.
        """

    def set_schedule_active(self, kind: str, schedule_id: str, is_active: bool) -> None:
        """Pauses or resumes a schedule.

        Raises:
            MissingError: there is no such schedule.
        """

    def remove_schedule(self, kind: str, schedule_id: str) -> None:
        """Deletes a schedule.

        Raises:
            MissingError: there is no such schedule.
        """

    def train_after_refresh(self, dataset: str, settings: Mapping[str, Any]) -> None:
        """Adds an automation that starts a training whenever a refresh has changed a dataset.

        It replaces an earlier one of the same dataset.

        Args:
            dataset: folder of the dataset, on which the training is then made.
            settings: settings of the training; the dataset's fingerprint is appended to `out`.

        Raises:
            RefusedRunError: the scheduler has no trainings.
        """

    def list_automations(self) -> list[str]:
        """Returns a description of each active automation."""

    def list_choices(self) -> Mapping[str, Sequence[str]]:
        """Returns the suggestions for settings on this machine (engines, voices, question sets) by name of the list."""

    def get_sample_settings(self) -> Mapping[str, Any]:
        """Returns the settings of a refresh of the project's sample questions; empty if they are not installed."""

    def plan(self, kind: str, settings: Mapping[str, Any]) -> list[PlanFigure]:
        """Estimates a run with these settings, without starting it; an empty list for kinds without an estimate.

        Raises:
            KameError: a source cannot be read, or the settings name something that does not exist.
        """
