"""A dataset's speech: whose is learnt from, whose is kept for measuring, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data_schemas.config.codec import CodecLearnConfig
from data_schemas.errors import DatasetError
from data_schemas.flags import FLAGS, set_flag
from data_schemas.reader import DatasetReader
from data_schemas.records import Audio
from kame_model.codec import speech
from kame_model.codec.speech import draw_voices, get_channels, read_held_out
from tests.support.codecs import with_validation

OF_A = CodecLearnConfig(speakers="A")


def train_rows(folder: Path) -> list[str]:
    return [row.dialogue_id for row in DatasetReader(str(folder)).iterate_dialogues() if row.split == "train"]


def test_voices_are_whole_channels_of_training_dialogues(made: Path) -> None:
    reader = DatasetReader(str(made))
    rows = [row for row in reader.iterate_dialogues() if row.split == "train"]
    for speakers, channel in (("A", 0), ("B", 1)):
        found = list(draw_voices([reader], CodecLearnConfig.model_validate({"speakers": speakers})))
        assert len(found) == len(rows)
        assert np.array_equal(found[0] * 32_768, get_channels(rows[0])[:, channel])
    half = list(draw_voices([reader], OF_A.model_copy(update={"most_speech_s": reader.manifest.counts.audio_s / 2})))
    assert 0 < len(half) < len(rows)


def test_of_both_the_user_is_heard_in_some_dialogues(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, n = DatasetReader(str(made)), len(train_rows(made))
    assert n < len(list(draw_voices([reader], CodecLearnConfig(most_speech_s=1e6, seed=1)))) < 2 * n
    monkeypatch.setattr(speech, "USER_SHARE", 1.0)
    assert len(list(draw_voices([reader], CodecLearnConfig(most_speech_s=1e6)))) == 2 * n


def test_a_flagged_dialogue_is_left_out(dataset: Path) -> None:
    before = len(list(draw_voices([DatasetReader(str(dataset))], OF_A)))
    flag = {"dialogue_id": train_rows(dataset)[0], "reason": "noise", "time": "2026-01-01T00:00:00Z"}
    (dataset / FLAGS).write_text(json.dumps(flag) + "\n")
    assert len(list(draw_voices([DatasetReader(str(dataset))], OF_A))) == before - 1


def test_what_is_measured_on_is_not_learnt_from(made: Path, tmp_path: Path) -> None:
    assert read_held_out([DatasetReader(str(made))], 10) == []
    reader = DatasetReader(str(with_validation(made, tmp_path / "dataset")))
    first = reader.list_shards()[0]
    assert [row.dialogue_id for row in read_held_out([reader], 1_000)] == [
        row.dialogue_id for row, _ in reader.iterate_rows(first)
    ]
    assert len(read_held_out([reader], 1)) == 1
    assert len(list(draw_voices([reader], OF_A))) == reader.manifest.counts.dialogues - first.n_rows


def test_flagged_dialogues_are_replaced_by_others(made: Path, tmp_path: Path) -> None:
    flagged, other = (DatasetReader(str(with_validation(made, tmp_path / name))) for name in ("flagged", "other"))
    for row in read_held_out([flagged], 1_000):
        set_flag(flagged.store, row.dialogue_id, "noise")
    n_dialogues = len(read_held_out([other], 1_000))
    assert len(read_held_out([flagged, other, other], 2 * n_dialogues)) == 2 * n_dialogues


def test_a_dialogue_without_two_channels_is_told(made: Path) -> None:
    row, _ = DatasetReader(str(made)).read_dialogue()
    assert get_channels(row).shape == (row.n_samples, 2)
    with pytest.raises(DatasetError, match=f"The dialogue {row.dialogue_id} has no sound"):
        get_channels(replace(row, audio=Audio(bytes=b"not a sound", path=None)))
