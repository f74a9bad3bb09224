"""Builds configurations from layers, each overriding those before: profile or preset, YAML file, options."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from data_schemas.config import RefreshConfig, SourceConfig
from data_schemas.config.base import describe_faults
from data_schemas.errors import ConfigError
from data_schemas.profiles import PROFILES

if TYPE_CHECKING:
    from data_schemas.config.training import TrainConfig

Model = TypeVar("Model", bound=BaseModel)


def parse_settings(settings: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """Parses `dotted.name=value` options to values by dotted name; values are YAML, and null is an error.

    If a name is given twice, the last value counts.

    Args:
        option: name of the option, for messages.

    Raises:
        ConfigError: a text is not of this form.
    """
    import yaml

    from data_schemas.typed_yaml import load_typed_yaml

    parsed: dict[str, Any] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        try:
            parsed[name] = load_typed_yaml(value)
        except yaml.YAMLError:
            equals = ""
        if not (name and equals) or parsed[name] is None:
            raise ConfigError(f"{option} {text} has no value that can be set.", f"Write {option} NAME=VALUE.")
    return parsed


def strip_section(section: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings with the prefix `SECTION.` removed from their names.

    Raises:
        ConfigError: a setting belongs to another section.
    """
    for name in settings:
        if not name.startswith(f"{section}."):
            raise ConfigError(f"{name} is not a setting of {section}.", f"Write --set {section}.NAME=VALUE.")
    return {name.removeprefix(f"{section}."): value for name, value in settings.items()}


def parse_sources(
    sources: Sequence[str],
    maps: Sequence[str],
    licences: Sequence[str] = (),
    pictures: Sequence[str] = (),
    options: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Parses the command-line options of question sets to source settings.

    Without a name, a map or options apply to the last source.

    Args:
        sources: `NAME` or `NAME=FILE`.
        maps: `[NAME:]field=column,…`; the last one of a source counts.
        licences: `NAME=LICENCE`.
        pictures: `NAME=FOLDER`.
        options: `[NAME:]option=value,…` with YAML values; the last text of a source counts.

    Raises:
        ConfigError: a source is given twice, another option names no given source, or an option has another form.
    """
    parsed: dict[str, dict[str, Any]] = {}
    for source in sources:
        name, _, path = source.partition("=")
        if name in parsed:
            raise ConfigError(f"The source {name!r} is given twice.", "Put its rows into one file.")
        parsed[name] = {"name": name, "path": path or None, "columns": {}}
    for text in maps:
        fits = "--source NAME=FILE --map question=COLUMN,answer=COLUMN"
        name, columns = _parse_pairs(
            text, parsed, f"--map {text} is not a list of field=COLUMN for a --source.", f"Write {fits}."
        )
        parsed[name]["columns"] = columns
    for text in options:
        fits = "--source NAME --source-option NAME:option=value; `kame backends options source NAME`"
        name, given = _parse_pairs(
            text, parsed, f"--source-option {text} is not a list of option=value for a --source.", f"Write {fits}."
        )
        parsed[name]["options"] = parse_settings(
            [f"{option}={value}" for option, value in given.items()], "--source-option"
        )
    for field, option, texts in (("licence", "LICENCE", licences), ("pictures", "FOLDER", pictures)):
        for text in texts:
            name, _, value = text.partition("=")
            if name not in parsed or not value:
                raise ConfigError(
                    f"--{field} {text} is not NAME={option} for a --source.",
                    f"Write --source NAME=FILE --{field} NAME={option}.",
                )
            parsed[name][field] = value
    return list(parsed.values())


def _parse_pairs(text: str, names: dict[str, Any], what: str, remedy: str) -> tuple[str, dict[str, str]]:
    """Parses `[NAME:]field=value,…` to a name and pairs; without a name, the last of `names` is used.

    Args:
        what, remedy: message of the error.

    Raises:
        ConfigError: the name is unknown, or something is not a pair.
    """
    head, colon, rest = text.partition(":")
    is_named = bool(colon) and "=" not in head  # a value may hold a colon
    name, pairs = (head, rest) if is_named else (next(reversed(names), ""), text)
    found = dict(pair.partition("=")[::2] for pair in pairs.split(","))
    if name not in names or not all(field and value for field, value in found.items()):
        raise ConfigError(what, remedy)
    return name, found


def build_config(profile: str, file: Path | None, options: Mapping[str, Any]) -> RefreshConfig:
    """Builds the configuration of a refresh from a profile, a YAML file and options, each overriding those before.

    Args:
        options: settings by dotted name (`chat.base_url`); those that are None are ignored, and a mapping replaces a
            whole section.

    Raises:
        ConfigError: the profile or a setting is unknown, the YAML cannot be read, or a value is out of bounds.
    """
    if profile not in PROFILES:
        raise ConfigError(f"There is no profile {profile!r}.", f"Choose one of: {', '.join(PROFILES)}.")
    settings = PROFILES[profile]().model_dump()
    off = {name for name, section in settings.items() if section is None}
    if file is not None:
        _merge(settings, read_yaml(file))
    for name, value in options.items():
        if value is not None:
            *path, last = name.split(".")
            place = settings
            for step in path:
                if step not in place or (step in off and place[step] is None):
                    place[step] = {}  # a section that was off, or an unknown one: `validate_settings` names that one
                place = place[step]
                if not isinstance(place, dict):
                    raise ConfigError(
                        f"{step} is not a section of settings, so {name} cannot be set.",
                        "`kame config show` lists all settings.",
                    )
            place[last] = value
    return validate_settings(RefreshConfig, settings)


def build(model: type[Model], start: Mapping[str, Any], *layers: Mapping[str, Any]) -> Model:
    """Builds a configuration from layers of settings, each overriding those before.

    Args:
        start: nested settings to begin with.
        layers: settings by dotted name; those that are None are ignored, and mappings are merged by name, as those of
            a YAML file are.

    Raises:
        ConfigError: a value is out of bounds, or a name is unknown.
    """
    settings = dict(start)
    for layer in layers:
        for name, value in layer.items():
            if value is not None:
                _set_nested(settings, name.split("."), value)
    return validate_settings(model, settings)


def make_chat_settings(place: str, url: str | None, model: str | None, provider: str | None) -> dict[str, Any]:
    """Returns settings of a chat model by dotted name, which begins with `place`; those not given are None.

    A URL or provider selects the engine `openai`.
    """
    chat = {"engine": "openai" if url or provider else None, "base_url": url, "provider": provider, "model": model}
    return {f"{place}.{name}": value or None for name, value in chat.items()}


def _set_nested(settings: Any, path: Sequence[str], value: Any) -> None:
    """Sets a value in nested settings, in place; a mapping is merged by name, and numbers are indices of lists.

    Sections below the first level are replaced by changed copies.

    Raises:
        ConfigError: the path goes through a value, or beyond the end of a list.
    """
    name, *rest = path
    key = _parse_key(settings, name)
    if not rest and not isinstance(value, Mapping):
        settings[key] = value
        return
    there = settings[key] if isinstance(key, int) else settings.get(key)
    if not isinstance(there, Mapping | list | None):
        full_name = ".".join(path if rest else [name, *list(value)[:1]])
        fault = f"{name} is a single value, so it has no {full_name}."
        raise ConfigError(fault, f"Set {name} itself, or correct the name.")
    section = settings[key] = list(there) if isinstance(there, list) else dict(there or {})
    for inner, each in [(rest, value)] if rest else [([str(key)], each) for key, each in value.items()]:
        _set_nested(section, inner, each)


def _parse_key(settings: Any, name: str) -> str | int:
    """Returns the key of a name in settings: the name itself, or an index if the settings are a list.

    Raises:
        ConfigError: it is not an index of the list.
    """
    if not isinstance(settings, list):
        return name
    if not name.isdecimal() or int(name) >= len(settings):
        raise ConfigError(
            f"{name!r} is not an index of the list, which has {len(settings)} entries.", "Indices start at 0."
        )
    return int(name)


def validate_settings(model: type[Model], settings: Mapping[str, Any]) -> Model:
    """Validates settings and returns them as an object of the configuration class `model`.

    Raises:
        ConfigError: a field is unknown or its value is invalid.
    """
    try:
        return model.model_validate(dict(settings))
    except ValidationError as error:
        place = f"{model.__name__} in {model.__module__.replace('.', '/')}.py"
        listed = "`kame config show` lists all fields." if model is RefreshConfig else f"All fields: {place}."
        raise ConfigError(f"The configuration is invalid: {describe_faults(error)}.", listed) from error


def read_yaml(file: Path) -> dict[str, Any]:
    """Reads settings from a YAML file.

    Raises:
        ConfigError: the file is missing, not YAML, or not a mapping.
    """
    import yaml

    from data_schemas.typed_yaml import load_typed_yaml

    try:
        settings = load_typed_yaml(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"Cannot read the configuration {file}: {error}.", "It must be a YAML file.") from error
    if not isinstance(settings, dict):
        raise ConfigError(
            f"{file} is not a mapping of settings: it is empty, or holds something else than lines `name: value`.",
            "Write a line `name: value` for each setting.",
        )
    return settings


def list_differences(left: RefreshConfig, right: RefreshConfig) -> list[tuple[str, Any, Any]]:
    """Returns the fields in which two configurations differ, sorted, as (dotted name, left value, right value)."""
    flat_left, flat_right = _flatten(left.model_dump()), _flatten(right.model_dump())
    return [
        (name, flat_left.get(name), flat_right.get(name))
        for name in sorted(flat_left | flat_right)
        if flat_left.get(name) != flat_right.get(name)
    ]


def list_sample_sources() -> list[SourceConfig]:
    """Returns the project's sample questions as sources; empty if the project's folder does not exist."""
    folder = Path(__file__).resolve().parents[1] / "examples" / "items"
    return [SourceConfig(name=file.stem, path=str(file), licence="CC0-1.0") for file in sorted(folder.glob("*.jsonl"))]


@cache
def list_choices() -> Mapping[str, Sequence[str]]:
    """Returns the installed engines by kind, and the sources, voices and paths of sample files; found once.

    Chat engines have the key `engine`, and doubles for tests are left out.
    """
    from backends.registry import list_backends
    from backends.tts import kokoro_assets
    from pipelines.sources import registry as sources

    engines: dict[str, list[str]] = {}
    for each in list_backends():
        if each.name != "double" and not each.find_missing():
            engines.setdefault(each.kind, []).append(each.name)
    engines["engine"] = engines.pop("chat", [])
    named = {"sources": [each.name for each in sources.list_sources()], "voices": list(kokoro_assets.load_voices())}
    return engines | named | {"items": [str(each.path) for each in list_sample_sources()]}


def default_to_samples(config: RefreshConfig) -> RefreshConfig:
    """Returns the configuration with the project's sample questions as sources if it has none.

    Raises:
        ConfigError: it has none, and the project's folder does not exist.
    """
    sources = config.sources or list_sample_sources()
    if not sources:
        raise ConfigError(
            "No source is given, and the sample questions (examples/items) do not exist.",
            "Give --source gsm8k=FILE, --source mmlu_pro, …",
        )
    return config.model_copy(update={"sources": sources})


def find_shipped_checkpoint() -> str | None:
    """Returns the folder of the trained front-end that is shipped with the project; None if it does not exist."""
    folder = Path(__file__).resolve().parents[1] / "examples" / "checkpoints" / "nano"
    return str(folder) if folder.is_dir() else None


def _flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested settings as values by dotted name, each beginning with `prefix`; lists are single values."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= _flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _merge(into: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Merges nested settings into `into`, in place; a value in both is replaced unless both values are mappings."""
    for name, value in settings.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value


def build_train_config(preset: str, stage: str | None, file: Path | None, typed: Mapping[str, Any]) -> "TrainConfig":
    """Builds the configuration of a training run: the recipe of a stage of the preset's plan, the YAML file, then
    options.

    Args:
        stage: name of the stage; None for the last one.
        typed: settings by dotted name; those that are None are ignored.

    Raises:
        ConfigError: the preset or stage is unknown, the YAML cannot be read, or a value is out of bounds.
    """
    from data_schemas.config.training import TrainConfig
    from data_schemas.presets import PRESETS

    if preset not in PRESETS:
        raise ConfigError(f"There is no preset {preset!r}.", f"Choose one of: {', '.join(PRESETS)}.")
    stages = [each.name for each in PRESETS[preset].plan]
    stage = stage or stages[-1]
    if stage not in stages:
        raise ConfigError(f"The plan of {preset} has no stage {stage!r}.", f"Choose one of: {', '.join(stages)}.")
    return build(TrainConfig, PRESETS[preset].make_recipe(stage), {} if file is None else read_yaml(file), typed)
