"""The registry of sources by name: built in, from installed packages (entry points `kame.sources`), or described.

Each is a `SourceSpec`, or a function that makes one from its `options`. Modules are imported on demand, so that the
commands' help can list the built-in names quickly.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final

from data_schemas.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from backends.plugins import Plugin
    from data_schemas.config import SourceConfig
    from pipelines.sources.spec import SourceSpec

SOURCES: Final[Mapping[str, str]] = {
    "gsm8k": "pipelines.sources.gsm8k:SPEC",
    "mmlu_pro": "pipelines.sources.mmlu_pro:SPEC",
    "hssbench": "pipelines.sources.hssbench:SPEC",
}
"""The built-in sources: the name to type, and the location of its specification."""

GROUP: Final = "kame.sources"


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """A source that can be named; `plugin` is the entry point of one from another package."""

    name: str
    where: str
    plugin: "Plugin | None" = None

    def get_options_class(self) -> "type[BaseModel]":
        """Returns the class of the source's options; `HubOptions` if it is a `SourceSpec` and so has none of its own.

        Raises:
            ConfigError: a package's source cannot be imported, or is not a source.
        """
        from backends.registry import find_options_class, find_plugin_options_class
        from pipelines.sources.spec import HubOptions, SourceSpec

        held = self._load()
        if isinstance(held, SourceSpec):
            return HubOptions
        if self.plugin is None:
            taken = find_options_class(held)
            assert taken is not None  # built-in sources are tested
            return taken
        taken = find_plugin_options_class(self.plugin, held) if callable(held) else None
        if taken is None:
            raise self.plugin.make_error("is neither a SourceSpec nor a function of its options that makes one")
        return taken

    def make_spec(self, options: Any) -> "SourceSpec":
        """Makes the source's specification with options of the class that `get_options_class` returns.

        Raises:
            ConfigError: a package's source cannot be imported, is not a source, or is not named like its entry point.
        """
        from pipelines.sources.spec import SourceSpec

        held = self._load()
        if isinstance(held, SourceSpec):
            config, split = options.hub_config or held.hub_config, options.hub_split or held.hub_split
            made = replace(held, hub_config=config, hub_split=split)
        else:
            made = held(options)
        if self.plugin is None:
            return made
        if not isinstance(made, SourceSpec) or made.name != self.name:  # the name is part of ids and file names
            raise self.plugin.make_error(f"makes a source that is called {getattr(made, 'name', made)!r}")
        return replace(made, package=self.plugin.package)

    def find_missing(self) -> str:
        """Returns why the source of a package cannot be used, as text; empty if it can."""
        try:
            self.get_options_class()
        except ConfigError as error:
            return error.what
        return ""

    def get_licence(self) -> str:
        """Returns the licence of its questions with default options, else that of its package, else "not stated".

        The second applies if the source cannot be made without options, or states no licence.

        Raises:
            ConfigError: as `get_options_class`.
        """
        taken = self.get_options_class()
        licence = None
        if not any(field.is_required() for field in taken.model_fields.values()):
            with suppress(ConfigError):
                licence = self.make_spec(taken()).licence
        return licence or (self.plugin and self.plugin.get_metadata("License-Expression")) or "not stated"

    def _load(self) -> Any:
        """Imports and returns the source: a `SourceSpec`, or a function that makes one from options."""
        return resolve_name(self.where) if self.plugin is None else self.plugin.load()


def list_sources() -> list[SourceEntry]:
    """Returns all sources that can be named: those built in and those of installed packages.

    Raises:
        ConfigError: the name of an entry point is already used.
    """
    from backends.plugins import find_plugins

    built_in = [SourceEntry(name, where) for name, where in SOURCES.items()]
    return built_in + [SourceEntry(name, each.point.value, each) for name, each in find_plugins(GROUP, SOURCES).items()]


def get_spec(config: "SourceConfig") -> "SourceSpec":
    """Returns the specification of the source that a configuration names, or describes by a column map.

    The configured options and the column map are applied.

    Raises:
        ConfigError: it is unknown and not described, or does not accept these options or columns.
    """
    from backends.registry import validate_options
    from pipelines.sources import own

    found = {each.name: each for each in list_sources()}.get(config.name)
    taken = own.OwnOptions if found is None else found.get_options_class()
    options: Any = validate_options(f"source {config.name!r}", taken, config.options)
    return own.make_spec(config, options) if found is None else found.make_spec(options).with_columns(config.columns)
