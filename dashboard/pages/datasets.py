"""Pages of datasets: list, and figures of one dataset."""

import time
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse

from dashboard.catalog import DamagedDataset, Dataset
from dashboard.figures import DatasetCost, Totals, read_cost, read_groups, read_totals
from dashboard.index import PAGE_WAIT_S, IndexBeingMade
from dashboard.provenance import read_run_file
from dashboard.site import Site
from data_schemas.errors import KameError
from data_schemas.flags import read_flagged


@dataclass(frozen=True, slots=True)
class DatasetEntry:
    """An entry of the list: a dataset with its totals; without them while its index is built or if that failed."""

    dataset: Dataset | DamagedDataset
    totals: Totals | None = None
    cost: DatasetCost | None = None
    error: KameError | None = None


def create_routes(site: Site) -> APIRouter:
    """Creates the routes of datasets."""
    routes = APIRouter()

    @routes.get("/", response_class=HTMLResponse)
    def list_datasets(request: Request) -> HTMLResponse:
        """Shows all datasets with their totals; the page reloads itself while an index is being built."""
        until = time.monotonic() + PAGE_WAIT_S
        listed = [_read_entry(site, each, max(0.0, until - time.monotonic())) for each in site.catalog.list_datasets()]
        is_waiting = any(each.totals is None and each.error is None for each in listed)
        page = site.render(request, "datasets.html", part="datasets", listed=listed, roots=site.catalog.roots)
        if is_waiting:
            page.headers["Refresh"] = "2"
        return page

    @routes.get("/datasets/{key}", response_class=HTMLResponse)
    def show_dataset(request: Request, key: str) -> HTMLResponse:
        """Shows the figures of a dataset: totals, groups, cost, rejects, oracles and flags."""
        dataset, index = site.open_dataset(key)
        return site.render(
            request,
            "dataset.html",
            dataset=dataset,
            tab="overview",
            totals=read_totals(index, dataset.manifest.oracle_version),
            groups=read_groups(index),
            cost=read_cost(dataset),
            rejects=index.fetch_records(
                "SELECT stage, reason, count(*) AS n FROM rejects GROUP BY ALL ORDER BY n DESC, stage, reason"
            ),
            oracles=index.fetch_records(
                "SELECT oracle_version, simulator, model, count(DISTINCT dialogue_id) AS n_dialogues, count(*) AS n,"
                " count(*) FILTER (status = 'answered') AS n_asked, count(*) FILTER (status = 'failed') AS n_failed"
                " FROM events GROUP BY ALL ORDER BY ALL"
            ),
            flags=read_flagged(dataset.store),
            n_bytes=sum(each.n_bytes for each in dataset.manifest.shards),
        )

    @routes.get("/datasets/{key}/runs/{run_id}", response_class=HTMLResponse)
    def show_run_record(request: Request, key: str, run_id: str) -> HTMLResponse:
        """Shows the record of a run of `kame refresh`."""
        dataset = site.catalog.get_dataset(key)
        return site.render(request, "run_record.html", dataset=dataset, tab="", run=read_run_file(dataset, run_id))

    return routes


def _read_entry(site: Site, dataset: Dataset | DamagedDataset, wait_s: float) -> DatasetEntry:
    """Returns the entry of a dataset; without totals if its index is not ready after `wait_s` seconds.

    A dataset that cannot be read has its error instead.
    """
    if isinstance(dataset, DamagedDataset):
        return DatasetEntry(dataset, error=dataset.error)
    try:
        index = site.indexes.open(dataset, wait_s)
        return DatasetEntry(dataset, read_totals(index, dataset.manifest.oracle_version), read_cost(dataset))
    except IndexBeingMade:
        return DatasetEntry(dataset)
    except KameError as error:
        return DatasetEntry(dataset, error=error)
