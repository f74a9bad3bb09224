"""Records through Arrow and back, for every class; and the columns of schema 1, which files on disks have."""

import dataclasses
import typing
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_schemas import records
from data_schemas.arrow import from_table, schema_of, to_table
from data_schemas.errors import StoreError
from data_schemas.records import AudioDialogue, Item, OracleEvent, OracleRow, Reject, Turn

CLASSES = [each for each in vars(records).values() if isinstance(each, type) and dataclasses.is_dataclass(each)]

WORD = (
    "struct<word: string not null, start_s: double not null, end_s: double not null, score: double not null, "
    "method: string not null>"
)
UTTERANCE = (
    "struct<kind: string not null, spoken_text: string not null, voice: string, speed: double, start_s: double, "
    f"end_s: double, words: list<element: {WORD} not null> not null>"
)
TURN = (
    "struct<turn_index: int64 not null, speaker: string not null, written_text: string not null, "
    "spoken_text: string not null, lead: string, body: string not null, tail: string, answer_word_index: int64, "
    "keyword_delay_s: double, start_s: double, end_s: double, "
    f"utterances: list<element: {UTTERANCE} not null> not null>"
)
COLUMNS_OF_SCHEMA_1 = {
    AudioDialogue: {
        "dialogue_id": "string not null",
        "item_id": "string not null",
        "group_id": "string not null",
        "source": "string not null",
        "native_id": "string",
        "variant": "int64 not null",
        "split": "string not null",
        "language": "string not null",
        "category": "string",
        "licence": "string",
        "revision": "string",
        "form": "string not null",
        "question": "string not null",
        "answer": "string not null",
        "turns": f"list<element: {TURN} not null> not null",
        "provenance": "struct<script_method: string not null, tts: string, tts_digest: string, voice_a: string, "
        "voice_b: string, aligner: string, aligner_digest: string, seed: int64> not null",
        "n_samples": "int64 not null",
        "sample_rate_hz": "int64 not null",
        "duration_s": "double not null",
        "quality": "struct<rms_dbfs_a: double not null, rms_dbfs_b: double not null, peak_dbfs: double not null, "
        "mean_word_score: double not null, wer: double, number_recall: double> not null",
        "audio": "struct<bytes: binary, path: string>",
    },
    OracleRow: {
        "dialogue_id": "string not null",
        "split": "string not null",
        "source": "string not null",
        "oracle_version": "string not null",
        "endpoint": "string",
        "model": "string",
        "model_digest": "string",
        "prompt_version": "string not null",
        "prompt_digest": "string not null",
        "interval_s": "double not null",
        "level_bounds": "list<element: double not null> not null",
        "max_requests_per_turn": "int64 not null",
        "seed": "int64 not null",
        "events": "list<element: struct<event_id: string not null, t_s: double not null, turn_index: int64 not null, "
        "n_words_heard: int64 not null, n_words: int64 not null, r: double not null, level: int64 not null, "
        "status: string not null, text: string, raw_text: string, request_id: string, "
        "error: string> not null> not null",
    },
}


@pytest.mark.parametrize("record", COLUMNS_OF_SCHEMA_1)
def test_columns_are_those_of_schema_1(record: type) -> None:
    """When this fails, files that exist cannot be read any more: raise `SCHEMA_VERSION` with the change."""
    assert records.SCHEMA_VERSION == 1
    found = {field.name: f"{field.type}{'' if field.nullable else ' not null'}" for field in schema_of(record)}
    assert found == COLUMNS_OF_SCHEMA_1[record]


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


@given(items=st.lists(strategy(Item), max_size=5), events=st.lists(strategy(OracleEvent), max_size=5))
def test_items_and_events_come_back_equal(items: list[Item], events: list[OracleEvent]) -> None:
    assert from_table(to_table(items, Item), Item) == items
    assert from_table(to_table(events, OracleEvent), OracleEvent) == events


REJECTS = to_table([Reject(item_id="a", source="mine", stage="source", reason="bad", detail="")], Reject)


def test_more_columns_than_the_class_knows_are_left_out() -> None:
    wider = REJECTS.append_column("more", pa.array([1]))
    assert from_table(wider, Reject) == from_table(REJECTS, Reject)


def test_a_missing_column_is_named() -> None:
    with pytest.raises(StoreError, match="'reason' of Reject should be string, found: no such column"):
        from_table(REJECTS.drop_columns(["reason"]), Reject)


def test_a_column_of_another_type_is_named() -> None:
    place = REJECTS.schema.get_field_index("stage")
    with pytest.raises(StoreError, match="'stage' of Reject should be string, found: int64"):
        from_table(REJECTS.set_column(place, "stage", pa.array([1])), Reject)


def test_a_nested_field_that_is_missing_is_found() -> None:
    events = pa.array([[{"t_s": 1.0}]])
    rows = to_table([], OracleRow)
    table = rows.set_column(rows.schema.get_field_index("events"), "events", events.slice(0, 0))
    with pytest.raises(StoreError, match="'events' of OracleRow"):
        from_table(table, OracleRow)


def test_null_is_for_optional_fields_alone() -> None:
    turn = schema_of(Turn)
    assert turn.field("lead").nullable
    assert not turn.field("body").nullable
    utterance = turn.field("utterances").type.value_field
    assert not utterance.nullable
    assert utterance.type.field("voice").nullable
    assert not utterance.type.field("kind").nullable
    assert not utterance.type.field("words").type.value_field.type.field("start_s").nullable


def test_a_schema_names_its_record_and_version() -> None:
    assert schema_of(OracleRow).metadata == {b"kame_schema_version": b"1", b"kame_record": b"OracleRow"}


def test_a_type_that_files_cannot_hold_is_refused() -> None:
    @dataclasses.dataclass
    class Odd:
        name: complex

    Odd.__annotations__["name"] = complex
    with pytest.raises(TypeError, match=r"no Arrow type for .*complex"):
        schema_of(Odd)
