"""Reads finished evaluations, and checks which can be compared and which are seeds of one system.

A system is one evaluation, or several that differ only in their seed: the seed of training, so that the weights differ,
or the seed of sampling.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from data_schemas.errors import ConfigError, DatasetError
from kame_model.evaluate.report.folder import read_figures, read_items

_MAY_DIFFER: Final = {"system", "seed"}
_OF_A_SEED: Final = {"name", "checkpoint"}
_OF_BACK_END: Final = {"back_end", "endpoint"}

Key = dict[str, Any]
"""The fields of a row that select its items, such as {"mode": "tandem"}."""

Items = Sequence[Mapping[str, Any]]
"""Records of items (`report.folder`)."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The contents of an evaluation's folder.

    Attributes:
        run: everything that affects its items (`report.folder`).
        keys: keys of the rows of its figures, each once.
        items: the records of its items.
    """

    folder: str
    run: Mapping[str, Any]
    keys: list[Key]
    items: Items

    def get_records(self, key: Key) -> list[Mapping[str, Any]]:
        """Returns the items that a row counts."""
        return [item for item in self.items if all(item["row"].get(field) == value for field, value in key.items())]

    def get_units(self, key: Key) -> set[str]:
        """Returns the units (independent of each other) among the items of a row."""
        return {item["unit"] for item in self.get_records(key)}

    def get_settings(self, *, has_back_end: bool = True) -> Key:
        """Returns the settings of the system that all its seeds share; they exclude name and weights.

        Args:
            has_back_end: include the chat model; mode direct uses none.
        """
        settings = {name: value for name, value in self.run["system"].items() if name not in _OF_A_SEED}
        if has_back_end:
            return settings
        serving = {name: value for name, value in (settings.get("serving") or {}).items() if name != "back_ends"}
        return {name: value for name, value in settings.items() if name not in _OF_BACK_END} | {"serving": serving}


def read_evaluation(folder: str) -> Evaluation:
    """Reads an evaluation of any kind.

    Raises:
        StoreError: a file is missing or damaged.
        DatasetError: it is not in the format of `report.folder`, or is not finished.
    """
    figures, items = read_figures(folder), list(read_items(folder))
    try:
        run, fields = figures["run"], dict.fromkeys(field for item in items for field in item["row"])
        keys = [{field: row[field] for field in fields if field in row} for row in figures["rows"]]
        if not {"kind", "version", "seed", "system"} <= run.keys():
            raise KeyError("run")
        if not all("unit" in item and isinstance(item["measures"], dict) for item in items):
            raise KeyError("measures")
    except (AttributeError, KeyError, TypeError) as error:
        raise DatasetError(
            f"{folder} holds no evaluation that can be compared: {error!r}.",
            "Make it with `kame evaluate … --out` again.",
        ) from error
    found = Evaluation(folder, run, remove_duplicates(keys), items)
    for row, key in zip(figures["rows"], keys, strict=True):
        n_records = len(found.get_records(key))
        if "n" in row and row["n"] not in (n_records, len(found.get_units(key))):
            raise DatasetError(
                f"{folder}: the figures of {format_title(key)} count {row['n']} items, but items.jsonl has "
                f"{n_records}.",
                "Run the evaluation again with the larger number; finished items are reused.",
            )
    return found


def read_seeds(name: str, folders: Sequence[str]) -> list[Evaluation]:
    """Reads the evaluations of a system.

    Raises:
        StoreError, DatasetError: as `read_evaluation`.
        ConfigError: a folder is given twice; it would count as two seeds.
    """
    if len({Path(folder).resolve() for folder in folders}) < len(folders):
        raise ConfigError(f"A folder of {name} is given twice: {', '.join(folders)}.", "Give each seed's folder once.")
    return [read_evaluation(folder) for folder in folders]


def find_differences(one: Evaluation, other: Evaluation) -> list[str]:
    """Returns the names of the fields in which the runs of two evaluations differ, without system and seed.

    If there are none, returns the shared rows whose items differ.
    """
    unlike = list_unequal(one.run, other.run, _MAY_DIFFER)
    shared = [key for key in other.keys if key in one.keys]
    return unlike or [f"items of {format_title(key)}" for key in shared if one.get_units(key) != other.get_units(key)]


def list_unequal(one: Mapping[str, Any], other: Mapping[str, Any], but: set[str] = set()) -> list[str]:  # noqa: B006
    """Returns the sorted names of the fields in which two mappings differ, except those in `but`.

    A missing field is equal to one with the value None.
    """
    return [name for name in sorted({*one, *other} - but) if one.get(name) != other.get(name)]


def remove_duplicates(keys: Sequence[Key]) -> list[Key]:
    """Returns the keys without duplicates, in order."""
    return list({json.dumps(key): key for key in keys}.values())


def format_title(key: Mapping[str, Any]) -> str:
    """Returns the title of a row: its fields with their values, without fields that are None; else "all items"."""
    return ", ".join(f"{field} {value}".strip() for field, value in key.items() if value is not None) or "all items"
