"""`kame evaluate table`: quality and delay of direct, tandem and cascade in one table, as in the paper."""

from typing import Annotated

import typer

from flows.cli.evaluate.compare import Evaluations, group_folders_by_name
from flows.cli.terminal import AsJson, print_json, report_errors


def make_paper_table(
    evaluation: Evaluations,
    out: Annotated[
        str, typer.Option("--out", help="Folder to write report.md, table.csv, figures.json and the plot to.")
    ] = "table",
    quality: Annotated[
        str | None,
        typer.Option(
            "--quality",
            help="Metric of the columns, such as answer_accuracy_text. Default: the metric of the transcribed audio.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the paper's table for MT-Bench or question sets: quality by category, and delay, with the published rows."""
    with report_errors(as_json):
        from kame_model.evaluate.report.table import make_table

        rows = make_table(group_folders_by_name(evaluation), out, quality)
        if as_json:
            print_json([row.to_json() for row in rows])
            return
        for row in rows:
            if row.source is None:
                average = "none" if row.average.value is None else f"{row.average.value:.2f}"
                delay = "none" if row.delay_median_s is None else f"{row.delay_median_s:.2f} s"
                typer.echo(f"{row.title}: {average}, median delay {delay}, {row.answered} turns answered")
        typer.echo(f"Report: {out}/report.md")
