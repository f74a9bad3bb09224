"""YAML files of settings or texts, chosen by name from those shipped with the program, or by path."""

from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from data_schemas.errors import ConfigError
from data_schemas.typed_yaml import load_typed_yaml

Model = TypeVar("Model", bound=BaseModel)


def list_names(folder: Traversable) -> list[str]:
    """Returns the sorted names of the YAML files of a folder, without their suffix."""
    return sorted(each.name.removesuffix(".yaml") for each in folder.iterdir() if each.name.endswith(".yaml"))


def read_model(text: str, model: type[Model]) -> Model:
    """Parses the text of a YAML file and validates it as a model.

    Raises:
        YAMLError, ValidationError: if it is not valid.
    """
    return model.model_validate(load_typed_yaml(text))


def load_named(name: str, folder: Traversable, model: type[Model], kind: str) -> Model:
    """Loads the YAML file `NAME.yaml` of a folder, or, if there is none, the file at the path `name`, as a model.

    Args:
        kind: what such a file is called in messages, such as `prompt set`.

    Raises:
        ConfigError: if there is no such file, or it is not valid.
    """
    there = list_names(folder)
    if name not in there and not Path(name).is_file():
        raise ConfigError(f"There is no {kind} {name!r}.", f"Choose one of: {', '.join(there)}; or give a YAML file.")
    source = folder / f"{name}.yaml" if name in there else Path(name)
    try:
        return read_model(source.read_text(encoding="utf-8"), model)
    except (yaml.YAMLError, ValidationError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"The {kind} {name!r} is not valid: {error}", f"See the examples in {folder}.") from error
