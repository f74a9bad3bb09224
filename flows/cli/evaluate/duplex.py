"""`kame evaluate duplex`: how a front-end takes turns, by Full-Duplex-Bench's definitions."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from flows.cli.evaluate.options import Again, Register, make_server_command, tell_condition


def _tell(row: Mapping[str, Any]) -> str:
    latency = "" if row.get("latency_s") is None else f", {row['latency_s']:.2f} s after the user"
    return f"{tell_condition(row)}, {row['subset']}: takes the turn in {row['take_over']:.0%}{latency}"


@make_server_command("duplex", _tell)
def duplex(
    path: Annotated[
        str,
        typer.Option("--path", help="Folder of Full-Duplex-Bench's data (version 1), or of a dataset of one's own."),
    ],
    tasks: Annotated[
        str | None,
        typer.Option("--tasks", help="pause_handling,backchannel,turn_taking,user_interruption, or some of them."),
    ] = None,
    n_items: Annotated[
        int | None, typer.Option("--n", min=1, help="Items at most of each of the data's folders.")
    ] = None,
    again: Again = False,
    register: Register = None,
) -> dict[str, Any]:
    """Play a user's pauses, turns and interruptions to a served front-end: when does it speak? Goes on if stopped."""
    return {
        "path": path,
        "tasks": None if tasks is None else [each.strip() for each in tasks.split(",")],
        "n_items": n_items,
        "again": again,
        "register": register,
    }
