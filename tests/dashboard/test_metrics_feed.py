"""A file of metrics as it grows."""

import json
import math
from pathlib import Path

from dashboard.metrics_feed import N_NOTES, N_POINTS, MetricsFeed, MetricsUpdate
from kame_model.train.logs import METRICS, MetricsLog
from tests.support.training_pages import append, write_lines, write_run


def read(feed: MetricsFeed) -> MetricsUpdate:
    update = feed.read()
    assert update is not None
    return update


def test_all_that_is_there_comes_first_and_then_what_is_new(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    feed = MetricsFeed(run / METRICS)
    first = read(feed)
    assert first.is_anew
    assert first.curves["train"]["step"] == [10, 20, 30, 40, 50]
    assert first.curves["evaluation"]["right.answer"] == [0.5]
    assert feed.read() is None
    append(run, {"kind": "train", "step": 60, "loss": 1.5})
    assert read(feed) == MetricsUpdate(False, {"train": {"step": [60], "loss": [1.5]}}, [], 0)


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / METRICS
    line = json.dumps({"kind": "train", "step": 1, "loss": 2.0}) + "\n"
    path.write_text(line + line[:9])
    feed = MetricsFeed(path)
    assert read(feed).curves["train"]["step"] == [1]
    assert feed.read() is None
    with path.open("a") as file:
        file.write(line[9:])
    assert read(feed) == MetricsUpdate(False, {"train": {"step": [1], "loss": [2]}}, [], 0)


def test_a_run_that_goes_on_from_a_checkpoint_is_told_anew(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    feed = MetricsFeed(run / METRICS)
    read(feed)
    write_lines(run, [40])  # takes out what came after step 39
    update = read(feed)
    assert update.is_anew
    assert update.curves["train"]["step"] == [10, 20, 30, 40]


def test_a_long_file_is_thinned_to_means(tmp_path: Path) -> None:
    n_lines = 5 * N_POINTS + 7
    text = "".join(
        json.dumps({"kind": "train", "step": step, "loss": step % 2}) + "\n" for step in range(1, n_lines + 1)
    )
    (tmp_path / METRICS).write_text(text)
    columns = read(MetricsFeed(tmp_path / METRICS)).curves["train"]
    assert N_POINTS <= len(columns["step"]) < 2 * N_POINTS
    assert columns["loss"][:-1] == [0.5] * (len(columns["loss"]) - 1)
    assert columns["step"][0] == 2.5  # the mean of four
    assert columns["step"][-1] == n_lines - 1  # of the last three


def test_leaps_are_told_with_their_dialogues_and_only_the_newest(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, 0)
    for step in range(N_NOTES + 3):
        log.write("spike", step, {"mean": 1.0, "dialogues": ["<b>"], "loss": math.inf})
    update = read(MetricsFeed(tmp_path / METRICS))
    assert [each["step"] for each in update.notes] == list(range(3, N_NOTES + 3))
    told = json.dumps(update.to_json(), allow_nan=False)
    assert '"dialogues": ["<b>"], "loss": null' in told


def test_damaged_lines_are_counted_and_numbers_that_are_none_left_out(tmp_path: Path) -> None:
    lines = ["{", "[]", '{"kind": 1, "step": 2}', "[" * 100_000]
    good = [{"kind": "train", "step": 3, "loss": math.nan, "text": 1e400, "answer": 1.0, "is_on": True}]
    huge = '{"kind": "train", "step": 4, "answer": ' + "9" * 400 + "}"
    (tmp_path / METRICS).write_text("\n".join([*lines, *map(json.dumps, good), huge, ""]))
    update = read(MetricsFeed(tmp_path / METRICS))
    assert update.n_damaged == 4
    assert update.curves == {"train": {"step": [3], "answer": [1]}}
