"""Files of settings or texts that come with the program and are chosen by name, or brought along by path."""

from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from data_schemas.errors import ConfigError
from data_schemas.typed_yaml import load_typed_yaml

Model = TypeVar("Model", bound=BaseModel)


def names_in(folder: Traversable) -> list[str]:
    """Names of the YAML files of a folder, without their ending, sorted."""
    return sorted(each.name.removesuffix(".yaml") for each in folder.iterdir() if each.name.endswith(".yaml"))


def read_model(text: str, model: type[Model]) -> Model:
    """The content of a YAML file.

    Raises:
        YAMLError, ValidationError: it is none.
    """
    return model.model_validate(load_typed_yaml(text))


def load_named(name: str, folder: Traversable, model: type[Model], kind: str) -> Model:
    """The file of a folder with this name, or the YAML file at this path.

    Args:
        kind: what it is called in messages, such as `prompt set`.

    Raises:
        ConfigError: there is none, or it cannot be used.
    """
    there = names_in(folder)
    if name not in there and not Path(name).is_file():
        raise ConfigError(f"There is no {kind} {name!r}.", f"Ours: {', '.join(there)}; or give a YAML file.")
    source = folder / f"{name}.yaml" if name in there else Path(name)
    try:
        return read_model(source.read_text(encoding="utf-8"), model)
    except (yaml.YAMLError, ValidationError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"The {kind} {name!r} cannot be used: {error}", f"Ours are examples: {folder}.") from error
