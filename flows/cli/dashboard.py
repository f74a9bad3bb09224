"""`kame dashboard`: serves web pages that show datasets, runs and checkpoints."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from flows.cli.terminal import AsJson, print_json, report_errors

Host = Annotated[str, typer.Option("--host", help="IP address or host name that the dashboard listens on.")]
Port = Annotated[int, typer.Option("--port", help="Port of the dashboard; 0: any free port.", min=0, max=65535)]
TokenEnv = Annotated[
    str | None,
    typer.Option(
        "--token-env",
        help="Environment variable with the access token for changes. Anyone with this token can start "
        "runs, which read files, run code and spend money with the account and the API keys of the workers: "
        "docs/dashboard.md. Without it, `kame dashboard` is read-only, and `kame up` generates a token.",
    ),
]
AllowHost = Annotated[
    list[str],
    typer.Option(
        "--allow-host",
        help="Host that runs started from forms may contact and send API keys to, besides this machine and the known "
        "providers, such as gpu-1 or *.example.org; *: any. Can be repeated. `kame up` that generates its token allows "
        "any by default.",
    ),
]
HOST: Final = "127.0.0.1"
PORT: Final = 8990


def serve_dashboard(
    roots: Annotated[
        list[Path],
        typer.Argument(help="Datasets, or folders that contain datasets and checkpoints up to two levels deep."),
    ],
    host: Host = HOST,
    port: Port = PORT,
    token_env: TokenEnv = None,
    allow_host: AllowHost = [],  # noqa: B006 - Typer reads the default
    as_json: AsJson = False,
) -> None:
    """Serve web pages that show datasets: figures, rows, dialogues on a time line, rejects, SQL. Ctrl-C stops it.

    If PREFECT_API_URL is set to a Prefect server, its runs are shown as well and can be started; `kame up` starts one.
    """
    with report_errors(as_json, how_to_resume=""):
        token = read_token(token_env) if token_env else None

        def print_url(url: str) -> None:
            """Prints where the dashboard is."""
            print_json({"url": url}) if as_json else typer.echo(url)

        serve_pages(roots, host, port, token, print_url, allow_host)


def read_token(variable: str) -> str:
    """Returns the token for changes from an environment variable.

    Raises:
        ConfigError: the variable is not set, or empty.
    """
    import os

    from data_schemas.errors import ConfigError

    token = os.environ.get(variable)
    if not token:
        fault = "is not set" if token is None else "has no value, so the token is empty"
        raise ConfigError(f"The environment variable {variable} {fault}.", "Set it, or omit --token-env.")
    return token


def serve_pages(
    roots: list[Path],
    host: str,
    port: int,
    token: str | None,
    ready: Callable[[str], None],
    allowed_hosts: Sequence[str] = (),
) -> None:
    """Serves the dashboard until it is interrupted; with PREFECT_API_URL, also the runs of that Prefect server.

    Unless it is read-only, it also marks runs of that server as ended whose process is gone.

    Args:
        token: access token for changes; None if the dashboard is read-only.
        ready: called with the URL as soon as it can be reached.
        allowed_hosts: hosts that runs may contact besides this machine and those of the known providers.

    Raises:
        ConfigError: a root is not a folder, the token is empty, an allowed host is not the name of one, or the address
            cannot be listened on.
    """
    import os
    import socket
    from typing import Any

    import uvicorn

    from backends.assets import get_cache_dir
    from backends.chat.providers import list_provider_hosts
    from dashboard.app import create_app
    from data_schemas.config.serving import TOKEN_ENV
    from data_schemas.errors import ConfigError
    from flows.checkpoints import CheckpointFiles
    from flows.token_rows import EncodedRows

    class PagesServer(uvicorn.Server):
        async def shutdown(self, *args: Any, **options: Any) -> None:
            """Ends event streams first, because the shutdown would wait for them."""
            app.state.end_streams()
            await super().shutdown(*args, **options)

    scheduler = None
    if api_url := os.environ.get("PREFECT_API_URL"):
        from flows.lost_runs import watch_in_background
        from flows.prefect_runs import PrefectRuns

        scheduler = PrefectRuns(api_url)
        if token is not None:  # a read-only dashboard changes no run
            watch_in_background(api_url)
    app = create_app(
        roots,
        get_cache_dir() / "dashboard",
        token,
        host,
        scheduler,
        token_rows=EncodedRows(),
        checkpoints=CheckpointFiles(),
        serve_token=os.environ.get(TOKEN_ENV),
        allowed_hosts=[*list_provider_hosts(), *allowed_hosts],
    )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigError(f"Cannot listen on {host}:{port}: {error.strerror}.", "Choose another --port.") from error
    shown = f"[{host}]" if ":" in host else host
    ready(f"http://{shown}:{listener.getsockname()[1]}/")
    PagesServer(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listener])
