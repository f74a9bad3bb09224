"""A dialogue's sound by HTTP range, and its peaks."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from fastapi.testclient import TestClient

from dashboard.sounds import PEAKS_PER_S, SPECTRUM_ROWS, measure_peaks, measure_spectrogram, read_dialogue, read_sound
from data_schemas.arrow import to_table
from data_schemas.errors import StoreError
from data_schemas.records import AudioDialogue
from data_schemas.store import Store
from tests.support.dashboards import dialogues, opened
from tests.support.small_datasets import noisy_dialogue

ROWS = [row for shard in dialogues() for row in shard]
PATH = f"/datasets/small/dialogues/{ROWS[1].dialogue_id}"


def test_every_dialogue_has_its_own_sound_and_record(root: Path, client: TestClient) -> None:
    for row in ROWS:
        answer = client.get(f"/datasets/small/dialogues/{row.dialogue_id}/sound")
        assert answer.content == row.flac
        assert answer.headers["Content-Type"] == "audio/flac"


@pytest.mark.parametrize(
    ("wanted", "stretch"),
    [("bytes=0-99", slice(0, 100)), ("bytes=100-", slice(100, None)), ("bytes=-50", slice(-50, None)),
     ("bytes=5-5", slice(5, 6)), ("bytes=90-99999999", slice(90, None))],
)  # fmt: skip
def test_a_range_of_it_is_had(client: TestClient, wanted: str, stretch: slice) -> None:
    sound = ROWS[1].flac
    answer = client.get(f"{PATH}/sound", headers={"Range": wanted})
    start, end, _ = stretch.indices(len(sound))
    assert (answer.status_code, answer.content) == (206, sound[stretch])
    assert answer.headers["Content-Range"] == f"bytes {start}-{end - 1}/{len(sound)}"


@pytest.mark.parametrize(("wanted", "status"), [("bytes=99999999-", 416), ("bytes=9-3", 416), ("bytes=-", 200),
                                                ("bytes=0-1,3-4", 200), ("lines=1-2", 200)])  # fmt: skip
def test_other_ranges_are_refused_or_get_the_whole(client: TestClient, wanted: str, status: int) -> None:
    assert client.get(f"{PATH}/sound", headers={"Range": wanted}).status_code == status


def test_it_is_kept_for_good_only_under_the_contents_fingerprint(root: Path, client: TestClient) -> None:
    fingerprint = opened(root / "small").manifest.fingerprint
    assert "immutable" in client.get(f"{PATH}/sound?of={fingerprint}").headers["Cache-Control"]
    assert client.get(f"{PATH}/sound?of=other").headers["Cache-Control"] == "no-cache"


def test_peaks_are_the_loudest_samples_of_each_channel(client: TestClient) -> None:
    samples, rate = soundfile.read(io.BytesIO(ROWS[1].flac))
    channels = client.get(f"{PATH}/peaks").json()
    width = rate // PEAKS_PER_S
    for channel, peaks in enumerate(channels):
        assert len(peaks) == len(samples) // width
        assert peaks[7] == pytest.approx(np.abs(samples[7 * width : 8 * width, channel]).max(), abs=1e-3)


def test_the_last_piece_of_a_hundredth_counts_too_and_audio_of_no_length_is_silence() -> None:
    short, empty = io.BytesIO(), io.BytesIO()
    soundfile.write(short, np.array([[0.0, 0.0]] * 300 + [[0.5, -0.25]]), 24_000, format="FLAC")
    assert json.loads(measure_peaks(short.getvalue())) == [[0, 0.5], [0, 0.25]]
    soundfile.write(empty, np.zeros((0, 2)), 24_000, format="WAV")  # libsndfile writes no empty FLAC
    assert json.loads(measure_peaks(empty.getvalue())) == [[0], [0]]
    assert measure_spectrogram(empty.getvalue(), 0) == bytes(SPECTRUM_ROWS)


def test_a_spectrogram_is_brightest_at_the_tone_and_dark_where_nobody_speaks(client: TestClient) -> None:
    sink = io.BytesIO()
    time_s = np.arange(24_000) / 24_000
    tone = np.sin(2 * np.pi * 1000 * time_s) * (time_s < 0.5)
    soundfile.write(sink, np.stack([tone, np.zeros(24_000)], axis=1), 24_000, format="FLAC")
    levels, silent = (
        np.frombuffer(measure_spectrogram(sink.getvalue(), channel), np.uint8).reshape(SPECTRUM_ROWS, -1)
        for channel in (0, 1)
    )
    assert levels.shape == (SPECTRUM_ROWS, 100)
    assert (levels[:, 10:40].argmax(axis=0) == SPECTRUM_ROWS - 1 - 1000 // 50).all()
    assert (levels[:, 55:].max(), silent.max()) == (0, 0)
    assert client.get(f"{PATH}/spectrogram/B").content == measure_spectrogram(ROWS[1].flac, 1)
    assert client.get(f"{PATH}/spectrogram/C").status_code == 422


def test_rows_of_later_groups_are_found(tmp_path: Path) -> None:
    rows = [noisy_dialogue(number) for number in range(5)]
    store = Store(str(tmp_path))
    with store.open_for_writing("it.parquet") as sink:
        import pyarrow.parquet as pq

        pq.write_table(to_table(rows, AudioDialogue), sink, row_group_size=2)
    for number, row in enumerate(rows):
        assert read_dialogue(tmp_path / "it.parquet", number, row.dialogue_id) == replace(row, audio=None)
        assert read_sound(tmp_path / "it.parquet", number, row.dialogue_id) == row.flac


def test_a_row_that_is_not_where_the_index_says_is_an_error(root: Path, tmp_path: Path) -> None:
    dataset = opened(root / "small")
    file = dataset.get_file(dataset.manifest.select_kind("data")[0].path)
    with pytest.raises(StoreError, match="does not hold dialogue other"):
        read_sound(file, 0, "other")
    with pytest.raises(StoreError, match="cannot be read"):
        read_sound(file, 99, "other")
    with pytest.raises(StoreError, match="cannot be read"):
        read_sound(tmp_path / "nothing.parquet", 0, "other")
    with pytest.raises(StoreError, match="cannot be decoded"):
        measure_peaks(b"no sound")
