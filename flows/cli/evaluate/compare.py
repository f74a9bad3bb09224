"""`kame evaluate compare`: evaluations side by side, with intervals over items and seeds."""

from typing import Annotated

import typer

from flows.cli.terminal import AsJson, print_json, speaking_plainly

Evaluations = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]FOLDER...",
        help="Folders that `kame evaluate … --out` wrote, of one kind. Those of one NAME are of one system, as its "
        "seeds. The first system is what others are compared with.",
    ),
]


def group_folders_by_name(evaluations: list[str]) -> dict[str, list[str]]:
    """The folders of each system; one without a name is called by its folder.

    Raises:
        ConfigError: a name or a folder is empty.
    """
    from data_schemas.errors import ConfigError

    systems: dict[str, list[str]] = {}
    for each in evaluations:
        name, equals, folder = each.partition("=")
        if not name or (equals and not folder):
            raise ConfigError(f"{each!r} names no {'folder' if name else 'system'}.", "Say FOLDER, or NAME=FOLDER.")
        systems.setdefault(name, []).append(folder if equals else name)
    return systems


def compare(
    evaluation: Evaluations,
    out: Annotated[str, typer.Option("--out", help="Folder of report.md, figures.json and the plot.")] = "comparison",
    between: Annotated[
        str | None, typer.Option("--between", help="Compare the values of a field of the rows, such as mode.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put evaluations side by side: every figure with its interval over items and seeds, and how systems differ."""
    with speaking_plainly(as_json):
        from kame_model.evaluate.compare import compare as run

        rows = run(group_folders_by_name(evaluation), out, between=between)
        if as_json:
            print_json(rows)
            return
        n_apart = sum(
            row["difference"]["low"] > 0 or row["difference"]["high"] < 0
            for row in rows
            if row["difference"] is not None and row["difference"]["low"] is not None
        )
        typer.echo(f"{len(rows)} figures; {n_apart} differ by more than chance (95%). {out}/report.md has them.")
