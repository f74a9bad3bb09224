"""What the dashboard needs of whoever schedules runs: a protocol, which `flows` implements with Prefect's API."""

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
from data_schemas.rates import Figure

State = Literal[
    "scheduled", "pending", "running", "cancelling", "paused", "completed", "failed", "cancelled", "crashed"
]
PLANNED_KINDS: Final = ("refresh", "train")
"""Kinds of runs of which a plan can be made."""
STATES_AT_WORK: Final[tuple[State, ...]] = ("scheduled", "pending", "running", "cancelling", "paused")
"""A run in any other state is over."""


@dataclass(frozen=True, slots=True)
class RunKind:
    """A kind of run: its flow's name, what it does, and the class of its configuration."""

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
    """A run for whose end another one waits.

    Attributes:
        kind: empty: it is none of our kinds.
    """

    run_id: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Run:
    """A run as it is now.

    Attributes:
        state_name: the scheduler's own word for the state, such as Late.
        message: what the scheduler says of the state; of a failed run its error.
        settings: the configuration that it was given; what is left out has its default.
        began: when it began to work; None: not yet.
        duration_s: how long it has been at work.
        percent: how much of it is done; None: it does not tell.
        step: what it is at.
        url: where its page is, of a server.
        waits_for: what must be there for it to begin; empty: nothing is missing.
        blockers: runs of which one must end before it begins.
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
        """Whether it will not change any more."""
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
    """When runs of a kind begin by themselves.

    Attributes:
        when: its cron line, or what else says when.
        next_at: when the next run begins; None: it is paused, or the scheduler has not planned it yet.
    """

    schedule_id: str
    kind: str
    when: str
    timezone: str
    is_active: bool
    settings: Mapping[str, Any] = field(default_factory=dict)
    next_at: datetime | None = None


class SchedulerGoneError(KameError):
    """Whoever schedules runs does not answer, or none was named; an HTTP 503."""


class RefusedRunError(KameError):
    """The scheduler refuses what it is asked to start; an HTTP 400."""


class RunScheduler(Protocol):
    """Starts runs and tells of them. Its methods are called from several threads.

    Each raises `SchedulerGoneError` where it does not answer, and `dashboard.catalog.MissingError` where there is no
    run or schedule of an id.
    """

    def list_runs(self, kinds: Sequence[str], states: Sequence[State], first: int, n: int) -> list[Run]:
        """Runs of these kinds and states, the newest first, from a place on; none that are only due later."""

    def read_run(self, run_id: str) -> Run:
        """A run as it is now."""

    def read_log(self, run_id: str, first: int, n: int) -> list[LogLine]:
        """Lines of a run's log in their order, from a place on."""

    def cancel(self, run_id: str) -> None:
        """Asks a run to stop; one that is over stays as it is."""

    def start(self, kind: str, settings: Mapping[str, Any]) -> str:
        """Starts a run as soon as a worker has room for it; gives its id.

        Raises:
            RefusedRunError: the scheduler does not know the kind, or refuses the settings.
        """

    def list_schedules(self) -> list[Schedule]:
        """All schedules of our kinds of runs."""

    def add_schedule(self, kind: str, settings: Mapping[str, Any], cron: str, timezone: str) -> None:
        """Has runs begin by themselves.

        Raises:
            RefusedRunError: no such cron line or time zone.
        """

    def set_schedule_active(self, kind: str, schedule_id: str, is_active: bool) -> None:
        """Pauses or resumes a schedule."""

    def remove_schedule(self, kind: str, schedule_id: str) -> None:
        """Takes a schedule away."""

    def train_after_refresh(self, dataset: str, settings: Mapping[str, Any]) -> None:
        """Has a training start whenever a refresh has changed a dataset.

        Args:
            settings: of the training; a name for the dataset's content is put behind its `out`.

        Raises:
            RefusedRunError: the scheduler does not know trainings.
        """

    def list_automations(self) -> list[str]:
        """What else happens by itself, a sentence each."""

    def list_choices(self) -> Mapping[str, Sequence[str]]:
        """What is there to choose from on this machine: engines, voices and providers by the name of their setting."""

    def sample_settings(self) -> Mapping[str, Any]:
        """Settings of a refresh of the sample questions that come with the project; empty: they are not installed."""

    def plan(self, kind: str, settings: Mapping[str, Any]) -> list[Figure]:
        """What a run of these settings will take; nothing for kinds of which no plan is made. It starts nothing.

        Raises:
            KameError: a source cannot be read, or the settings name what is not there.
        """
