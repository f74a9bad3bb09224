"""SQL page: queries on a dataset's metadata, as a table or a file."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from dashboard.access import RefusedError, is_same_origin
from dashboard.pages.tables import make_file_response
from dashboard.results import N_MIB_EXPORTED, N_ROWS_EXPORTED, N_ROWS_SHOWN, QueryError, to_cells, to_file
from dashboard.site import Site

_EXAMPLES = (
    ("True words by hint level", "select level, count(*) n, avg(truth_share) share from events group by 1 order by 1"),
    (
        "Level 4 that missed the answer",
        "select e.dialogue_id, e.t_s, e.text, d.answer from events e join dialogues d using (dialogue_id)\n"
        "where e.level = 4 and e.truth_share < 0.2 limit 50",
    ),
    (
        "Forms by length",
        "select form, count(*) n, avg(duration_s) mean_s, max(duration_s) max_s from dialogues group by 1",
    ),
)


def create_routes(site: Site) -> APIRouter:
    """Creates the routes of the SQL page."""
    routes = APIRouter(prefix="/datasets/{key}")

    @routes.get("/sql", response_class=HTMLResponse)
    def show_query_form(request: Request, key: str, query: str = "") -> HTMLResponse:
        """Shows the form with the query filled in, and the tables and columns of the dataset's index."""
        dataset, index = site.open_dataset(key)
        columns = index.fetch_records(
            "SELECT table_name AS of, column_name AS name, data_type AS type FROM duckdb_columns()"
            " WHERE NOT internal ORDER BY of, column_index"
        )
        tables: dict[str, list[dict[str, Any]]] = {}
        for each in columns:
            tables.setdefault(each["of"], []).append(each)
        return site.render(
            request, "sql.html", dataset=dataset, tab="sql", query=query, tables=tables, examples=_EXAMPLES
        )

    @routes.get("/sql/result.{form}")
    def run_sql(request: Request, key: str, form: str, query: str = "") -> Any:
        """Executes a query; returns its first 200 rows as JSON for the page, or all rows as CSV or Parquet.

        A file cannot say that rows are missing from it, so a result that is too large for one is an error.
        """
        if not is_same_origin(request.headers) and request.headers.get("sec-fetch-site") != "none":
            raise RefusedError(
                403, "Another server's page may not run queries here.", "Open the SQL page and press Run."
            )
        dataset, index = site.open_dataset(key)
        if form == "json":
            result = site.sql_box.run(index.file, query, N_ROWS_SHOWN)
            return {
                "columns": result.table.column_names,
                "rows": to_cells(result.table),
                "is_cut": result.is_cut,
            }
        result = site.sql_box.run(index.file, query, N_ROWS_EXPORTED)
        if result.is_cut:
            raise QueryError(
                f"The result is too large for a file: at most {N_ROWS_EXPORTED:,} rows and {N_MIB_EXPORTED} MiB.",
                "Go back and select fewer rows or columns, for instance with WHERE, or parts with LIMIT and OFFSET.",
            )
        content: Response = make_file_response(to_file(result.table, form), f"{dataset.key}-query", form)
        return content

    return routes
