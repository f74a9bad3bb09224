"""`kame up`: starts Prefect, its workers and the dashboard on this machine."""

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from flows.cli.dashboard import HOST, PORT, AllowHost, Host, Port, TokenEnv, read_token
from flows.cli.terminal import AsJson, print_json, report_errors

if TYPE_CHECKING:
    from flows.components import Components

_READY_S: Final = 600.0
"""Timeout of the start of a component. Prefect's server takes 16 s on an idle machine, over 180 s on a busy one."""
_LOOK_FOR_GPU: Final = "import sys, torch; sys.exit(not torch.cuda.is_available())"
"""Runs in another process, because torch would stay in the memory of this one."""
_TOKEN: Final = "KAME_UP_TOKEN"  # noqa: S105 - the variable's name


def start_all(
    roots: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Folders that contain datasets and checkpoints, up to two levels deep. Default: the current folder."
        ),
    ] = None,
    host: Host = HOST,
    port: Port = PORT,
    token_env: TokenEnv = None,
    allow_host: AllowHost = [],  # noqa: B006 - Typer reads the default
    as_json: AsJson = False,
) -> None:
    """Start Prefect, its workers and deployments, and the dashboard on this machine, until Ctrl-C.

    Ctrl-C cancels active runs. Their finished parts are kept, and a run resumes when it is started again. Relative
    paths in the settings of runs are relative to the current folder.
    """
    with report_errors(as_json, how_to_resume="Prefect's history and all output are kept."):
        import secrets
        import signal

        from backends.assets import get_cache_dir
        from dashboard.limits import ANY_HOST
        from flows.components import Components

        token = read_token(token_env) if token_env else secrets.token_urlsafe(16)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background
        with Components(get_cache_dir() / "up") as components:
            api_url = _start_prefect(components, as_json)
            allowed = allow_host or ([] if token_env else [ANY_HOST])  # a token made here is for one person alone
            url = _start_dashboard(components, api_url, roots or [Path()], host, port, token, allowed)
            shown = url if token_env else f"{url}#token={token}"
            _print_component("dashboard", shown, as_json)
            _start_workers(components, api_url, as_json)
            if not as_json:
                typer.echo("kame: ready; Ctrl-C stops all components.", err=True)
            try:
                components.watch()
            finally:
                _stop_runs(api_url)


def _start_prefect(components: "Components", as_json: bool) -> str:
    """Starts Prefect's server, ends lost runs, registers the deployments, and returns the URL of its API.

    Raises:
        ConfigError: its port is in use.
        BackendError: it did not start.
    """
    import socket
    import subprocess
    import sys

    from data_schemas.errors import ConfigError

    port = int(os.environ.get("PREFECT_SERVER_API_PORT", "4200"))
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise ConfigError(
            f"Prefect's port {port} is in use: {error.strerror}.",
            "Stop the program that listens there (another `kame up` or `prefect server`), or set "
            "PREFECT_SERVER_API_PORT to a free port.",
        ) from error
    api_url = f"http://127.0.0.1:{port}/api"
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    server = components.start("prefect", command, _make_environment(api_url))
    null = subprocess.DEVNULL
    looking = subprocess.Popen([sys.executable, "-c", _LOOK_FOR_GPU], stdout=null, stderr=null)  # noqa: S603

    from flows.deployments import deploy, end_lost_runs
    from flows.prefect_client import connect

    client = connect(api_url)
    components.wait_for(server, lambda: client.api_healthcheck() is None, _READY_S)
    end_lost_runs(client)
    deploy(client, Path.cwd(), has_gpu=looking.wait() == 0)
    _print_component("prefect", api_url.removesuffix("/api"), as_json)
    return api_url


def _start_dashboard(
    components: "Components",
    api_url: str,
    roots: list[Path],
    host: str,
    port: int,
    token: str,
    allowed_hosts: list[str],
) -> str:
    """Starts the dashboard, waits until it is ready, and returns its URL."""
    import json
    import sys

    options = ["--host", host, "--port", str(port), "--token-env", _TOKEN, "--json"]
    options += [word for each in allowed_hosts for word in ("--allow-host", each)]
    command = [sys.executable, "-c", "from flows.cli.app import main; main()", "dashboard", *map(str, roots), *options]
    dashboard = components.start("dashboard", command, _make_environment(api_url) | {_TOKEN: token})

    def read_first_line() -> str:
        return dashboard.log.read_text(encoding="utf-8", errors="replace").partition("\n")[0]

    components.wait_for(dashboard, lambda: '"url"' in read_first_line(), _READY_S)
    return str(json.loads(read_first_line())["url"])


def _start_workers(components: "Components", api_url: str, as_json: bool) -> None:
    """Starts a worker for each work pool, and waits until each polls."""
    import sys
    from datetime import UTC, datetime
    from functools import partial

    from flows.deployments import POOLS, is_served
    from flows.prefect_client import connect

    client, since = connect(api_url), datetime.now(UTC)
    settings = {"PREFECT_WORKER_QUERY_SECONDS": "2"}
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool"]
    workers = {
        pool: components.start(f"worker-{pool}", [*command, pool], _make_environment(api_url) | settings)
        for pool in POOLS
    }
    for pool, worker in workers.items():
        components.wait_for(worker, partial(is_served, client, pool, since), _READY_S)
        _print_component(worker.name, f"runs of the pool {pool}", as_json)


def _stop_runs(api_url: str) -> None:
    """Cancels active runs and waits until they have saved and ended, at most `flows.deployments.STOP_S`."""
    import httpx

    from flows.deployments import stop_runs
    from flows.prefect_client import connect

    with suppress(httpx.HTTPError):  # the server itself has ended: then the runs' processes are ended
        stop_runs(connect(api_url), lambda n: typer.echo(f"kame: waiting for {n} runs to save and end ...", err=True))


def _make_environment(api_url: str) -> dict[str, str]:
    """Returns the environment variables of a component, which uses the Prefect server at this URL.

    By default Prefect answers the pages of all web sites, which could then start runs from the user's browser.
    """
    own_pages = ",".join(api_url.removesuffix("/api").replace("127.0.0.1", name) for name in ("127.0.0.1", "localhost"))
    closed = {"PREFECT_SERVER_CORS_ALLOWED_ORIGINS": own_pages, "PREFECT_SERVER_CSRF_PROTECTION_ENABLED": "true"}
    # leases in memory would be lost with the server, and their slots would stay occupied
    leases = {"PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem"}
    return closed | os.environ | {"PREFECT_API_URL": api_url, "PYTHONUNBUFFERED": "1", "DO_NOT_TRACK": "1"} | leases


def _print_component(component: str, what: str, as_json: bool) -> None:
    """Prints that a component has started, with its URL or what it does."""
    if as_json:
        print_json({"component": component, "what": what})
    else:
        typer.echo(f"{component:<14}{what}")
