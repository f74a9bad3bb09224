"""An export opens with moshi-finetune's own reader of folders, and holds the dataset's words at their times."""

import json
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest
import soundfile
import sphn

from data_schemas.errors import DatasetError, StoreError
from data_schemas.reader import DatasetReader
from data_schemas.records import AudioDialogue
from pipelines.audio import decode_flac
from pipelines.export import moshi_finetune
from pipelines.export.moshi_finetune import MoshiFinetuneExport, export_moshi_finetune


@pytest.fixture(scope="module")
def exported(made: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, MoshiFinetuneExport]:
    out = tmp_path_factory.mktemp("export") / "moshi"
    return out, export_moshi_finetune(str(made), str(out))


def rows(made: Path) -> list[AudioDialogue]:
    return list(DatasetReader(str(made)).iterate_dialogues())


def lines(out: Path) -> Iterator[tuple[Path, float]]:
    for manifest in sorted(out.glob("*.jsonl")):
        for line in manifest.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            yield manifest.parent / entry["path"], entry["duration"]


def test_every_dialogue_is_listed_in_its_split_for_kyutais_reader(
    made: Path, exported: tuple[Path, MoshiFinetuneExport]
) -> None:
    out, counts = exported
    listed = {path.relative_to(out).with_suffix("").as_posix() for path, _ in lines(out)}
    assert listed == {f"{row.split}/{row.dialogue_id}" for row in rows(made)}
    assert sum(counts.dialogues.values()) == len(listed)
    assert counts.audio_s == pytest.approx(sum(duration for _, duration in lines(out)), abs=0.01)
    """`sphn.dataset_jsonl` is what moshi-finetune reads its lists with; paths count from the list's folder."""
    manifest = exported[0] / "train.jsonl"
    n_lines = len(manifest.read_text(encoding="utf-8").splitlines())
    read = list(sphn.dataset_jsonl(str(manifest), duration_sec=5.0, num_threads=1, sample_rate=24_000).seq())
    assert len({sample["path"] for sample in read}) == n_lines
    assert all(np.asarray(sample["data"]).shape[0] == 2 for sample in read)


def test_sound_is_the_datasets_and_words_are_at_their_times(
    made: Path, exported: tuple[Path, MoshiFinetuneExport]
) -> None:
    for row in rows(made):
        sound, rate_hz = soundfile.read(exported[0] / row.split / f"{row.dialogue_id}.wav", dtype="float32")
        assert (rate_hz, sound.shape) == (24_000, (row.n_samples, 2))
        assert np.array_equal(sound, decode_flac(row.flac))
        told = json.loads((exported[0] / row.split / f"{row.dialogue_id}.json").read_text(encoding="utf-8"))
        for key, speaker, label in (("alignments", "A", "SPEAKER_MAIN"), ("user_alignments", "B", "SPEAKER_USER")):
            words = [
                [word.word, [word.start_s, word.end_s], label]
                for turn in row.turns
                if turn.speaker == speaker
                for utterance in turn.utterances
                for word in utterance.words
            ]
            assert told[key] == sorted(words, key=itemgetter(1))
            assert told[key]


def test_flagged_dialogues_are_left_out_and_counted(dataset: Path, tmp_path: Path) -> None:
    flagged = rows(dataset)[0].dialogue_id
    (dataset / "flags.jsonl").write_text(json.dumps({"dialogue_id": flagged, "reason": "hiss", "time": "now"}) + "\n")
    counts = export_moshi_finetune(str(dataset), str(tmp_path / "out"))
    assert counts.n_flagged == 1
    assert flagged not in {path.stem for path, _ in lines(tmp_path / "out")}


def test_no_dataset_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="is not a dataset"):
        export_moshi_finetune(str(tmp_path), str(tmp_path / "out"))


def test_an_export_that_fails_leaves_nothing(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(flac: bytes, path: Path) -> None:
        raise StoreError("no room", "make room")

    monkeypatch.setattr(moshi_finetune, "save_wav", full)
    with pytest.raises(StoreError, match="no room"):
        export_moshi_finetune(str(made), str(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []
