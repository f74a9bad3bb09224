"""Token rows of earlier versions are read as they were meant, or refused with a way out; they are never edited.

All are of the two dialogues of tests/golden/dataset_schema_2, by the codec's double and a vocabulary of 300 pieces.
Those of version 1 are without their rows, which nothing reads any more.
"""

import shutil
from pathlib import Path

import pytest

from data_schemas.errors import DatasetError, StoreError
from data_schemas.reader import DatasetReader
from kame_model.encode.manifest import ROWS_VERSION
from kame_model.encode.run import encode_dataset
from kame_model.encode.token_dataset import TokenDataset
from tests.support.small_datasets import encode_settings

pytestmark = pytest.mark.full

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
FIRST = 2
"""Version 1 was never part of a release."""


@pytest.mark.parametrize("version", range(FIRST, ROWS_VERSION + 1))
def test_rows_of_each_version_are_read_as_they_were_meant(version: int) -> None:
    tokens = TokenDataset(str(GOLDEN / f"token_rows_{version}"))
    dialogues = list(DatasetReader(str(GOLDEN / "dataset_schema_2")).iterate_dialogues())
    rows = [tokens[at] for at in range(len(tokens))]
    assert [(row.dialogue_id, row.split) for row in rows] == [(each.dialogue_id, each.split) for each in dialogues]
    for row in rows:
        assert (row.question, row.answer, row.n_frames) == ("So how many eggs?", "eighteen eggs.", 15)
        assert row.a.codes.shape == row.b.codes.shape == (8, 15)
        assert row.a.text.tolist() == [3, 3, 3, 3, 3, 3, 3, 3, 0, 257, 0, 22, 0, 59, 291]
        assert row.b.text.tolist() == [0, 71, 131, 0, 96, 0, 59, 291, 291, 276, 3, 3, 3, 3, 3]
        assert (row.a.oracle.frame.tolist(), row.a.oracle.level.tolist()) == ([5, 8], [0, 5])
        assert row.a.oracle.pred_values.tolist()[8:] == row.a.oracle.hint_values.tolist() == [22, 59, 291, 291, 276]


def test_rows_of_version_1_are_refused_with_a_way_out_that_works(vocabulary: str, tmp_path: Path) -> None:
    data = Path(shutil.copytree(GOLDEN / "dataset_schema_2", tmp_path / "dataset"))
    out = Path(shutil.copytree(GOLDEN / "token_rows_1", tmp_path / "tokens"))
    with pytest.raises(DatasetError, match=r"has token rows of version 1; .*Remove the folder and run `kame encode`"):
        TokenDataset(str(out))
    with pytest.raises(StoreError, match=r"older version of kame\. Remove the folder"):
        encode_dataset(encode_settings(data, vocabulary))
    shutil.rmtree(out)
    encode_dataset(encode_settings(data, vocabulary))
    assert len(TokenDataset(str(out))) == 2
