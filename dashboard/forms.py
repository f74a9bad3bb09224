"""Forms for configuration classes: fields with values as text, and text back to validated settings.

A field is identified by its dotted path, as in `--set`, and rows of a list by number. Settings contain only values that
differ from their defaults, so that presets can fill in the rest.
"""

import json
import math
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from data_schemas.typed_yaml import load_typed_yaml

MAX_ROWS: Final = 50
MAX_YAML_DEPTH: Final = 20
ROW: Final = "__n__"
"""Placeholder for the number in the blank row that a page copies."""
_NO_VALUE: Final = object()
_OPENING: Final = (
    yaml.FlowSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.BlockMappingStartToken,
)
_CLOSING: Final = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken, yaml.BlockEndToken)

Kind = Literal["text", "whole", "number", "switch", "choice", "choices", "lines", "yaml"]


@dataclass(frozen=True, slots=True)
class Control:
    """A field with a single value.

    Attributes:
        value: value as text; for choices, the chosen ones.
        choices: all options, for kinds choice and choices.
        pick: name of the list of suggestions (`RunScheduler.list_choices`).
        is_wanted: whether it is required.
    """

    path: str
    title: str
    description: str
    kind: Kind
    value: str | bool | list[str]
    default: str
    choices: Sequence[str] = ()
    pick: str = ""
    is_wanted: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """Fields of a nested configuration class.

    Attributes:
        is_on: whether an optional section is present; None if it is not optional.
    """

    path: str
    title: str
    description: str
    nodes: list["Node"] = field(default_factory=list)
    is_on: bool | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """A list of configuration classes or texts; `blank` is copied to add one."""

    path: str
    title: str
    description: str
    rows: list["Node"]
    blank: "Node"


Node = Control | Section | Rows

_PICKS: Final = {
    "voice_a": "voices",
    "voices_b": "voices",
    "tts": "tts",
    "asr": "asr",
    "aligner": "aligner",
    "codec": "codec",
    "engine": "engine",
    "backend": "listener",
    "datasets": "datasets",
    "held_out": "datasets",
    "without": "datasets",
    "checkpoint": "checkpoints",
    "init_from": "checkpoints",
    "sources.name": "sources",
    "sources.path": "items",
}
"""Name of the suggestions for a field, by the end of its path without numbers."""

USUAL: Final[Mapping[str, tuple[str, ...]]] = {
    "refresh": ("sources", "out", "limit", "variants", "speech.tts", "chat.engine", "chat.model", "chat.base_url"),
    "speech": ("sources", "out", "hours", "speech.tts", "speech.voice_a"),
    "train": ("datasets", "preset", "out", "checkpoints", "max_steps", "max_hours", "speech", "device"),
    "evaluate": ("kind", "checkpoint", "path", "questions", "out", "modes", "n_items", "judge_model"),
    "serve": ("checkpoint", "mode", "host", "port", "voice", "device", "back_ends"),
}
"""Fields that are usually set, by kind of run, in this order; the others are folded."""


_USUAL_OF_ROWS: Final[Mapping[str, tuple[str, ...]]] = {"sources": ("name", "path")}
"""The same for a row of a list."""


def build_form(model: type[BaseModel], values: Mapping[str, Any], prefix: str = "") -> list[Node]:
    """Builds the form of a configuration class, with the given values and otherwise defaults.

    Args:
        prefix: what precedes the names of fields in paths, such as `speech.`.
    """
    nodes = []
    for name, info in model.model_fields.items():
        default = _get_default(info)
        nodes.append(_make_node(f"{prefix}{name}", info.annotation, info, values.get(name, default), default))
    return nodes


def split_usual(nodes: Sequence[Node], usual: Sequence[str]) -> tuple[list[Node], list[Node]]:
    """Splits a form into the nodes at the paths `usual`, in that order, and the others, without empty sections.

    Raises:
        KeyError: the form has no such path; rows of lists are not searched.
    """
    found = {each.path: each for each in _walk(nodes)}
    return [found[path] for path in usual], list(_remove_paths(nodes, set(usual)))


def read_form(
    model: type[BaseModel], values: Mapping[str, str | bool | list[str]]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Validates a form; returns settings that differ from their defaults, and errors by path ("" for the whole form).

    If there are errors, the settings are those that could be read, of which some may be invalid.

    Args:
        values: values by dotted path, as sent by the page; missing fields have their defaults.
    """
    unread = dict(values)
    faults: dict[str, str] = {}
    settings = _read_fields(model, "", unread, faults)
    faults |= {path[:200].encode(errors="replace").decode(): "There is no such field." for path in unread}
    if not faults:
        try:
            model.model_validate_json(json.dumps(settings))
        except ValidationError as error:
            faults = _list_faults(error, set(values))
    return settings, faults


def parse_yaml(text: str) -> Any:
    """Parses YAML that somebody has sent.

    Raises:
        ValueError: it has aliases, or is nested too deeply.
        yaml.YAMLError: it is not YAML.
    """
    _check_yaml(text)
    return load_typed_yaml(text)


def _get_default(info: FieldInfo) -> Any:
    """Returns a field's default as JSON; `_NO_VALUE` if the field is required or its default depends on others."""
    if info.is_required() or info.default_factory_takes_validated_data:
        return _NO_VALUE
    default = info.get_default(call_default_factory=True)
    return _convert_to_plain(default)


def _convert_to_plain(value: Any) -> Any:
    """Converts models, also in lists, to dictionaries without default values, and tuples to lists."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_defaults=True)
    return [_convert_to_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _make_node(path: str, annotation: Any, info: FieldInfo | None, value: Any, default: Any) -> Node:
    """Makes the section, the rows or the control of a field, by its type.

    Args:
        info: the field; None for a row of a list.
        value, default: as JSON; `_NO_VALUE` if there is none.
    """
    title = (info.title if info else None) or path.rpartition(".")[2].replace("_", " ")
    description = (info.description if info else None) or ""
    inner, is_optional = _unwrap_type(annotation)
    if _is_model(inner):
        given = value if isinstance(value, Mapping) else {}
        is_on = value is not None and value is not _NO_VALUE if is_optional else None
        return Section(path, title, description, build_form(inner, given, f"{path}."), is_on)
    item = _get_item_type(inner)
    if item is not None and (_is_model(item) or item is str):
        given_rows = value if isinstance(value, list) else []
        *rows, blank = [
            _fold_rest(_make_node(f"{path}.{index}", item, None, each, _NO_VALUE), _USUAL_OF_ROWS.get(path, ()))
            for index, each in (*enumerate(given_rows), (ROW, _NO_VALUE))
        ]
        return Rows(path, title, description, rows, blank)
    kind = _choose_kind(inner, info)
    choices = _list_choices(item if kind == "choices" else inner, info)
    is_wanted = info is not None and info.is_required()
    shown = _format_value(kind, value)
    return Control(
        path,
        title,
        description,
        kind,
        shown,
        _format_hint(_format_value(kind, default)),
        choices,
        _find_pick(path),
        is_wanted,
    )


def _fold_rest(row: Node, usual: Sequence[str]) -> Node:
    """Moves the fields of a row that are not usually set to a section "more"; without usual ones, nothing changes."""
    if not usual or not isinstance(row, Section):
        return row
    shown, rest = split_usual(row.nodes, [f"{row.path}.{name}" for name in usual])
    more = Section(f"{row.path}.more", "more", "Fields that are seldom changed.", rest)
    return Section(row.path, row.title, row.description, [*shown, more], row.is_on)


def _choose_kind(inner: Any, info: FieldInfo | None) -> Kind:
    """Returns the kind of control for a type without `Annotated` and None; YAML if no other kind fits."""
    item = _get_item_type(inner)
    if inner is bool:
        return "switch"
    if get_origin(inner) is Literal or _list_choices(inner, info):
        return "choice"
    if item is not None:
        return "choices" if get_origin(item) is Literal else "lines"
    by_type: dict[Any, Kind] = {str: "text", int: "whole", float: "number"}
    return by_type.get(inner, "yaml")


def _list_choices(inner: Any, info: FieldInfo | None) -> Sequence[str]:
    """Returns the allowed values of a Literal, or those in the field's JSON schema; empty if any value is allowed."""
    if get_origin(inner) is Literal:
        return [str(each) for each in get_args(inner)]
    extra = info.json_schema_extra if info is not None else None
    changed: dict[str, Any] = {}
    if callable(extra):
        extra(changed)
    return [str(each) for each in changed.get("enum", ())]


def _format_value(kind: Kind, value: Any) -> str | bool | list[str]:
    """Formats a value as its kind of control needs it: true or false, a list of choices, or a text."""
    if kind == "switch":
        return value is True
    if kind == "choices":
        return [str(each) for each in value] if isinstance(value, list) else []
    if value is None or value is _NO_VALUE:
        return ""
    if kind == "lines":
        return "\n".join(str(each) for each in value)
    if kind == "yaml":
        return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True)).strip() if value else ""
    return str(value)


def _format_hint(text: str | bool | list[str]) -> str:
    """Formats a default value as a hint; empty for switches."""
    return ", ".join(text) if isinstance(text, list) else "" if isinstance(text, bool) else text


def _find_pick(path: str) -> str:
    """Returns the name of the list of suggestions for a field; empty if there is none."""
    parts = [each for each in path.split(".") if each != ROW and not each.isdecimal()]
    return _PICKS.get(".".join(parts[-2:])) or _PICKS.get(parts[-1], "")


def _unwrap_type(annotation: Any) -> tuple[Any, bool]:
    """Returns a type without `Annotated` and `None`, and whether it allowed None.

    A union of None and several other types is returned whole.
    """
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        args = [each for each in get_args(annotation) if each is not type(None)]
        if len(args) < len(get_args(annotation)):
            return (_unwrap_type(args[0])[0] if len(args) == 1 else annotation), True
    return annotation, False


def _get_item_type(inner: Any) -> Any:
    """Returns the type of a list's items; None if the type is not a list."""
    return _unwrap_type(get_args(inner)[0])[0] if get_origin(inner) is list else None


def _is_model(inner: Any) -> bool:
    """Returns whether a type is a class of Pydantic models."""
    return isinstance(inner, type) and issubclass(inner, BaseModel)


def _walk(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yields nodes and those inside sections, but not those inside rows."""
    for node in nodes:
        yield node
        if isinstance(node, Section):
            yield from _walk(node.nodes)


def _remove_paths(nodes: Sequence[Node], paths: set[str]) -> Iterator[Node]:
    """Yields nodes without those of some paths, and without sections that become empty."""
    for node in nodes:
        if node.path in paths:
            continue
        if isinstance(node, Section):
            left = list(_remove_paths(node.nodes, paths))
            if left:
                yield Section(node.path, node.title, node.description, left, node.is_on)
        else:
            yield node


def _read_fields(model: type[BaseModel], prefix: str, unread: dict[str, Any], faults: dict[str, str]) -> dict[str, Any]:
    """Reads the fields of a class that differ from their defaults; adds errors to `faults` by path.

    What is read is removed from `unread`.
    """
    settings = {}
    for name, info in model.model_fields.items():
        value = _read_field(f"{prefix}{name}", info.annotation, info, unread, faults)
        if value is not _NO_VALUE and value != _get_default(info):
            settings[name] = value
    return settings


def _read_field(
    path: str, annotation: Any, info: FieldInfo | None, unread: dict[str, Any], faults: dict[str, str]
) -> Any:
    """Reads a field, and removes what it reads from `unread`; errors are added to `faults` by path.

    Returns its value as JSON: None if an optional section is off, whose errors are ignored; `_NO_VALUE` if nothing was
    sent or the value is invalid.
    """
    inner, is_optional = _unwrap_type(annotation)
    if _is_model(inner):
        n_unread, switch = len(unread), unread.pop(path, _NO_VALUE) if is_optional else True
        faults_inside: dict[str, str] = {}
        settings = _read_fields(inner, f"{path}.", unread, faults_inside)
        if len(unread) == n_unread:  # the page sent nothing of it
            return _NO_VALUE
        if switch is not True:
            return None
        faults |= faults_inside
        return settings
    item = _get_item_type(inner)
    if item is not None and (_is_model(item) or item is str):
        return _read_rows(path, item, is_optional, unread, faults)
    text = unread.pop(path, _NO_VALUE)
    if text is _NO_VALUE:
        return _NO_VALUE
    if info is not None and info.is_required() and not text:
        faults[path] = "A value is needed here."
    try:
        return _parse_value(_choose_kind(inner, info), text, item, is_optional)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        faults[path] = f"{error}".partition("\n")[0][:300]
        return _NO_VALUE


def _read_rows(path: str, item: Any, is_optional: bool, unread: dict[str, Any], faults: dict[str, str]) -> Any:
    """Reads a list from its numbered rows, in their order; `_NO_VALUE` if neither the list nor a row was sent.

    Empty and invalid texts are left out; a row of settings without any value stays, as {}. Without rows the list is
    None if it is optional, else empty. Of more than `MAX_ROWS` rows none is read. What is read is removed from
    `unread`; errors are added to `faults` by path.
    """
    numbers = {int(found[1]) for each in unread if (found := re.match(rf"{re.escape(path)}\.(\d{{1,4}})(\.|$)", each))}
    is_given = unread.pop(path, None) is not None or numbers
    if len(numbers) > MAX_ROWS:
        faults[path] = f"There may be {MAX_ROWS} rows at most."
        numbers = set()
    rows = [_read_field(f"{path}.{number}", item, None, unread, faults) for number in sorted(numbers)]
    rows = [{} if each is _NO_VALUE and _is_model(item) else each for each in rows]
    kept = [each for each in rows if each not in ("", _NO_VALUE)]
    if not is_given:
        return _NO_VALUE
    return kept or (None if is_optional else [])


def _parse_value(kind: Kind, text: Any, item: Any, is_optional: bool) -> Any:
    """Parses what the page sends for a field.

    An empty text is [] for lines; for other kinds it is None if the field allows None, else {} for YAML or `_NO_VALUE`.

    Args:
        item: type of a list's items; None if the field is not a list.

    Raises:
        ValueError: it is not of that kind.
    """
    if kind == "switch":
        if not isinstance(text, bool):
            raise ValueError("Write yes or no.")
        return text
    if kind == "choices":
        if not isinstance(text, list):
            raise ValueError("A list is required.")
        return text
    if not isinstance(text, str):
        raise ValueError("A text is required.")
    text = text.strip()
    if kind == "lines":
        return [_parse_number(each, item is int) for each in re.split(r"[,\s]+", text) if each]
    if not text and is_optional:
        return None
    if not text:
        return {} if kind == "yaml" else _NO_VALUE
    if kind == "yaml":
        return parse_yaml(text)
    if kind in ("whole", "number"):
        return _parse_number(text, kind == "whole")
    return text


def _check_yaml(text: str) -> None:
    """Rejects YAML that takes much longer to parse than to write.

    Raises:
        ValueError: it has aliases, or is nested too deeply.
        yaml.YAMLError: it is not YAML.
    """
    depth = 0
    for token in yaml.scan(text):
        if isinstance(token, yaml.AliasToken):  # a few of them can stand for gigabytes
            raise ValueError("YAML anchors and aliases are not allowed.")
        depth += isinstance(token, _OPENING) - isinstance(token, _CLOSING)
        if depth > MAX_YAML_DEPTH:  # PyYAML's time grows with the square of the depth
            raise ValueError(f"The value is nested too deeply; {MAX_YAML_DEPTH} levels are allowed.")


def _parse_number(text: str, is_whole: bool) -> int | float:
    """Parses a finite number; without `is_whole`, a whole number stays an int.

    Raises:
        ValueError: it is not such a number.
    """
    try:
        number = int(text) if is_whole or re.fullmatch(r"[+-]?\d{1,18}", text) else float(text)
    except ValueError:
        raise ValueError(f"{'A whole number' if is_whole else 'A number'} is required.") from None
    if isinstance(number, float) and not math.isfinite(number):
        raise ValueError("A finite number is required.")
    return number


def _list_faults(error: ValidationError, paths: set[str]) -> dict[str, str]:
    """Returns the first of Pydantic's errors for each field, by path.

    An error of a whole class goes to the field with whose name and a colon its message begins.

    Args:
        paths: paths of the values that the form has.
    """
    faults: dict[str, str] = {}
    for each in error.errors(include_url=False):
        if each["type"] == "default_factory_not_called":  # follows from another fault
            continue
        parts = [str(part) for part in each["loc"]]
        text = each["msg"].removeprefix("Value error, ")
        names, colon, rest = text.partition(": ")
        inside = ".".join([*parts, names]) if colon and re.fullmatch(r"\w+", names) else ""
        if inside in paths or any(path.startswith(f"{inside}.") for path in paths if inside):
            parts, text = inside.split("."), rest
        faults.setdefault(".".join(parts), text[:1].upper() + text[1:])
    return faults
