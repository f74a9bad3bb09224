"""The vocabulary in a run's folder: made once, and refused where it is of other texts or pieces."""

from pathlib import Path

import pytest

from data_schemas.errors import ConfigError
from data_schemas.reader import DatasetReader
from kame_model.text.run_vocabulary import TEXTS, check_run_vocabulary, make_run_vocabulary
from tests.support.small_datasets import noisy_dialogue, write_dataset

N_PIECES = 90  # of eight words no more than 106 can be made


def test_it_is_made_once_and_known_again_by_its_texts(tmp_path: Path) -> None:
    mine = [[noisy_dialogue(number) for number in range(4)]]
    folder, out = write_dataset(tmp_path / "data", mine), str(tmp_path / "run")
    readers = [DatasetReader(str(folder))]
    check_run_vocabulary(readers, N_PIECES, out)  # nothing is there yet
    file = Path(make_run_vocabulary(readers, N_PIECES, out))
    made = file.read_bytes(), file.stat().st_mtime_ns
    assert make_run_vocabulary(readers, N_PIECES, out) == str(file)
    assert (file.read_bytes(), file.stat().st_mtime_ns) == made
    with pytest.raises(ConfigError, match=r"has 90 pieces, but 100 are requested.*--vocabulary 90"):
        check_run_vocabulary(readers, 100, out)
    write_dataset(folder, mine, "random", "no eggs")  # more oracles: the same vocabulary still
    check_run_vocabulary([DatasetReader(str(folder), "default")], N_PIECES, out)
    other = [*readers, DatasetReader(str(write_dataset(tmp_path / "other", [[noisy_dialogue(9)]])))]
    with pytest.raises(ConfigError, match=r"trained on other dialogues or oracles .*--tokenizer"):
        check_run_vocabulary(other, N_PIECES, out)
    (file.parent / TEXTS).unlink()  # as an earlier version left it
    check_run_vocabulary(other, N_PIECES, out)
