"""`kame automation`: Prefect automations that start a training or send a notification."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.field_help import CommandApp
from flows.cli.terminal import AsJson, print_json, report_errors

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

app = CommandApp(
    help="Manage Prefect automations: train when a dataset changes, send a notification when a run ends. "
    "The server is set by PREFECT_API_URL.",
    no_args_is_help=True,
)


@app.command()
def train(
    dataset: Annotated[str, typer.Argument(help="Folder of the dataset, as the worker of the refresh sees it.")],
    config: Annotated[
        Path | None,
        typer.Option("--config", help="YAML file of the training's settings, as in the form of a training run."),
    ] = None,
    settings: Annotated[
        list[str],
        typer.Option(
            "--set",
            help="A setting, such as max_steps=2000 or settings.optim.warmup_steps=10. Can be repeated.",
        ),
    ] = [],  # noqa: B006 - Typer reads the default
    as_json: AsJson = False,
) -> None:
    """Start a training each time that a refresh run changes the dataset.

    The fingerprint of the dataset is appended to the training's `out`, so that each version of the dataset is trained
    on in its own folder. A second call for the same dataset replaces the first automation.
    """
    with report_errors(as_json), _open_client() as client:
        from data_schemas.config.front_end import FrontEndConfig
        from flows.automations import train_after_refresh
        from flows.settings import build, parse_settings, read_yaml

        start = {} if config is None else read_yaml(config)
        built = build(FrontEndConfig, start, {"datasets": [dataset]}, parse_settings(settings))
        _print_added(train_after_refresh(client, dataset, built.model_dump(mode="json", exclude_unset=True)), as_json)


@app.command()
def notify(
    webhook_env: Annotated[
        str | None, typer.Option("--webhook-env", help="Environment variable with a URL; JSON is sent to it by POST.")
    ] = None,
    email_env: Annotated[
        str | None,
        typer.Option(
            "--email-env",
            help="Environment variable with a mail server as an Apprise URL: "
            "mailtos://USER:PASSWORD@HOST?from=ADDRESS&to=ADDRESS.",
        ),
    ] = None,
    only_failures: Annotated[bool, typer.Option("--only-failures", help="No notification for completed runs.")] = False,
    pages: Annotated[str, typer.Option("--pages", help="URL of the dashboard, for a link to the run.")] = "",
    as_json: AsJson = False,
) -> None:
    """Send a notification for each run that completes, fails or crashes. Prefect stores the address encrypted."""
    with report_errors(as_json):
        from data_schemas.errors import ConfigError

        if webhook_env is None and email_env is None:
            raise ConfigError("No receiver is given.", "Set --webhook-env, --email-env or both.")
        addresses = {name: os.environ.get(name, "") for name in (webhook_env, email_env) if name is not None}
        for name, address in addresses.items():
            if not address:
                raise ConfigError(f"The environment variable {name} is not set.", "Set it to the URL.")
        with _open_client() as client:
            from flows.automations import notify_by_email, notify_by_webhook

            if webhook_env is not None:
                _print_added(notify_by_webhook(client, addresses[webhook_env], only_failures, pages), as_json)
            if email_env is not None:
                _print_added(notify_by_email(client, addresses[email_env], only_failures, pages), as_json)


@app.command("list")
def list_all(as_json: AsJson = False) -> None:
    """List the automations."""
    with report_errors(as_json), _open_client() as client:
        from flows.automations import list_automations

        found = list_automations(client)
        for each in found:
            if as_json:
                print_json({"name": each.name, "description": each.description, "is_on": each.enabled})
            else:
                typer.echo(f"{each.name}{'' if each.enabled else ' (paused)'}: {each.description}")
        if not found and not as_json:
            typer.echo("There are no automations. `kame automation --help` lists the commands that add one.")


@app.command()
def remove(
    name: Annotated[str, typer.Argument(help="Name of the automation, as `kame automation list` shows it.")],
    as_json: AsJson = False,
) -> None:
    """Remove an automation and its stored address."""
    with report_errors(as_json), _open_client() as client:
        from flows.automations import remove_automation

        remove_automation(client, name)
        if not as_json:
            typer.echo(f"Removed: {name}")


@contextmanager
def _open_client() -> "Iterator[SyncPrefectClient]":
    """Opens a client of the server at PREFECT_API_URL for a `with` block, and translates its errors.

    Raises:
        ConfigError: the variable is not set.
        BackendError: the server does not answer, or rejects a request.
    """
    from data_schemas.errors import BackendError, ConfigError

    api_url = os.environ.get("PREFECT_API_URL")
    if not api_url:
        raise ConfigError(
            "PREFECT_API_URL is not set.",
            "Set it to the URL of the server's API; for `kame up` it is http://127.0.0.1:4200/api.",
        )
    import httpx

    from flows.prefect_client import connect

    try:
        with connect(api_url) as client:
            yield client
    except httpx.HTTPStatusError as error:
        raise BackendError(
            f"Prefect rejected the request: {error.response.text[:500]}",
            "If the server has a password, set PREFECT_API_AUTH_STRING; else see its log.",
        ) from error
    except httpx.HTTPError as error:
        raise BackendError(
            f"The Prefect server at {api_url} does not answer: {error}.", "Start it with `kame up`."
        ) from error


def _print_added(name: str, as_json: bool) -> None:
    """Prints the name of an automation that was added."""
    if as_json:
        print_json({"name": name})
    else:
        typer.echo(f"Added: {name}")
