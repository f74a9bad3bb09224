"""Pages of tables of dialogues and rejects: filters, sorting, paging, and downloads."""

from contextlib import closing
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from dashboard.query import DIALOGUES, PAGE_ROWS, REJECTS, TableKind, TableReader, View
from dashboard.results import MEDIA_TYPES, N_ROWS_EXPORTED, QueryError, to_file
from dashboard.site import Site
from data_schemas.flags import read_flagged

_CHOICES: Final = {
    "dialogues": ("source", "split", "form", "voice", "level", "flag"),
    "rejects": ("stage", "reason", "source"),
}
_HISTOGRAMS: Final = ("duration_s", "n_words", "wer", "mean_word_score", "answer_delay_s")


def create_routes(site: Site) -> APIRouter:
    """Creates the routes of tables."""
    routes = APIRouter(prefix="/datasets/{key}")

    @routes.get("/rows", response_class=HTMLResponse)
    def show_rows(request: Request, key: str) -> HTMLResponse:
        return _show_table(site, request, key, DIALOGUES)

    @routes.get("/rejects", response_class=HTMLResponse)
    def show_rejects(request: Request, key: str) -> HTMLResponse:
        return _show_table(site, request, key, REJECTS)

    @routes.get("/rows.{form}")
    def export_rows(request: Request, key: str, form: str) -> Response:
        return _export_table(site, request, key, DIALOGUES, form)

    @routes.get("/rejects.{form}")
    def export_rejects(request: Request, key: str, form: str) -> Response:
        return _export_table(site, request, key, REJECTS, form)

    return routes


def _show_table(site: Site, request: Request, key: str, kind: TableKind) -> HTMLResponse:
    """Shows the page of a table that the query of the URL describes, with its filters."""
    dataset, index = site.open_dataset(key)
    view = View.parse(kind, request.query_params.multi_items())
    choices = dict.fromkeys((*_CHOICES[kind.name], *view.choices))
    ranges = dict.fromkeys((*_HISTOGRAMS, *view.ranges)) if kind is DIALOGUES else {}
    with closing(TableReader(index, view, read_flagged(dataset.store))) as reader:
        n = reader.count()
        return site.render(
            request,
            "table.html",
            dataset=dataset,
            tab="rows" if kind is DIALOGUES else "rejects",
            view=view,
            n_rows=n,
            n_pages=max(1, -(-n // PAGE_ROWS)),
            rows=reader.read_page(),
            choices=[(column, reader.count_choices(column)) for column in map(kind.get_column, choices)],
            histograms=[
                (column, bars) for column in map(kind.get_column, ranges) if (bars := reader.compute_histogram(column))
            ],
        )


def _export_table(site: Site, request: Request, key: str, kind: TableKind, form: str) -> Response:
    """Sends the rows of a table, under the filters and in the order of the URL, as CSV or Parquet.

    Raises:
        QueryError: there are more than a file may have.
    """
    dataset, index = site.open_dataset(key)
    view = View.parse(kind, request.query_params.multi_items())
    with closing(TableReader(index, view, read_flagged(dataset.store))) as reader:
        n = reader.count()
        if n > N_ROWS_EXPORTED:
            raise QueryError(
                f"The table has {n:,} rows; a file may have {N_ROWS_EXPORTED:,} at most.",
                "Go back and set filters, for instance source and split, and save each part.",
            )
        table = reader.export()
    return make_file_response(to_file(table, form), f"{key}-{kind.name}", form)


def make_file_response(content: bytes, name: str, form: str) -> Response:
    """Makes a response that browsers save as a file.

    Args:
        name: name of the file; characters other than ASCII letters, digits, `-`, `_` and `.` are replaced.
        form: csv or parquet, which is appended.
    """
    safe = "".join(each if each.isascii() and (each.isalnum() or each in "-_.") else "_" for each in name)
    headers = {"Content-Disposition": f'attachment; filename="{safe}.{form}"'}
    return Response(content, media_type=MEDIA_TYPES[form], headers=headers)
