"""`kame evaluate table`: quality beside delay for direct, tandem and cascade, as in the paper."""

from typing import Annotated

import typer

from flows.cli.evaluate.compare import Evaluations, group_folders_by_name
from flows.cli.terminal import AsJson, print_json, speaking_plainly


def table(
    evaluation: Evaluations,
    out: Annotated[
        str, typer.Option("--out", help="Folder of report.md, table.csv, figures.json and the plot.")
    ] = "table",
    quality: Annotated[
        str | None,
        typer.Option(
            "--quality", help="Measure of the columns, e.g. answer_accuracy_text; else what a recogniser hears."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put MT-Bench or question sets into the paper's table: quality by category and delay; published rows below."""
    with speaking_plainly(as_json):
        from kame_model.evaluate.table import make_table

        rows = make_table(group_folders_by_name(evaluation), out, quality)
        if as_json:
            print_json([row.to_json() for row in rows])
            return
        for row in rows:
            if row.source is None:
                told = "none" if row.average.value is None else f"{row.average.value:.2f}"
                delay = "none" if row.delay_median_s is None else f"{row.delay_median_s:.2f} s"
                typer.echo(f"{row.title}: {told}, median delay {delay}")
        typer.echo(f"{out}/report.md has the rest.")
