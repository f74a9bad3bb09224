"""Plug-ins: engines and sources of other installed packages, found by their entry points (docs/extending.md)."""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from backends.chat.protocol import Endpoint
from data_schemas import ids
from data_schemas.errors import ConfigError, KameError

_NAME = re.compile(r"[a-z][a-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Plugin:
    """An entry point of a group such as `kame.tts`, and the package that has it."""

    point: EntryPoint

    @property
    def name(self) -> str:
        """Its name in configurations, that of the entry point."""
        return self.point.name

    @property
    def package(self) -> str:
        """The package and its version, as in `kame-arc 1.2.0`."""
        found = self.point.dist
        return f"{found.name} {found.version}" if found else "an unknown package"

    def get_metadata(self, *fields: str) -> str:
        """Returns the first line of the first of these metadata fields that the package has; empty if it has none."""
        metadata = self.point.dist.metadata if self.point.dist else None
        values = [str(metadata[field]).strip() for field in fields if metadata is not None and field in metadata]
        return next((value.splitlines()[0] for value in values if value), "")

    def load(self) -> Any:
        """Imports and returns the entry point's object.

        Raises:
            ConfigError: it cannot be imported; names the package.
        """
        try:
            return self.point.load()
        except Exception as error:  # the import runs third-party code, which may raise anything
            raise self.make_error(f"does not load: {type(error).__name__}: {error}") from error

    def make_error(self, what: str) -> ConfigError:
        """Makes an error that names the package; `what` is the predicate of its sentence."""
        return ConfigError(
            f"The entry point {self.name!r} ({self.point.group}) of the package {self.package} {what}.",
            "Repair or remove that package; docs/extending.md says what it must provide.",
        )


def find_plugins(group: str, builtin_names: Collection[str]) -> Mapping[str, Plugin]:
    """Finds the plug-ins of a group in all installed packages and returns them by name, sorted; nothing is imported.

    Args:
        group: such as `kame.tts`.
        builtin_names: names of the built-in back-ends.

    Raises:
        ConfigError: a name is already used, occurs twice, or is not made of lower-case letters, digits, `_` and `-`.
    """
    found: dict[str, Plugin] = {}
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        plugin = Plugin(point)
        if not _NAME.fullmatch(point.name):
            raise plugin.make_error("has a name that is not made of lower-case letters, digits, _ and -")
        if point.name in builtin_names:
            raise plugin.make_error("has the name of one that is built in")
        if point.name in found:
            raise plugin.make_error(f"has the name of one of the package {found[point.name].package}")
        found[point.name] = plugin
    return found


def wrap_plugin_engine(plugin: Plugin, kind: str, make: Any, *given: Any, **more: Any) -> Any:
    """Constructs an engine of another package by calling `make`, and returns it with another digest.

    The digest of the returned engine, or of a chat engine's endpoint, also depends on the package's version. A
    `KameError` of `make` is raised unchanged.

    Raises:
        ConfigError: it cannot be constructed, lacks a required attribute, or (except chat engines) its name differs
            from that of its entry point.
    """
    try:
        engine = make(*given, **more)
    except KameError:  # has its own remedy
        raise
    except Exception as error:  # third-party code, which may raise anything
        raise plugin.make_error(f"makes no engine: {type(error).__name__}: {error}") from error
    needs = {"chat": ("describe", "serve"), "listener": ("name",)}.get(kind, ("name", "digest"))
    if missing := [each for each in needs if not hasattr(engine, each)]:
        raise plugin.make_error(f"makes an engine without {' and '.join(missing)}")
    if kind == "chat":
        return _PackagedChat(plugin, engine)
    if engine.name != plugin.name:  # the name is recorded in rows
        raise plugin.make_error(f"makes an engine that calls itself {engine.name!r}")
    return _PackagedEngine(plugin, engine)


class _Packaged:
    """An engine of another package: passes everything on to it; subclasses change its digest."""

    def __init__(self, plugin: Plugin, engine: Any) -> None:
        self._plugin, self._engine = plugin, engine

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # during copying and unpickling there is no engine yet
            raise AttributeError(name)
        return getattr(self._engine, name)


class _PackagedEngine(_Packaged):
    """An engine of another package whose digest includes the package's version."""

    @property
    def digest(self) -> str:
        """The engine's own digest combined with its package's version."""
        return ids.digest("plugin", self._plugin.package, self._engine.digest)


class _PackagedChat(_Packaged):
    """A chat engine of another package whose endpoint's digest includes the package's version."""

    def describe(self) -> Endpoint:
        """Returns the engine's endpoint with a digest that includes the package's version."""
        return self._add_package(self._engine.describe())

    @contextmanager
    def serve(self) -> Iterator[Endpoint]:
        """Yields the running engine's endpoint, with a digest that includes the package's version."""
        with self._engine.serve() as endpoint:
            yield self._add_package(endpoint)

    def _add_package(self, endpoint: Endpoint) -> Endpoint:
        """Returns the endpoint with a digest that includes the package and its version."""
        return replace(endpoint, model_digest=ids.digest("plugin", self._plugin.package, endpoint.model_digest))
