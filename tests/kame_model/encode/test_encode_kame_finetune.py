"""The export for kame_finetune against a row worked out by hand, and as other people's libraries read it."""

import json
from pathlib import Path

import datasets
import numpy as np
import pyarrow.parquet as pq
import pytest

from data_schemas.code_layout import CodeLayout
from data_schemas.errors import ConfigError, StoreError
from data_schemas.records import AudioDialogue, OracleRow
from kame_model.encode import kame_finetune
from kame_model.encode.dialogue import make_token_row
from kame_model.encode.kame_finetune import export_kame_finetune
from kame_model.encode.rows import TokenRow
from tests.support.token_rows import (
    MADE_WITH,
    audio_dialogue,
    event,
    oracle_row,
    said_turn,
    vocabulary_of,
    write_token_rows,
)

GOLDEN = json.loads((Path(__file__).parent / "golden" / "kame_finetune.json").read_text(encoding="utf-8"))
GIVEN, EXPECTED = GOLDEN["input"], GOLDEN["expected"]


def golden_dialogue() -> AudioDialogue:
    turns = [
        said_turn(
            index,
            each["speaker"],
            each["text"],
            *map(tuple, each["words"]),
            answer_word_index=each.get("answer_word_index"),
        )
        for index, each in enumerate(GIVEN["turns"])
    ]
    return audio_dialogue(*turns, duration_s=GIVEN["duration_s"])


def golden_oracle() -> OracleRow:
    return oracle_row(*(event(number, **fields) for number, fields in enumerate(GIVEN["events"])))


def golden_row(folder: Path) -> TokenRow:
    tokenizer = vocabulary_of(GIVEN["vocabulary"]["pieces"], folder / "golden.model")
    codebook, frame = np.mgrid[:8, : GIVEN["n_frames"]]
    a = (100 * codebook + frame).astype(np.int16)
    return make_token_row(golden_dialogue(), golden_oracle(), (a, a + np.int16(1000)), tokenizer)[0]


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    write_token_rows(tmp_path / "tokens", [golden_row(tmp_path)])
    export_kame_finetune(str(tmp_path / "tokens"), str(tmp_path / "out"))
    return tmp_path / "out"


def test_codes_that_are_not_laid_out_as_mimis_are_refused(tmp_path: Path) -> None:
    layout = CodeLayout.make_parametric([2048] * 8, text_lead=2, temp=0.4)
    made_with = MADE_WITH.model_copy(update={"codec": "codec2-learnt", "layout": layout})
    write_token_rows(tmp_path / "tokens", [golden_row(tmp_path)], made_with=made_with)
    with pytest.raises(ConfigError, match=r"codes of codec2-learnt\. kame_finetune requires Mimi's"):
        export_kame_finetune(str(tmp_path / "tokens"), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_columns_have_the_types_of_kame_finetune(exported: Path) -> None:
    types = {field.name: str(field.type) for field in pq.read_schema(next(exported.glob("*.parquet")))}
    of_speaker = {
        "oracle_event_frame_pos": "int32",
        "oracle_event_ratio": "float",
        "oracle_event_skip_forbid": "int8",
        "oracle_pred_values": "int32",
        "oracle_pred_offsets": "int32",
        "oracle_hint_values": "int32",
        "oracle_hint_offsets": "int32",
    }
    stored = {f"{speaker}_{name}": f"list<element: {kind}>" for speaker in "AB" for name, kind in of_speaker.items()}
    streams = dict.fromkeys("AB", "list<element: list<element: int32>>")
    assert types == {"dialogue_id": "string"} | streams | stored


def test_the_golden_row_is_what_was_worked_out_by_hand_also_to_datasets(exported: Path) -> None:
    [file] = exported.glob("*.parquet")
    assert pq.read_table(file).to_pylist() == [EXPECTED]
    loaded = datasets.load_dataset(str(exported), data_files="*.parquet")
    assert list(loaded) == ["train"]
    assert loaded["train"].to_list() == [EXPECTED]
    told = json.loads((exported / "export.json").read_text(encoding="utf-8"))
    assert (told["format"], told["dialogues"]) == ("kame_finetune", {"train": 1})
    assert told["made_with"]["layout"]["sizes"] == [2048] * 8


def test_a_codec_of_other_size_gives_as_many_rows(tmp_path: Path) -> None:
    tokenizer = vocabulary_of(GIVEN["vocabulary"]["pieces"], tmp_path / "golden.model")
    codes = np.zeros((3, 15), np.int16)
    row = make_token_row(golden_dialogue(), None, (codes, codes), tokenizer)[0]
    [record] = kame_finetune.to_table([row]).to_pylist()
    assert np.shape(record["A"]) == np.shape(record["B"]) == (4, 15)
    assert record["A_oracle_event_frame_pos"] == []
    assert record["A_oracle_pred_offsets"] == [0]


def test_a_folder_that_is_there_is_not_written_into(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="already exists"):
        export_kame_finetune(str(tmp_path), str(tmp_path))


def test_an_export_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_token_rows(tmp_path / "tokens", [golden_row(tmp_path)])

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.write_table", full)
    with pytest.raises(StoreError, match="No space left"):
        export_kame_finetune(str(tmp_path / "tokens"), str(tmp_path / "out"))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["golden.model", "tokens"]
