"""`kame up`: Prefect, its workers and the dashboard on this machine, as one command."""

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from flows.cli.dashboard import HOST, PORT, Host, Port, TokenEnv, read_token
from flows.cli.terminal import AsJson, print_json, speaking_plainly

if TYPE_CHECKING:
    from flows.components import Components

_READY_S: Final = 600.0
"""Prefect's server was up after 16 s on a quiet machine, and not after 180 on one with 18 programs a core."""
_LOOK_FOR_GPU: Final = "import sys, torch; sys.exit(not torch.cuda.is_available())"
"""In a process of its own, for torch would stay in the memory of this one."""
_TOKEN: Final = "KAME_UP_TOKEN"  # noqa: S105 - the variable's name


def up(
    roots: Annotated[
        list[Path] | None, typer.Argument(help="Folders of datasets and checkpoints, two levels deep; else this one.")
    ] = None,
    host: Host = HOST,
    port: Port = PORT,
    token_env: TokenEnv = None,
    as_json: AsJson = False,
) -> None:
    """Start all of it on this machine: Prefect, workers, deployments, dashboard. Ctrl-C ends all of it.

    Runs that are at work are stopped as a cancellation stops them: what is finished stays, and starting them again goes
    on from there. Relative paths of runs begin in this folder.
    """
    with speaking_plainly(as_json, goes_on="Prefect's history and all that was made stay."):
        import secrets
        import signal

        from backends.assets import get_cache_dir
        from flows.components import Components

        token = read_token(token_env) if token_env else secrets.token_urlsafe(16)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background
        with Components(get_cache_dir() / "up") as components:
            api_url = _start_prefect(components, as_json)
            url = _start_dashboard(components, api_url, roots or [Path()], host, port, token)
            shown = url if token_env else f"{url}#token={token}"
            _tell("dashboard", shown, as_json)
            _start_workers(components, api_url, as_json)
            if not as_json:
                typer.echo("kame: ready; Ctrl-C ends all of it.", err=True)
            try:
                components.watch()
            finally:
                _stop_runs(api_url)


def _start_prefect(components: "Components", as_json: bool) -> str:
    """Prefect's server with our deployments; gives its API's address.

    Raises:
        ConfigError: its port is taken.
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
            f"Prefect's port {port} is taken: {error.strerror}.",
            "End what listens there (another `kame up`, `prefect server`), or set PREFECT_SERVER_API_PORT to another.",
        ) from error
    api_url = f"http://127.0.0.1:{port}/api"
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    server = components.start("prefect", command, _environment(api_url))
    null = subprocess.DEVNULL
    looking = subprocess.Popen([sys.executable, "-c", _LOOK_FOR_GPU], stdout=null, stderr=null)  # noqa: S603

    from flows.deployments import deploy, end_lost_runs
    from flows.prefect_client import connect

    client = connect(api_url)
    components.wait_for(server, lambda: client.api_healthcheck() is None, _READY_S)
    end_lost_runs(client)
    deploy(client, Path.cwd(), has_gpu=looking.wait() == 0)
    _tell("prefect", api_url.removesuffix("/api"), as_json)
    return api_url


def _start_dashboard(
    components: "Components", api_url: str, roots: list[Path], host: str, port: int, token: str
) -> str:
    """The pages; gives their address."""
    import json
    import sys

    options = ["--host", host, "--port", str(port), "--token-env", _TOKEN, "--json"]
    command = [sys.executable, "-c", "from flows.cli.app import main; main()", "dashboard", *map(str, roots), *options]
    dashboard = components.start("dashboard", command, _environment(api_url) | {_TOKEN: token})

    def first_line() -> str:
        return dashboard.log.read_text(encoding="utf-8", errors="replace").partition("\n")[0]

    components.wait_for(dashboard, lambda: '"url"' in first_line(), _READY_S)
    return str(json.loads(first_line())["url"])


def _start_workers(components: "Components", api_url: str, as_json: bool) -> None:
    """A worker for each pool."""
    import sys
    from datetime import UTC, datetime
    from functools import partial

    from flows.deployments import POOLS, is_served
    from flows.prefect_client import connect

    client, since = connect(api_url), datetime.now(UTC)
    settings = {"PREFECT_WORKER_QUERY_SECONDS": "2"}
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool"]
    workers = {
        pool: components.start(f"worker-{pool}", [*command, pool], _environment(api_url) | settings) for pool in POOLS
    }
    for pool, worker in workers.items():
        components.wait_for(worker, partial(is_served, client, pool, since), _READY_S)
        _tell(worker.name, f"runs of the pool {pool}", as_json)


def _stop_runs(api_url: str) -> None:
    """Cancels what is at work and waits until it has saved and ended, for which Prefect gives it 30 s."""
    import httpx

    from flows.deployments import stop_runs
    from flows.prefect_client import connect

    with suppress(httpx.HTTPError):  # the server is what ended: the runs are ended as processes
        stop_runs(connect(api_url), lambda n: typer.echo(f"kame: {n} runs may save and end ...", err=True))


def _environment(api_url: str) -> dict[str, str]:
    # leases in memory would be lost with the server, and what they hold would be taken for ever
    leases = {"PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem"}
    return os.environ | {"PREFECT_API_URL": api_url, "PYTHONUNBUFFERED": "1", "DO_NOT_TRACK": "1"} | leases


def _tell(component: str, what: str, as_json: bool) -> None:
    """One line a component."""
    if as_json:
        print_json({"component": component, "what": what})
    else:
        typer.echo(f"{component:<14}{what}")
