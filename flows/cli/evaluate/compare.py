"""`kame evaluate compare`: compares evaluations, with confidence intervals over items and seeds."""

from typing import Annotated

import typer

from flows.cli.terminal import AsJson, print_json, report_errors

Evaluations = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]FOLDER...",
        help="Folders of the same kind of evaluation, as `kame evaluate … --out` wrote them. Folders with the same "
        "NAME "
        "are seeds of one system. The other systems are compared with the first.",
    ),
]


def group_folders_by_name(evaluations: list[str]) -> dict[str, list[str]]:
    """Groups arguments `[NAME=]FOLDER` to lists of folders by name; without a name, the folder is the name.

    Raises:
        ConfigError: a name or a folder is empty.
    """
    from data_schemas.errors import ConfigError

    systems: dict[str, list[str]] = {}
    for each in evaluations:
        name, equals, folder = each.partition("=")
        if not name or (equals and not folder):
            raise ConfigError(f"{each!r} has an empty {'folder' if name else 'name'}.", "Write FOLDER, or NAME=FOLDER.")
        systems.setdefault(name, []).append(folder if equals else name)
    return systems


def compare(
    evaluation: Evaluations,
    out: Annotated[
        str, typer.Option("--out", help="Folder to write report.md, figures.json and the plot to.")
    ] = "comparison",
    between: Annotated[
        str | None,
        typer.Option(
            "--between", help="Compare the values of this field of the figures with each other, such as mode."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare evaluations: every figure with its confidence interval over items and seeds, and the differences."""
    with report_errors(as_json):
        from kame_model.evaluate.report.compare import compare as run
        from kame_model.evaluate.report.compare import is_significant

        rows = run(group_folders_by_name(evaluation), out, between=between)
        if as_json:
            print_json(rows)
            return
        n_apart = sum(map(is_significant, rows))
        typer.echo(f"{len(rows)} figures; {n_apart} differ significantly (95%). Report: {out}/report.md")
