"""Records through Arrow and back, for every class; and the columns that files on disks have."""

import dataclasses
import json
import typing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_schemas import records
from data_schemas.arrow import from_table, make_schema, to_table
from data_schemas.errors import StoreError
from data_schemas.records import AudioDialogue, OracleRow, Reject
from tests.support.token_rows import event, oracle_row

CLASSES = [each for each in vars(records).values() if isinstance(each, type) and dataclasses.is_dataclass(each)]

COLUMNS = json.loads((Path(__file__).parent / f"schema_{records.SCHEMA_VERSION}.json").read_text(encoding="utf-8"))
"""The columns of the files of a dataset in this schema version, as they were when it was settled."""


@pytest.mark.parametrize("record", [AudioDialogue, OracleRow, Reject])
def test_columns_are_those_of_the_schema_version(record: type) -> None:
    """When this fails, files that exist cannot be read any more: raise `SCHEMA_VERSION`, and write its columns down."""
    schema = make_schema(record)
    found = {field.name: f"{field.type}{'' if field.nullable else ' not null'}" for field in schema}
    assert found == COLUMNS[record.__name__]
    assert schema.metadata == {b"kame_schema_version": b"2", b"kame_record": record.__name__.encode()}


def strategy(hint: Any) -> st.SearchStrategy[Any]:
    """Values of any type that a record may hold."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    if typing.get_origin(hint) is tuple:
        return st.lists(strategy(typing.get_args(hint)[0]), max_size=3).map(tuple)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        fields = {name: strategy(inner) for name, inner in typing.get_type_hints(hint).items()}
        return st.builds(hint, **fields)
    return st.one_of(*(strategy(each) for each in typing.get_args(hint)))


_TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: _TEXT,
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    bytes: st.binary(max_size=20),
    type(None): st.none(),
}


@pytest.mark.parametrize("record", CLASSES)
@settings(max_examples=12)
@given(data=st.data())
def test_every_record_comes_back_equal(record: type, data: st.DataObject) -> None:
    made = data.draw(st.lists(strategy(record), max_size=3))
    assert from_table(to_table(made, record), record) == made


REJECTS = to_table([Reject(item_id="a", source="mine", stage="source", reason="bad", detail="")], Reject)


def test_a_column_more_is_left_out_and_one_that_is_missing_or_of_another_type_is_named() -> None:
    wider = REJECTS.append_column("more", pa.array([1]))
    assert from_table(wider, Reject) == from_table(REJECTS, Reject)
    with pytest.raises(StoreError, match="'reason' of Reject should be string, found: no such column"):
        from_table(REJECTS.drop_columns(["reason"]), Reject)
    place = REJECTS.schema.get_field_index("stage")
    with pytest.raises(StoreError, match="'stage' of Reject should be string, found: int64"):
        from_table(REJECTS.set_column(place, "stage", pa.array([1])), Reject)
    rows, events = to_table([], OracleRow), pa.array([[{"t_s": 1.0}]]).slice(0, 0)
    with pytest.raises(StoreError, match="'events' of OracleRow"):
        from_table(rows.set_column(rows.schema.get_field_index("events"), "events", events), OracleRow)


def test_what_may_be_null_is_null_in_files_from_before_it_was_there() -> None:
    row = oracle_row(event(0, t_s=0.5, r=0.5, text="Maybe.", answered_by="some-model"))
    table = to_table([row], OracleRow)
    place = table.schema.get_field_index("events")
    known = [field for field in table.schema.field(place).type.value_type.fields if field.name != "answered_by"]
    events = pa.array(table["events"].to_pylist(), pa.list_(pa.field("element", pa.struct(known), nullable=False)))
    (found,) = from_table(table.set_column(place, "events", events).drop_columns(["model"]), OracleRow)
    assert found == dataclasses.replace(row, events=(dataclasses.replace(row.events[0], answered_by=None),))


def test_a_type_that_files_cannot_hold_is_refused() -> None:
    @dataclasses.dataclass
    class Odd:
        name: complex

    Odd.__annotations__["name"] = complex
    with pytest.raises(TypeError, match=r"no Arrow type for .*complex"):
        make_schema(Odd)
