"""What all pages share: the datasets, their indexes and sounds, the templates, and who may write."""

from dataclasses import dataclass
from typing import Any

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse

from dashboard.catalog import Catalog, Dataset
from dashboard.index import Index, Indexes
from dashboard.results import SqlBox
from dashboard.sounds import Sounds


@dataclass(frozen=True, slots=True)
class Site:
    """One dashboard."""

    catalog: Catalog
    indexes: Indexes
    sounds: Sounds
    sql_box: SqlBox
    templates: Environment
    can_write: bool

    def open(self, key: str) -> tuple[Dataset, Index]:
        """A dataset and its index.

        Raises:
            MissingError: there is no such dataset.
            IndexBeingMade: its index is not done yet.
            KameError: it cannot be read.
        """
        dataset = self.catalog.dataset(key)
        return dataset, self.indexes.open(dataset)

    def render(self, request: Request, template: str, **values: Any) -> HTMLResponse:
        """A page."""
        shared = {"can_write": self.can_write, "nonce": request.state.nonce, "dataset": None, "tab": ""}
        return HTMLResponse(self.templates.get_template(template).render(shared | values))
