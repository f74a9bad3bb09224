"""`kame evaluate duplex`: turn-taking of a front-end, by the definitions of Full-Duplex-Bench."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from flows.cli.evaluate.options import Again, Register, describe_condition, make_server_command


def _format_row(row: Mapping[str, Any]) -> str:
    """Formats the line of a row of figures."""
    latency = "" if row.get("latency_s") is None else f", {row['latency_s']:.2f} s after the user"
    return f"{describe_condition(row)}, {row['subset']}: takes the turn in {row['take_over']:.0%}{latency}"


@make_server_command("duplex", _format_row)
def evaluate_duplex(
    path: Annotated[
        str,
        typer.Option(
            "--path",
            help="Folder of Full-Duplex-Bench's data (version 1, from github.com/DanielLin94144/Full-Duplex-Bench), or "
            "of a dataset of `kame refresh`.",
        ),
    ],
    tasks: Annotated[
        str | None,
        typer.Option(
            "--tasks",
            help="Tasks, separated by commas. Default: pause_handling,backchannel,turn_taking,user_interruption.",
        ),
    ] = None,
    n_items: Annotated[
        int | None,
        typer.Option("--n", min=1, help="Maximum number of items of each of the data's folders. Default: all."),
    ] = None,
    again: Again = False,
    register: Register = None,
) -> dict[str, Any]:
    """Evaluate turn-taking: pauses, backchannels, turns and interruptions of a user.

    Run the same command again to resume.
    """
    return {
        "path": path,
        "tasks": None if tasks is None else [each.strip() for each in tasks.split(",")],
        "n_items": n_items,
        "again": again,
        "register": register,
    }
