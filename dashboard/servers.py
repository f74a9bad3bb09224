"""Servers to talk with a checkpoint: runs of kind `serve`, from their start until they are stopped."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from dashboard.runs import STATES_AT_WORK, Run, RunScheduler, State
from data_schemas.config.serving import TOKEN_ENV

KIND: Final = "serve"
_LISTED: Final = 50
_BROKEN: Final[tuple[State, ...]] = ("failed", "crashed")


@dataclass(frozen=True, slots=True)
class TalkServer:
    """A server, from its run.

    Attributes:
        url: its talk page, as a browser reaches it; empty if it is not ready.
        is_elsewhere: whether the address is of the browser's machine, which is not the server's.
        takes_token: whether it may require the token of `KAME_SERVE_TOKEN`; not if another variable is configured.
    """

    run: Run
    url: str
    is_elsewhere: bool
    takes_token: bool

    @property
    def step(self) -> str:
        """What it is doing, as the rest of a sentence, such as "is ready"."""
        if self.run.state in ("scheduled", "pending"):
            waits_for = f"is waiting for {self.run.waits_for or 'a worker'}"
            return "is waiting until the other server has ended" if "Concurrency" in self.run.state_name else waits_for
        if self.run.state == "cancelling":
            return "is ending: nobody new may enter, and conversations that are going on may finish"
        return "is ready" if self.url else "is loading the checkpoint and its chat model"


def describe_server(run: Run, host: str) -> TalkServer:
    """Returns the server of a run, with its URL as the browser reaches it once it is ready.

    In an address of all interfaces (0.0.0.0), `host` replaces the name.

    Args:
        host: name by which the browser reached the dashboard.
    """
    is_ready = run.kind == KIND and run.state == "running" and bool(run.url)
    care = run.settings.get("care")
    named = care.get("token_env") if isinstance(care, dict) else None
    if not is_ready:
        return TalkServer(run, "", False, named in (None, TOKEN_ENV))
    parts = urlsplit(run.url)
    url = run.url
    if _is_any_address(parts.hostname or ""):  # every address of its machine: take the one that led here
        shown = f"[{host}]" if ":" in host else host
        url = parts._replace(netloc=shown if parts.port is None else f"{shown}:{parts.port}").geturl()
    is_elsewhere = is_loopback(urlsplit(url).hostname or "") and not is_loopback(host)
    return TalkServer(run, url, is_elsewhere, named in (None, TOKEN_ENV))


def add_token(url: str, token: str) -> str:
    """Returns a server's URL with the token as its fragment, which browsers do not send."""
    return f"{url.rstrip('/')}/#token={quote(token, safe='')}"


def list_servers(scheduler: RunScheduler, host: str) -> list[TalkServer]:
    """Returns the servers that are active or starting (at most 50), the newest first."""
    return [describe_server(run, host) for run in scheduler.list_runs([KIND], STATES_AT_WORK, 0, _LISTED)]


def find_failed_server_run(scheduler: RunScheduler, folder: Path) -> Run | None:
    """Returns the run of a checkpoint's newest server if it failed or crashed; otherwise None.

    Only the newest 50 servers of all checkpoints are searched.
    """
    for run in scheduler.list_runs([KIND], (), 0, _LISTED):
        if is_server_of(run, folder):
            return run if run.state in _BROKEN else None
    return None


def is_server_of(run: Run, folder: Path) -> bool:
    """Returns whether a server's run is of this checkpoint; relative paths are relative to the dashboard's folder."""
    checkpoint = run.settings.get("checkpoint")
    try:
        return isinstance(checkpoint, str) and Path(checkpoint).expanduser().resolve() == folder
    except (OSError, ValueError, RuntimeError):  # no path at all, or of a user that there is not
        return False


def make_server_settings(folder: Path) -> dict[str, Any]:
    """Returns the settings of a local server of a checkpoint, at a free port, with the embedded chat model."""
    return {"checkpoint": str(folder), "port": 0}


def select_servers(servers: Sequence[TalkServer], folder: Path) -> list[TalkServer]:
    """Returns the servers of a checkpoint."""
    return [each for each in servers if is_server_of(each.run, folder)]


def _is_any_address(host: str) -> bool:
    """Returns whether a server at this address listens on all interfaces."""
    return host in ("0.0.0.0", "::")  # noqa: S104 - an address to show, none to listen at


def is_loopback(host: str) -> bool:
    """Returns whether an IP address or name is that of the machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
