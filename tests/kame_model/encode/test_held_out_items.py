"""What is held out for an evaluation must not be trained on, neither its items nor their questions."""

from dataclasses import replace
from pathlib import Path

import pytest

from data_schemas.errors import ConfigError, DatasetError
from data_schemas.reader import DatasetReader
from kame_model.encode.held_out import check_held_out, read_excluded_ids
from tests.support.made_rows import made_with, make_row
from tests.support.small_datasets import noisy_dialogue, write_dataset
from tests.support.token_rows import write_token_rows


def dataset(folder: Path, *of: tuple[int, str, str]) -> DatasetReader:
    """Dialogues by the number of their item, their split and the id of their question."""
    rows = [replace(noisy_dialogue(number, split), group_id=question) for number, split, question in of]
    return DatasetReader(str(write_dataset(folder, [[each] for each in rows])))


@pytest.mark.parametrize(
    ("held", "named"),
    [
        (
            (1, "test", "its own"),
            "1 items of .*trained, or their questions, are also in the held-out dataset .*held.*mine-1",
        ),
        ((7, "test", "q-1"), "or their questions, .*: mine-1"),
        ((2, "test", "q-2"), ""),  # the test split trains nothing
        ((9, "test", "q-9"), ""),
    ],
)
def test_an_item_or_question_in_both_is_named(held: tuple[int, str, str], named: str, tmp_path: Path) -> None:
    trained = dataset(tmp_path / "trained", (1, "train", "q-1"), (2, "test", "q-2"))
    held_out = dataset(tmp_path / "held", (0, "test", "q-0"), held)
    if not named:
        check_held_out([trained], held_out)
        return
    with pytest.raises(ConfigError, match=named):
        check_held_out([trained], held_out)


def test_what_is_left_out_are_items_and_questions_of_datasets_and_items_of_token_rows(tmp_path: Path) -> None:
    by = made_with()
    dataset(tmp_path / "data", (1, "train", "q-1"), (2, "test", "q-2"))
    rows = write_token_rows(tmp_path / "rows", [make_row(number, "train", by) for number in (3, 4)], made_with=by)
    assert read_excluded_ids([str(tmp_path / "data"), rows.folder]) == {
        *("mine-1", "q-1", "mine-2", "q-2"),
        *("made-3", "made-4"),
    }
    with pytest.raises(DatasetError, match="is not a dataset"):
        read_excluded_ids([str(tmp_path)])
