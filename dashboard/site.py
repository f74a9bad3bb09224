"""State shared by all pages: datasets, indexes, audio, templates, and the access token."""

import threading
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse

from dashboard.catalog import Catalog, Dataset
from dashboard.checkpoints import Checkpoints
from dashboard.index import Index, Indexes
from dashboard.limits import RunLimits
from dashboard.results import SqlBox
from dashboard.runs import RunScheduler, SchedulerGoneError
from dashboard.sounds import AudioCache
from dashboard.token_rows import TokenRows


@dataclass(frozen=True, slots=True)
class Site:
    """Everything that the pages of one dashboard share."""

    catalog: Catalog
    indexes: Indexes
    sounds: AudioCache
    sql_box: SqlBox
    templates: Environment
    can_write: bool
    is_ending: threading.Event = field(default_factory=threading.Event)
    """Set when the server stops, so that event streams end; the shutdown would wait for them."""
    scheduler: RunScheduler | None = None
    token_rows: TokenRows | None = None
    checkpoints: Checkpoints | None = None
    limits: RunLimits = field(default_factory=lambda: RunLimits(()))
    """Limits on the settings of runs that are started from forms."""
    serve_token: str | None = field(default=None, repr=False)
    """Access token of servers that are started here; pages get it only with their own token."""

    def open_dataset(self, key: str) -> tuple[Dataset, Index]:
        """Returns a dataset and its index.

        Raises:
            MissingError: there is no such dataset.
            IndexBeingMade: its index is not ready yet.
            KameError: it cannot be read.
        """
        dataset = self.catalog.get_dataset(key)
        return dataset, self.indexes.open(dataset)

    def get_scheduler(self) -> RunScheduler:
        """Returns the scheduler of runs.

        Raises:
            SchedulerGoneError: the dashboard was started without one.
        """
        if self.scheduler is None:
            raise SchedulerGoneError(
                "This dashboard was started without Prefect, which schedules and records runs.",
                "Start `kame up`, which includes Prefect, or set PREFECT_API_URL to a Prefect server's address first.",
            )
        return self.scheduler

    def render(self, request: Request, template: str, **values: Any) -> HTMLResponse:
        """Renders a template as an HTML response, with these values and those that all pages need."""
        shared = {"can_write": self.can_write, "nonce": request.state.nonce, "dataset": None, "tab": "", "part": ""}
        shared["has_runs"] = self.scheduler is not None
        return HTMLResponse(self.templates.get_template(template).render(shared | values))
