"""`kame dashboard`: serves web pages that show datasets, runs and checkpoints."""

from collections.abc import Callable
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
        help="Environment variable with the access token for changes. Without it, `kame dashboard` is read-only, and "
        "`kame up` generates a token.",
    ),
]
HOST: Final = "127.0.0.1"
PORT: Final = 8990


def dashboard(
    roots: Annotated[
        list[Path],
        typer.Argument(help="Datasets, or folders that contain datasets and checkpoints up to two levels deep."),
    ],
    host: Host = HOST,
    port: Port = PORT,
    token_env: TokenEnv = None,
    as_json: AsJson = False,
) -> None:
    """Serve web pages that show datasets: figures, rows, dialogues on a time line, rejects, SQL. Ctrl-C stops it.

    If PREFECT_API_URL is set to a Prefect server, its runs are shown as well and can be started; `kame up` starts one.
    """
    with report_errors(as_json, how_to_resume=""):
        token = read_token(token_env) if token_env else None
        serve_pages(roots, host, port, token, lambda url: print_json({"url": url}) if as_json else typer.echo(url))


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


def serve_pages(roots: list[Path], host: str, port: int, token: str | None, ready: Callable[[str], None]) -> None:
    """Serves the dashboard until it is interrupted; with PREFECT_API_URL, also the runs of that Prefect server.

    If it is not read-only, runs of that server whose process is gone are marked as ended meanwhile.

    Args:
        token: access token for changes; None if the dashboard is read-only.
        ready: called with the URL as soon as it can be reached.

    Raises:
        ConfigError: a root is not a folder, the token is empty, or the address cannot be listened on.
    """
    import os
    import socket
    from typing import Any

    import uvicorn

    from backends.assets import get_cache_dir
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
    )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigError(f"Cannot listen on {host}:{port}: {error.strerror}.", "Choose another --port.") from error
    shown = f"[{host}]" if ":" in host else host
    ready(f"http://{shown}:{listener.getsockname()[1]}/")
    PagesServer(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listener])
