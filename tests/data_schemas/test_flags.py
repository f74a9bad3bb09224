"""Flags are set and taken away whole, by several people at once, and nobody's line is lost."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from data_schemas.errors import DatasetError
from data_schemas.flags import FLAGS, clear_flag, read_flagged, set_flag
from data_schemas.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path))


def test_a_flag_is_set_changed_and_taken_away(store: Store) -> None:
    set_flag(store, "a-v0", "hiss")
    set_flag(store, "b-v0", "übersteuert")
    set_flag(store, "a-v0", "wrong answer")
    assert read_flagged(store) == {"b-v0": "übersteuert", "a-v0": "wrong answer"}
    clear_flag(store, "a-v0")
    clear_flag(store, "never-v0")
    assert read_flagged(store) == {"b-v0": "übersteuert"}


def test_lines_of_others_stay_as_they_are(store: Store) -> None:
    line = b'{"dialogue_id":  "x-v0", "reason": "noise", "time": "then", "by": "ann"}\n'
    store.write_bytes(FLAGS, line + b"\n")
    set_flag(store, "a-v0", "hiss")
    assert store.read_bytes(FLAGS).startswith(line)
    clear_flag(store, "a-v0")
    assert store.read_bytes(FLAGS) == line


def test_people_who_flag_at_once_lose_no_flag(store: Store) -> None:
    with ThreadPoolExecutor(8) as people:
        list(people.map(lambda number: set_flag(store, f"d{number}-v0", "hiss"), range(24)))
    assert len(read_flagged(store)) == 24


@pytest.mark.parametrize("line", [b"not a flag\n", b'{"reason": "c"}\n'])
def test_a_file_with_another_line_is_not_written_over(store: Store, line: bytes) -> None:
    whole = b'{"dialogue_id": "x-v0", "reason": "b"}\n' + line
    store.write_bytes(FLAGS, whole)
    with pytest.raises(DatasetError, match=r"Line 2 of flags\.jsonl"):
        set_flag(store, "a-v0", "hiss")
    with pytest.raises(DatasetError, match="Line 2"):
        clear_flag(store, "a-v0")
    assert store.read_bytes(FLAGS) == whole
