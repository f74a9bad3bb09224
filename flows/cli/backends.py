"""`kame backends`: lists engines and question sets with their options; `install` makes worker environments."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.field_help import CommandApp
from flows.cli.terminal import AsJson, print_json, report_errors

if TYPE_CHECKING:
    from pydantic import BaseModel

app = CommandApp(help="List, install and describe engines and question sets.")
_HEAD = ("kind", "name", "installed, or command to install", "licence", "note")


@app.callback(invoke_without_command=True)
def print_backends(context: typer.Context, as_json: AsJson = False) -> None:
    """List engines and question sets: licence, whether they are installed, and the command that installs them."""
    if context.invoked_subcommand is not None:
        return
    with report_errors(as_json):
        from backends.registry import list_backends
        from flows.cli import show

        rows = [_make_row(each) for each in list_backends()] + _make_source_rows()
        if as_json:
            print_json(rows)
        else:
            cells = [(row["kind"], row["name"], row["install"] or "yes", row["licence"], row["note"]) for row in rows]
            show.open_console().print(show.make_table("Back-ends", _HEAD, cells))


@app.command("options")
def print_options(
    kind: Annotated[
        str,
        typer.Argument(help="Kind, as `kame backends` shows it: tts, aligner, asr, listener, chat, codec or source."),
    ],
    name: Annotated[
        str, typer.Argument(help="Name of a back-end or a question set; `own` for a question set with --map.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show the options of a back-end or a question set, with their defaults."""
    with report_errors(as_json):
        from flows.cli import show

        taken = _find_options(kind, name)
        rows = [
            {
                "name": field,
                "default": "" if each.is_required() else str(each.default),
                "description": each.description or "",
            }
            for field, each in (taken.model_fields if taken else {}).items()
        ]
        if as_json:
            print_json(rows)
        elif rows:
            cells = [tuple(row.values()) for row in rows]
            show.open_console().print(
                show.make_table(f"Options of {kind} {name}", ("option", "default", "meaning"), cells)
            )
        else:
            typer.echo(f"{kind} {name} has no options.")


@app.command()
def install(
    name: Annotated[
        str, typer.Argument(help="Name of a back-end for which `kame backends` shows this command, or vllm.")
    ],
    again: Annotated[
        bool, typer.Option("--again", help="Install the environment again even if it is complete.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Install the environment of a back-end, with pinned package versions that are verified by hash."""
    with report_errors(as_json):
        from backends.workers.environments import get_environment
        from backends.workers.install import install as make
        from flows.cli import show

        place = get_environment(_check_needs_environment(name))
        started_s = time.monotonic()
        if place.is_installed() and not again:
            folder = place.get_folder()
        elif as_json:
            folder = make(place, lambda step: None, again=again)
        else:
            with show.open_console().status(f"{name}: starting") as status:
                folder = make(place, lambda step: status.update(f"{name}: {step}"), again=again)
        took_s = time.monotonic() - started_s
        if as_json:
            print_json({"name": name, "folder": str(folder), "seconds": round(took_s, 1)})
        else:
            typer.echo(f"{name} is installed in {folder} ({took_s:.0f} s).")


def _make_row(each: Any) -> dict[str, str]:
    """Makes the row of a back-end; `install` is the command that installs it, empty if it is installed."""
    missing = each.find_missing()
    return {
        "kind": each.kind,
        "name": each.name,
        "installed": "no" if missing else "yes",
        "install": missing,
        "licence": each.licence,
        "note": each.note,
    }


def _make_source_rows() -> list[dict[str, str]]:
    """Makes the rows of question sets, with the same fields as `_make_row`."""
    from pipelines.sources.registry import list_sources

    rows = []
    for each in list_sources():
        missing, package = each.find_missing(), each.plugin.package if each.plugin else ""
        row = {"kind": "source", "name": each.name, "installed": "no" if missing else "yes", "install": missing}
        rows.append(row | {"licence": "" if missing else each.get_licence(), "note": package})
    return rows


def _find_options(kind: str, name: str) -> "type[BaseModel] | None":
    """Finds the options class of a back-end or a question set; None if it has no options.

    A question set that is unknown (with a note on standard error), or `own`, has the options of a set with a column
    map.

    Raises:
        ConfigError: there is no such kind or back-end, or modules that it needs are missing.
    """
    from backends.registry import GROUPS, get_entry
    from data_schemas.errors import ConfigError
    from pipelines.sources import own
    from pipelines.sources.registry import list_sources

    if kind == "source":
        sources = {each.name: each for each in list_sources()}
        if name in sources:
            return sources[name].get_options_class()
        if name != "own":
            typer.echo(
                f"There is no question set {name!r}. These are the options of a question set with --map:", err=True
            )
        return own.OwnOptions
    if kind not in GROUPS:
        raise ConfigError(f"There is no kind {kind!r}.", f"Choose one of: {', '.join([*GROUPS, 'source'])}.")
    return get_entry(kind, name, needs_worker=False).get_options_class()


def _check_needs_environment(name: str) -> str:
    """Returns the name unchanged if it is of a back-end with a worker environment, or of no back-end at all.

    Raises:
        ConfigError: the back-end needs no worker environment.
    """
    from backends.registry import ENTRIES
    from data_schemas.errors import ConfigError

    found = [each for each in ENTRIES if each.name == name]
    if found and not any(each.worker for each in found):
        raise ConfigError(
            f"The back-end {name!r} runs in the main environment.",
            "Install kame-pipeline[all] (in a clone: make install).",
        )
    return name
