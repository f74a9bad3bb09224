"""Limits on the settings of forms: hosts that a run may contact, variables with its API keys, and code that it runs.

A run has the environment of its worker: an endpoint that a form names is offered a key from there. The limits keep keys
from other hosts. They do not limit the files that a run reads and writes with the account of its worker.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import yaml

from dashboard.forms import parse_yaml
from dashboard.servers import is_loopback
from data_schemas.errors import ConfigError

ANY_HOST: Final = "*"
"""The host that lifts all limits."""

_HOST: Final = r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]"
_HOST_AND_PORT = re.compile(rf"({_HOST})(:\d*)?")
_PATTERN = re.compile(rf"[A-Za-z0-9._*-]+|{_HOST}")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)?://((?:(?!,[A-Za-z][A-Za-z0-9+.-]*://)[^/?#])*)")
"""A comma ends the host only if another URL follows: in `https://localhost,@evil.com` the host is evil.com."""
_LINE = re.compile(r"([\w.]+)=(.*)", re.DOTALL)
"""A line of `settings` or `server_settings` of an evaluation."""

_LINES: Final = ("settings", "server_settings")
_STORES: Final = ("s3", "gs", "hf")
"""Schemes of URLs that name a bucket or a repository. Their host is set on the server, and never receives a secret."""

_POSTGRES: Final = "postgresql"
_KEY_VARIABLE: Final = "api_key_env"
_RUN_CODE: Final = ("classifier", "serve_args")
_NOT_CONTACTED: Final = ("source", "licence", "notice", "origins", "hosts")
"""Fields that may hold web addresses which a run only shows or compares."""


class RunLimits:
    """Limits on the settings of runs that are started from forms.

    Args:
        hosts: names of hosts that a run may contact besides this machine, or patterns such as `*.example.org`; `*`
            lifts all limits.

    Raises:
        ConfigError: one of them is not the name of a host.
    """

    def __init__(self, hosts: Iterable[str]) -> None:
        self._hosts = sorted({each.lower() for each in hosts})
        for each in self._hosts:
            if not _PATTERN.fullmatch(each):
                raise ConfigError(f"{each!r} is not the name of a host.", "Write --allow-host gpu-1, without a port.")

    def find_faults(self, settings: Mapping[str, Any]) -> dict[str, str]:
        """Returns why settings of a form are not allowed, by dotted path; empty if all are, or if any host is."""
        if ANY_HOST in self._hosts:
            return {}
        faults: dict[str, str] = {}
        for path, name, value in _list_values(settings):
            if fault := self._check_value(name, value):
                faults.setdefault(path, fault)
        return {_make_printable(path): _make_printable(fault) for path, fault in faults.items()}

    def _check_value(self, name: str, value: Any) -> str:
        """Returns why the value of a field is not allowed; empty if it is."""
        if name in _RUN_CODE and value:
            return (
                "This cannot be set here, because it runs code on the server. Use the command line, or start the "
                "dashboard with --allow-host '*'."
            )
        if not isinstance(value, str) or name in _NOT_CONTACTED:
            return ""
        if name == _KEY_VARIABLE and not value.endswith("API_KEY"):
            return (
                "Only variables whose names end in API_KEY can be named here, so that no other secret of the server is "
                "sent. Put the key into such a variable in the environment of the worker."
            )
        for host in _list_hosts(value):
            if not self._is_allowed(host):
                allowed = ", ".join(["localhost", *self._hosts])
                return (
                    f"The host {host!r} is not allowed, because a run may send it a key of the server. Allowed are "
                    f"{allowed}. To allow it as well, start the dashboard with --allow-host {host}."
                )
        return ""

    def _is_allowed(self, host: str) -> bool:
        """Returns whether a host is this machine, or one of the allowed ones."""
        return is_loopback(host.strip("[]")) or any(fnmatchcase(host, pattern) for pattern in self._hosts)


def _make_printable(text: str) -> str:
    """Returns a text that can be sent: halves of characters, as YAML may have, are replaced."""
    return text.encode(errors="replace").decode()


def _list_values(value: Any, path: str = "", name: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yields path, last name and value of each field in nested settings.

    Values of a list have the list's name. A line NAME=VALUE of an evaluation's settings is read as the run reads it.
    """
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _list_values(each, f"{path}.{key}" if path else str(key), str(key).rpartition(".")[2])
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _list_values(each, f"{path}.{index}", name)
    else:
        yield path, name, value
        line = _LINE.fullmatch(value) if name in _LINES and isinstance(value, str) else None
        if line is not None:
            try:
                inner = parse_yaml(line[2])
            except (ValueError, RecursionError, yaml.YAMLError):
                inner = line[2]  # the run rejects it too
            for _, inner_name, each in _list_values(inner, "", line[1].rpartition(".")[2]):
                yield path, inner_name, each


def _list_hosts(text: str) -> Iterator[str]:
    """Yields the hosts of all URLs in a text, in lower case, except those of buckets and repositories (`_STORES`).

    One that cannot be read is yielded as it is written, with user and port.
    """
    if text.startswith(f"{_POSTGRES}://"):
        yield from _list_database_hosts(text)
        return
    for scheme, authority in _URL.findall(text):
        if scheme.lower() not in _STORES:
            found = _HOST_AND_PORT.fullmatch(authority)
            yield (found[1] if found else authority).lower()


def _list_database_hosts(url: str) -> Iterator[str]:
    """Yields the hosts of a PostgreSQL URL: it may list several, also as an option. Sockets are left out."""
    try:
        place = urlsplit(url)
    except ValueError:
        yield url
        return
    listed = [place.netloc.rpartition("@")[2], *parse_qs(place.query).get("host", ())]
    for each in ",".join(listed).split(","):
        if each and not each.startswith("/"):
            found = _HOST_AND_PORT.fullmatch(each)
            yield (found[1] if found else each).lower()
