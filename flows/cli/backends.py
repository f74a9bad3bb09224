"""`kame backends`: which engines there are and whether they are installed; `install` makes worker environments."""

import time
from typing import Annotated, Any

import typer

from flows.cli.terminal import AsJson, print_json, speaking_plainly

app = typer.Typer(help="Engines there are, their licences, and what to type for a missing one.")
_HEAD = ("kind", "name", "installed, or what to type", "licence", "note")


@app.callback(invoke_without_command=True)
def backends(context: typer.Context, as_json: AsJson = False) -> None:
    """Engines there are, whether they are installed, their licences, and what to type for a missing one."""
    if context.invoked_subcommand is not None:
        return
    with speaking_plainly(as_json):
        from backends.registry import entries
        from flows.cli import show

        rows = [_row(each) for each in entries()]
        if as_json:
            print_json(rows)
        else:
            cells = [(row["kind"], row["name"], row["install"] or "yes", row["licence"], row["note"]) for row in rows]
            show.console().print(show.table("Back-ends", _HEAD, cells))


@app.command()
def install(
    name: Annotated[str, typer.Argument(help="A back-end that the list says to install, or vllm.")],
    again: Annotated[bool, typer.Option("--again", help="Make it anew even where it is whole.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make the environment that a back-end runs in: packages at pinned versions, checked by their hashes."""
    with speaking_plainly(as_json):
        from backends.workers.environments import environment
        from backends.workers.install import install as make
        from flows.cli import show

        place = environment(_environment_of(name))
        started_s = time.monotonic()
        if place.is_installed() and not again:
            folder = place.folder()
        elif as_json:
            folder = make(place, lambda step: None, again=again)
        else:
            with show.console().status(f"{name}: starting") as status:
                folder = make(place, lambda step: status.update(f"{name}: {step}"), again=again)
        took_s = time.monotonic() - started_s
        if as_json:
            print_json({"name": name, "folder": str(folder), "seconds": round(took_s, 1)})
        else:
            typer.echo(f"{name} is installed in {folder} ({took_s:.0f} s).")


def _row(each: Any) -> dict[str, str]:
    missing = each.what_is_missing()
    return {
        "kind": each.kind,
        "name": each.name,
        "installed": "no" if missing else "yes",
        "install": missing,
        "licence": each.licence,
        "note": each.note,
    }


def _environment_of(name: str) -> str:
    """The worker environment of that name; of a back-end that needs none, the error says what to type.

    Raises:
        ConfigError: the back-end needs no worker environment.
    """
    from backends.registry import ENTRIES
    from data_schemas.errors import ConfigError

    found = [each for each in ENTRIES if each.name == name]
    if found and not any(each.worker for each in found):
        raise ConfigError(f"The back-end {name!r} runs in the main environment.", "Type: make install")
    return name
