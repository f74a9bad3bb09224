"""`kame automation`: what Prefect does by itself when a dataset has changed or a run has ended."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.terminal import AsJson, print_json, speaking_plainly

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

app = typer.Typer(
    help="What Prefect (PREFECT_API_URL) does by itself: train on a dataset that has changed, tell how runs ended.",
    no_args_is_help=True,
)


@app.command()
def train(
    dataset: Annotated[str, typer.Argument(help="Folder of the dataset, as the refresh's worker sees it.")],
    config: Annotated[
        Path | None, typer.Option("--config", help="YAML of the training's settings, as the form of train has them.")
    ] = None,
    settings: Annotated[
        list[str], typer.Option("--set", help="One of them, e.g. max_steps=2000, settings.optim.warmup_steps=10.")
    ] = [],  # noqa: B006 - Typer reads the default
    as_json: AsJson = False,
) -> None:
    """Start a training whenever a refresh run has changed the dataset; nothing where nothing was new.

    The content's fingerprint is put behind the training's `out`, so that each content is trained on in a folder of its
    own. Said again, it takes the place of what was said before.
    """
    with speaking_plainly(as_json), _client() as client:
        from data_schemas.config.front_end import FrontEndConfig
        from flows.automations import train_after_refresh
        from flows.settings import build, parse_settings, read_yaml

        start = {} if config is None else read_yaml(config)
        told = build(FrontEndConfig, start, {"datasets": [dataset]}, parse_settings(settings))
        _tell(train_after_refresh(client, dataset, told.model_dump(mode="json", exclude_unset=True)), as_json)


@app.command()
def notify(
    webhook_env: Annotated[
        str | None, typer.Option("--webhook-env", help="Environment variable with the URL that JSON is posted to.")
    ] = None,
    email_env: Annotated[
        str | None,
        typer.Option(
            "--email-env",
            help="The same with a mail server: mailtos://USER:PASSWORD@HOST?from=ADDRESS&to=ADDRESS (Apprise).",
        ),
    ] = None,
    only_failures: Annotated[bool, typer.Option("--only-failures", help="Not of runs that are completed.")] = False,
    pages: Annotated[str, typer.Option("--pages", help="The dashboard's address, for a link to the run.")] = "",
    as_json: AsJson = False,
) -> None:
    """Tell of each run that is completed, failed or crashed; the address is kept by Prefect, encrypted."""
    with speaking_plainly(as_json):
        from data_schemas.errors import ConfigError

        if webhook_env is None and email_env is None:
            raise ConfigError("Nobody is to be told.", "Name --webhook-env, --email-env or both.")
        addresses = {name: os.environ.get(name, "") for name in (webhook_env, email_env) if name is not None}
        for name, address in addresses.items():
            if not address:
                raise ConfigError(f"The environment variable {name} is not set.", "Set it to the address.")
        with _client() as client:
            from flows.automations import notify_by_email, notify_by_webhook

            if webhook_env is not None:
                _tell(notify_by_webhook(client, addresses[webhook_env], only_failures, pages), as_json)
            if email_env is not None:
                _tell(notify_by_email(client, addresses[email_env], only_failures, pages), as_json)


@app.command("list")
def list_all(as_json: AsJson = False) -> None:
    """Show what was asked for."""
    with speaking_plainly(as_json), _client() as client:
        from flows.automations import list_automations

        found = list_automations(client)
        for each in found:
            if as_json:
                print_json({"name": each.name, "description": each.description, "is_on": each.enabled})
            else:
                typer.echo(f"{each.name}{'' if each.enabled else ' (paused)'}: {each.description}")
        if not found and not as_json:
            typer.echo("Nothing happens by itself. `kame automation --help` shows what can.")


@app.command()
def remove(
    name: Annotated[str, typer.Argument(help="As `kame automation list` has it.")], as_json: AsJson = False
) -> None:
    """Take one away, with the address that it kept."""
    with speaking_plainly(as_json), _client() as client:
        from flows.automations import remove_automation

        remove_automation(client, name)
        if not as_json:
            typer.echo(f"Removed: {name}")


@contextmanager
def _client() -> "Iterator[SyncPrefectClient]":
    """A client of the server that PREFECT_API_URL names.

    Raises:
        ConfigError: it names none.
        BackendError: it does not answer, or refuses what it is asked.
    """
    from data_schemas.errors import BackendError, ConfigError

    api_url = os.environ.get("PREFECT_API_URL")
    if not api_url:
        raise ConfigError(
            "PREFECT_API_URL is not set.", "Set it to the server's API; that of `kame up` is http://127.0.0.1:4200/api."
        )
    import httpx

    from flows.prefect_client import connect

    try:
        with connect(api_url) as client:
            yield client
    except httpx.HTTPStatusError as error:
        raise BackendError(
            f"Prefect refuses it: {error.response.text[:500]}",
            "Where it has a password, set PREFECT_API_AUTH_STRING; else look at its log.",
        ) from error
    except httpx.HTTPError as error:
        raise BackendError(
            f"Prefect's server at {api_url} does not answer: {error}.", "Start it: `kame up`."
        ) from error


def _tell(name: str, as_json: bool) -> None:
    if as_json:
        print_json({"name": name})
    else:
        typer.echo(f"Set up: {name}")
