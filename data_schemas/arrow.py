"""Serialization of records to Arrow tables and back; their schema is that of the Parquet files of a dataset.

Schemas are derived from the dataclasses in `records/`, never written out.
"""

import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from functools import cache
from typing import Any, TypeVar

import pyarrow as pa

from data_schemas.errors import StoreError
from data_schemas.records import SCHEMA_VERSION

Record = TypeVar("Record")
Convert = Callable[[Any], Any]
_SCALARS: dict[object, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    bytes: pa.binary(),
}
_schemas: dict[type, pa.Schema] = {}


@cache
def _get_hints(record: type) -> dict[str, Any]:
    """Returns the type hints of a record class by field, with strings resolved to types; cached."""
    return typing.get_type_hints(record)


def _strip_optional(hint: Any) -> tuple[Any, bool]:
    """Returns the type X of a hint `X | None` and True; any other hint is returned unchanged, with False."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        inner = [arg for arg in typing.get_args(hint) if arg is not types.NoneType]
        if len(inner) == 1:
            return inner[0], True
    return hint, False


def _make_field(name: str, hint: Any) -> pa.Field:
    """Returns an Arrow field of a type hint; it is nullable if the hint is `X | None`."""
    inner, nullable = _strip_optional(hint)
    return pa.field(name, _make_data_type(inner), nullable=nullable)


def _make_data_type(hint: Any) -> pa.DataType:
    """Returns the Arrow type of a type hint; raises TypeError if records cannot hold it."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    if typing.get_origin(hint) is tuple:
        return pa.list_(_make_field("element", typing.get_args(hint)[0]))
    if is_dataclass(hint):
        return pa.struct([_make_field(name, inner) for name, inner in _get_hints(hint).items()])  # type: ignore[arg-type]
    raise TypeError(f"no Arrow type for {hint!r}: records hold str, int, float, bool, bytes, tuples and records")


def make_schema(record: type) -> pa.Schema:
    """Returns the Arrow schema of a record class, with the schema version in its metadata.

    Raises:
        TypeError: if a field has a type that records cannot hold.
    """
    if record not in _schemas:
        columns = [_make_field(name, hint) for name, hint in _get_hints(record).items()]
        metadata = {"kame_schema_version": str(SCHEMA_VERSION), "kame_record": record.__name__}
        _schemas[record] = pa.schema(columns, metadata=metadata)
    return _schemas[record]


def to_table(records: Sequence[Record], record: type[Record]) -> pa.Table:
    """Converts records to a table with exactly the schema of their class."""
    write = _make_row_writer(record)  # type: ignore[arg-type]  # classes are hashable
    return pa.Table.from_pylist([write(each) for each in records], schema=make_schema(record))


def from_table(table: pa.Table, record: type[Record]) -> list[Record]:
    """Converts a table's rows to records; unknown columns are ignored.

    Nullable fields without a column are None, because older files lack newer columns.

    Raises:
        StoreError: if another column is missing, or one has a different type.
    """
    wanted = make_schema(record)
    for field in wanted:
        position = table.schema.get_field_index(field.name)
        found = None if position < 0 else table.schema.field(position).type
        if not _is_readable(found, field):
            raise StoreError(
                f"Column {field.name!r} of {record.__name__} should be {field.type}, "
                f"found: {found or 'no such column'}.",
                "The file has another schema version or was not written by kame: remove it and run again.",
            )
    names = [name for name in wanted.names if name in table.column_names]
    read = _make_record_reader(record)  # type: ignore[arg-type]  # classes are hashable
    return [read(row) for row in table.select(names).to_pylist()]


def _is_readable(found: pa.DataType | None, wanted: pa.Field) -> bool:
    """Whether a column of type `found` can be read as the field `wanted`; None: the table has no such column.

    Nullable fields may be missing, also inside structures, and additional fields of structures are ignored.
    """
    if found is None:
        return bool(wanted.nullable)
    if pa.types.is_list(wanted.type):
        return pa.types.is_list(found) and _is_readable(found.value_type, wanted.type.value_field)
    if not pa.types.is_struct(wanted.type):
        return bool(found == wanted.type)
    if not pa.types.is_struct(found):
        return False
    there = {inner.name: inner.type for inner in found.fields}
    return all(_is_readable(there.get(inner.name), inner) for inner in wanted.type.fields)


@cache
def _make_record_reader(record: type) -> Convert:
    """Returns the function that converts a row, as a dict, to a record; fields that the row lacks become None."""
    readers = [(name, _make_reader(hint)) for name, hint in _get_hints(record).items()]
    kept = [name for name, read in readers if read is None]
    changed = [(name, read) for name, read in readers if read is not None]

    def read_record(row: dict[str, Any]) -> Any:
        values = {name: row.get(name) for name in kept}
        for name, read in changed:
            values[name] = read(row.get(name))
        return record(**values)

    return read_record


@cache
def _make_row_writer(record: type) -> Convert:
    """Returns the function that converts a record to a row, as a dict for Arrow."""
    writers = [(name, _make_writer(hint)) for name, hint in _get_hints(record).items()]

    def write_row(made: Any) -> dict[str, Any]:
        values = ((name, write, getattr(made, name)) for name, write in writers)
        return {name: value if write is None else write(value) for name, write, value in values}

    return write_row


def _make_reader(hint: Any) -> Convert | None:
    """Returns the function that converts a value of an Arrow row to the type of a hint; None if no value changes.

    It makes records of dicts and tuples of lists, recursively, and leaves null values.
    """
    inner, _ = _strip_optional(hint)
    if typing.get_origin(inner) is tuple:
        read = _make_reader(typing.get_args(inner)[0])
        return _keep_null(tuple if read is None else lambda values: tuple([read(each) for each in values]))
    return _keep_null(_make_record_reader(inner)) if is_dataclass(inner) else None  # type: ignore[arg-type]


def _make_writer(hint: Any) -> Convert | None:
    """Returns the function that converts a value of a record to that of an Arrow row; None if no value changes."""
    inner, _ = _strip_optional(hint)
    if typing.get_origin(inner) is tuple:
        write = _make_writer(typing.get_args(inner)[0])
        return None if write is None else _keep_null(lambda values: [write(each) for each in values])
    return _keep_null(_make_row_writer(inner)) if is_dataclass(inner) else None  # type: ignore[arg-type]


def _keep_null(convert: Convert) -> Convert:
    """Returns the function with null values left unchanged."""
    return lambda value: None if value is None else convert(value)
