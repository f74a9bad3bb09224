"""Settings to a configuration: profile or preset, then the YAML file, then what is typed, each over the one before."""

from collections.abc import Mapping, Sequence
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
    """`dotted.name=value` to settings by dotted name; values as YAML has them.

    Args:
        option: by which they are typed, for messages.

    Raises:
        ConfigError: one that is not of that form.
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
            names = "dotted.name=value; `kame config show`." if option == "--set" else "name=value."
            raise ConfigError(f"{option} {text} does not fit.", f"Say {option} {names}")
    return parsed


def strip_section(section: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of one section, less its name.

    Raises:
        ConfigError: one of another section.
    """
    for name in settings:
        if not name.startswith(f"{section}."):
            raise ConfigError(f"{name} is no setting of {section}.", f"Say --set {section}.…")
    return {name.removeprefix(f"{section}."): value for name, value in settings.items()}


def parse_sources(
    sources: Sequence[str],
    maps: Sequence[str],
    licences: Sequence[str] = (),
    pictures: Sequence[str] = (),
    options: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """`NAME` or `NAME=FILE`, `[NAME:]field=column,…`, `NAME=LICENCE`, `NAME=FOLDER` and `[NAME:]option=value,…`
    to source settings.

    A map or options without a name go to the last source.

    Raises:
        ConfigError: a source given twice, one of the others without its source, or a map that is not field=column.
    """
    parsed: dict[str, dict[str, Any]] = {}
    for source in sources:
        name, _, path = source.partition("=")
        if name in parsed:
            raise ConfigError(f"The source {name!r} is given twice.", "Put its rows into one file.")
        parsed[name] = {"name": name, "path": path or None, "columns": {}}
    for text in maps:
        fits = "--source NAME=FILE --map question=COLUMN,answer=COLUMN"
        name, columns = _parse_pairs(text, parsed, f"--map {text} does not fit.", f"Say {fits}.")
        parsed[name]["columns"] = columns
    for text in options:
        fits = "--source NAME --source-option NAME:option=value; `kame backends options source NAME`"
        name, given = _parse_pairs(text, parsed, f"--source-option {text} does not fit.", f"Say {fits}.")
        parsed[name]["options"] = parse_settings([f"{option}={value}" for option, value in given.items()])
    for field, option, texts in (("licence", "LICENCE", licences), ("pictures", "FOLDER", pictures)):
        for text in texts:
            name, _, value = text.partition("=")
            if name not in parsed or not value:
                raise ConfigError(f"--{field} {text} does not fit.", f"Say --source NAME=FILE --{field} NAME={option}.")
            parsed[name][field] = value
    return list(parsed.values())


def _parse_pairs(text: str, names: dict[str, Any], what: str, remedy: str) -> tuple[str, dict[str, str]]:
    """The name before a colon, else the last of `names`, and the pairs after it.

    Raises:
        ConfigError: no such name, or something that is no pair.
    """
    head, colon, rest = text.partition(":")
    is_named = bool(colon) and "=" not in head  # a value may hold a colon
    name, pairs = (head, rest) if is_named else (next(reversed(names), ""), text)
    found = dict(pair.partition("=")[::2] for pair in pairs.split(","))
    if name not in names or not all(field and value for field, value in found.items()):
        raise ConfigError(what, remedy)
    return name, found


def build_config(profile: str, file: Path | None, options: Mapping[str, Any]) -> RefreshConfig:
    """The configuration of a run.

    Args:
        options: settings by dotted name (`chat.base_url`); None: not typed.

    Raises:
        ConfigError: unknown profile, unreadable YAML, or a value out of bounds, each with its name.
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
                    place[step] = {}  # a section that was off, or none of ours: `validate_settings` names that one
                place = place[step]
                if not isinstance(place, dict):
                    raise ConfigError(
                        f"{step} in {file} is no mapping of settings.", "`kame config show` lists them all."
                    )
            place[last] = value
    return validate_settings(RefreshConfig, settings)


def build(model: type[Model], start: Mapping[str, Any], *layers: Mapping[str, Any]) -> Model:
    """A configuration of layers of settings, each over those before.

    Args:
        start: settings to begin with, nested.
        layers: settings by dotted name; None: not given.

    Raises:
        ConfigError: a value out of bounds or at no place, each with its name.
    """
    settings = dict(start)
    for layer in layers:
        for name, value in layer.items():
            if value is not None:
                _put(settings, name.split("."), value)
    return validate_settings(model, settings)


def make_chat_settings(place: str, url: str | None, model: str | None, provider: str | None) -> dict[str, Any]:
    """What was typed of a chat model, as settings by dotted name below a place; a URL or provider chooses who calls."""
    told = {"engine": "openai" if url or provider else None, "base_url": url, "provider": provider, "model": model}
    return {f"{place}.{name}": value or None for name, value in told.items()}


def _put(settings: Any, path: Sequence[str], value: Any) -> None:
    """Puts a value at its place in nested settings; a mapping is put in name by name, numbers count in lists.

    Raises:
        ConfigError: the path goes through a value, or to no place of a list.
    """
    name, *rest = path
    key = _parse_key(settings, name)
    if not rest and not isinstance(value, Mapping):
        settings[key] = value
        return
    there = settings[key] if isinstance(key, int) else settings.get(key)
    if rest and not isinstance(there, Mapping | list | None):
        raise ConfigError(f"{name} is a value, so there is no {'.'.join(path)} in it.", "Look at the configuration.")
    section = settings[key] = list(there) if isinstance(there, list) else dict(there or {})
    for inner, each in [(rest, value)] if rest else [([str(key)], each) for key, each in value.items()]:
        _put(section, inner, each)


def _parse_key(settings: Any, name: str) -> str | int:
    """A name, or a number from 0 in a list."""
    if not isinstance(settings, list):
        return name
    if not name.isdecimal() or int(name) >= len(settings):
        raise ConfigError(f"The list has no place {name!r}; it has {len(settings)}.", "They are counted from 0.")
    return int(name)


def validate_settings(model: type[Model], settings: Mapping[str, Any]) -> Model:
    """Settings as a configuration class.

    Raises:
        ConfigError: what is wrong with which field.
    """
    try:
        return model.model_validate(dict(settings))
    except ValidationError as error:
        place = f"{model.__name__} in {model.__module__.replace('.', '/')}.py"
        listed = "`kame config show` lists all fields." if model is RefreshConfig else f"All fields: {place}."
        raise ConfigError(f"The configuration does not hold: {describe_faults(error)}.", listed) from error


def read_yaml(file: Path) -> dict[str, Any]:
    """A YAML file of settings.

    Raises:
        ConfigError: missing, not YAML, or not a mapping.
    """
    import yaml

    from data_schemas.typed_yaml import load_typed_yaml

    try:
        settings = load_typed_yaml(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"Cannot read the configuration {file}: {error}.", "It should be YAML.") from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{file} holds no settings.", "Start from `kame config show > FILE`.")
    return settings


def list_differences(left: RefreshConfig, right: RefreshConfig) -> list[tuple[str, Any, Any]]:
    """Fields in which two configurations differ, by dotted name, with both values."""
    flat_left, flat_right = _flat(left.model_dump()), _flat(right.model_dump())
    return [
        (name, flat_left.get(name), flat_right.get(name))
        for name in sorted(flat_left | flat_right)
        if flat_left.get(name) != flat_right.get(name)
    ]


def sample_sources() -> list[SourceConfig]:
    """Our own sample items, where the project's folder is at hand."""
    folder = Path(__file__).resolve().parents[1] / "examples" / "items"
    return [SourceConfig(name=file.stem, path=str(file), licence="CC0-1.0") for file in sorted(folder.glob("*.jsonl"))]


def shipped_checkpoint() -> str | None:
    """The trained front-end that comes with the project; None: it is not at hand."""
    folder = Path(__file__).resolve().parents[1] / "examples" / "checkpoints" / "nano"
    return str(folder) if folder.is_dir() else None


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _merge(into: dict[str, Any], settings: Mapping[str, Any]) -> None:
    for name, value in settings.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value


def build_train_config(preset: str, stage: str | None, file: Path | None, typed: Mapping[str, Any]) -> "TrainConfig":
    """The configuration of a run: the recipe of a stage of the preset's plan, then the YAML file, then what was typed.

    Args:
        stage: its name; None: the last one.
        typed: settings by dotted name; None: not typed.

    Raises:
        ConfigError: unknown preset or stage, unreadable YAML, or a value out of bounds, each with its name.
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
