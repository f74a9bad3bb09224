"""From a server's recordings to a dataset that everything else reads."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from data_schemas.arrow import from_table, to_table
from data_schemas.config import ChatConfig, OracleConfig, PartConfig, RefreshConfig, SourceConfig
from data_schemas.errors import ConfigError, SourceError
from data_schemas.manifest import REJECTS
from data_schemas.reader import DatasetReader
from data_schemas.records import AudioDialogue, OracleRow, RecordedSession, Reject
from data_schemas.store import Store
from flows.runs.refresh import run_recordings
from kame_model.encode.run import encode_dataset
from pipelines.quality.check import check_dataset
from tests.support.recorded import EGGS, MODE, NOTICE, Line, record, speech_of
from tests.support.runs import Silent, answers, contents
from tests.support.small_datasets import encode_settings
from tests.support.vocabularies import make_vocabulary

pytestmark = pytest.mark.full

SECRET = (Line("B", 0.5, "My sister has seven parrots."), Line("A", 3.2, "What a lovely family."))


def config_for(tmp_path: Path, **fields: object) -> RefreshConfig:
    values: dict[str, object] = {
        "out": str(tmp_path / "dataset"),
        "sources": [SourceConfig(name="recordings", path=str(tmp_path / "kept"))],
        "workers": 1,
        "parts": PartConfig(dialogues_per_part=1),
        "chat": ChatConfig(engine="double", max_in_flight=4),
        "oracle": OracleConfig(interval_s=0.5),
    }
    return RefreshConfig.model_validate(values | fields)


def make(config: RefreshConfig) -> DatasetReader:
    run_recordings(config, Silent())
    return DatasetReader(config.out)


def rows_of(config: RefreshConfig, record: type[Any], kind: str) -> list[Any]:
    reader = DatasetReader(config.out)
    tables = [reader.store.read_table(entry.path) for entry in reader.manifest.select_kind(kind)]
    return [row for table in tables for row in from_table(table, record)]


def dialogues_of(config: RefreshConfig) -> list[AudioDialogue]:
    return rows_of(config, AudioDialogue, "data")


def oracles_of(config: RefreshConfig) -> list[OracleRow]:
    return rows_of(config, OracleRow, "oracle")


def rejects_of(config: RefreshConfig) -> list[tuple[str, str]]:
    return [(row.item_id, row.reason) for row in rows_of(config, Reject, REJECTS)]


def holds(folder: Path, words: str) -> list[str]:
    """Files of a dataset and its store in which some words stand: in their bytes, or in a Parquet file's text."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            text = path.read_bytes().decode("utf-8", "ignore")
            if path.suffix == ".parquet":
                text = str(Store(str(folder)).read_table(str(path.relative_to(folder))).to_pylist())
            if words in text:
                found.append(str(path.relative_to(folder)))
    return found


def test_recordings_become_a_dataset_with_every_word_timed_and_oracles_which_is_encoded(tmp_path: Path) -> None:
    record(tmp_path / "kept", {"one": EGGS})
    config = config_for(tmp_path)
    make(config)
    assert check_dataset(config.out).faults == []
    (row,) = dialogues_of(config)
    assert [turn.speaker for turn in row.turns] == ["B", "A", "B", "A"]
    assert row.turns[2].written_text == "And if I sell 9 of them?"
    assert row.turns[2].spoken_text == "And if I sell nine of them?"
    for turn, line in zip(row.turns, EGGS, strict=True):
        starts_s = [line.start_s + word.start_s for word in speech_of(line.speaker, line.text).words]
        found_s = [word.start_s for utterance in turn.utterances for word in utterance.words]
        shift_s = row.turns[0].utterances[0].words[0].start_s - EGGS[0].start_s  # where the dialogue was cut out
        assert found_s == pytest.approx([start_s + shift_s for start_s in starts_s], abs=0.12)
    assert (row.form, row.provenance.voice_a, row.provenance.voice_b) == ("recorded", "kame-nano", "caller")
    assert "somebody" not in str(replace(row, audio=None))  # no path of the server's machine
    (oracle,) = oracles_of(config)
    truths = [event.text for event in oracle.events if event.status == "truth"]
    assert truths == ["We still have eighteen brown eggs today.", "Then you have nine eggs."]
    consents = (Path(config.out) / "consents" / "recordings.jsonl").read_text().splitlines()
    consent = {"session_id": "one", "consented_at": "2026-05-01T12:00:00+00:00", "notice": NOTICE}
    assert [json.loads(line) for line in consents] == [consent]
    encoded = encode_dataset(encode_settings(Path(config.out), str(make_vocabulary(tmp_path / "vocabulary").path)))
    assert (encoded.counts.n_rows, encoded.counts.n_events) == (1, len(oracle.events))


def test_running_again_changes_nothing_and_other_oracles_and_recordings_no_old_file(
    tmp_path: Path,
) -> None:
    record(tmp_path / "kept", {"one": EGGS})
    config = config_for(tmp_path)
    make(config)
    first = contents(Path(config.out))
    make(config)
    assert contents(Path(config.out)) == first
    data = {name: content for name, content in first.items() if name.startswith(("data/", "oracles/", ".store/parts"))}
    make(config.model_copy(update={"oracle": OracleConfig(version="other", interval_s=1.0)}))
    assert data.items() <= contents(Path(config.out)).items()
    assert check_dataset(config.out).faults == []
    record(tmp_path / "kept", {"two": SECRET})
    make(config)
    assert len(dialogues_of(config)) == 2
    assert data.items() <= contents(Path(config.out)).items()
    assert check_dataset(config.out).faults == []


@pytest.mark.parametrize(("others", "limit"), [({}, None), ({"one": EGGS}, None), ({"one": EGGS}, 1)])
def test_of_a_deleted_recording_nothing_is_left(
    tmp_path: Path, others: dict[str, Sequence[Line]], limit: int | None
) -> None:
    record(tmp_path / "kept", {"two": SECRET, **others})
    config = config_for(tmp_path, parts=PartConfig(dialogues_per_part=16))
    make(config)
    make(config.model_copy(update={"oracle": OracleConfig(version="other")}))
    make(config)
    texts = {row.dialogue_id: {event.raw_text for event in row.events} for row in oracles_of(config)}
    own = texts.pop("recordings-two-v0").difference(*texts.values(), [None])
    assert own
    assert holds(Path(config.out), "parrots")
    assert all(holds(Path(config.out), str(answer)) for answer in own)
    (tmp_path / "kept" / "two.parquet").unlink()
    make(config.model_copy(update={"limit": limit}))
    assert holds(Path(config.out), "parrots") == []
    assert [holds(Path(config.out), str(answer)) for answer in own] == [[] for _ in own]
    assert len(dialogues_of(config)) == len(others)
    assert check_dataset(config.out).faults == []


@pytest.mark.parametrize("oracle", [{"wanted_words": [25] * 5}, {"min_words": 25, "wanted_words": [25] * 5}])
def test_no_answer_about_a_deleted_recording_is_left_that_became_no_oracle(
    tmp_path: Path, oracle: dict[str, Any]
) -> None:
    """Asked again because it was too short, or of a dialogue that was rejected because all were."""
    config = config_for(tmp_path, oracle=OracleConfig(interval_s=0.5, **oracle))
    record(tmp_path / "kept", {"one": EGGS})
    make(config)
    without = answers(Path(config.out))
    record(tmp_path / "kept", {"two": SECRET})
    make(config)
    named = {event.request_id for row in oracles_of(config) for event in row.events}
    assert len(answers(Path(config.out))) > len(without) > len(named & {row[0][:20] for row in without})
    (tmp_path / "kept" / "two.parquet").unlink()
    make(config)
    assert answers(Path(config.out)) == without


def test_a_long_session_is_cut_where_nobody_speaks(tmp_path: Path) -> None:
    later = [replace(line, start_s=line.start_s + 115.0) for line in EGGS]
    record(tmp_path / "kept", {"one": [*EGGS, *later]})
    config = config_for(tmp_path)
    make(config)
    rows = dialogues_of(config)
    assert [row.dialogue_id for row in rows] == ["recordings-one-v0", "recordings-one-v1"]
    assert [len(row.turns) for row in rows] == [4 + 2, 2]
    assert check_dataset(config.out).faults == []


def test_who_spoke_for_the_server_stands_in_each_row(tmp_path: Path) -> None:
    later = [replace(line, start_s=line.start_s + 4.0) for line in EGGS[2:]]
    record(tmp_path / "kept", {"one": [*EGGS[:2], Line(MODE, 9.0, "cascade"), *later]})
    config = config_for(tmp_path)
    make(config)
    spoke = [(row.provenance.voice_a, row.provenance.tts) for row in dialogues_of(config)]
    assert spoke == [("kame-nano", "kame serve, tandem"), ("espeak/en-us", "kame serve, cascade")]
    assert check_dataset(config.out).faults == []


def test_what_cannot_be_used_is_refused_with_its_reason(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    sessions: dict[str, Sequence[Line]] = {
        "good": EGGS,
        "garbled": [EGGS[0], Line("A", 2.6, "Nine eggs remain then.", "Upon Madagascar sat Beethoven.")],
        "mute": [Line("B", 0.5, "Is anybody there?")],
        "unasked": [Line("A", 0.5, "Hello there my friend.")],
        "code": [replace(EGGS[0], written="How many eggs are left? <table>"), EGGS[1]],
        "swapped": [EGGS[0], EGGS[1], Line(MODE, 3.0, "cascade")],
        "late": [EGGS[1], replace(EGGS[0], start_s=9.0)],
    }
    record(kept, sessions)
    (kept / "damaged.parquet").write_bytes(b"no recording")
    config = config_for(tmp_path)
    make(config)
    assert [row.item_id for row in dialogues_of(config)] == ["recordings-good"]
    rejects = dict(rejects_of(config))
    assert rejects.pop("recordings-garbled") in ("words_not_found", "score_low", "not_sound")
    assert rejects == {
        "recordings-damaged": "damaged",
        "recordings-mute": "nothing_said",
        "recordings-unasked": "nothing_heard",
        "recordings-code": "markup",
        "recordings-swapped": "mode_changed",
        "recordings-late": "no_exchange",
    }
    assert check_dataset(config.out).faults == []


def test_a_recording_that_was_changed_is_not_taken_for_the_one_that_was_read(tmp_path: Path) -> None:
    record(tmp_path / "kept", {"one": EGGS})
    config = config_for(tmp_path)
    make(config)
    store = Store(str(tmp_path / "kept"))
    (session,) = from_table(store.read_table("one.parquet"), RecordedSession)
    store.write_table("one.parquet", to_table([replace(session, notice="never told")], RecordedSession))
    changed = config.model_copy(update={"seed": 7})  # so that it is made anew
    make(changed)
    assert rejects_of(changed) == [("recordings-one", "not_read")]


def test_a_question_of_an_evaluation_set_is_kept_out(tmp_path: Path) -> None:
    record(tmp_path / "kept", {"one": EGGS, "two": SECRET})
    (tmp_path / "bench.jsonl").write_text(json.dumps({"question": "how many eggs are left"}) + "\n")
    config = config_for(tmp_path, evaluation_sets=[str(tmp_path / "bench.jsonl")])
    make(config)
    assert [row.item_id for row in dialogues_of(config)] == ["recordings-two"]
    assert rejects_of(config) == [("recordings-one", "contaminated")]


@pytest.mark.parametrize("folder", ["missing", "empty"])
def test_a_folder_without_recordings_is_an_error(tmp_path: Path, folder: str) -> None:
    (tmp_path / "empty").mkdir()
    config = config_for(tmp_path, sources=[SourceConfig(name="recordings", path=str(tmp_path / folder))])
    with pytest.raises(SourceError, match="recordings"):
        make(config)
    assert not (tmp_path / "dataset").exists()


def test_two_folders_at_once_are_an_error(tmp_path: Path) -> None:
    both = [SourceConfig(name=name, path=str(tmp_path)) for name in ("recordings", "others")]
    with pytest.raises(ConfigError, match="one folder"):
        make(config_for(tmp_path, sources=both))
