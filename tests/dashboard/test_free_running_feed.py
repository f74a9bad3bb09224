"""The texts of free running of a training run, as they are replaced."""

from collections.abc import Sequence
from pathlib import Path

import pytest

import dashboard.free_running
from dashboard.free_running import MOST_STEPS, FreeRunningFeed, FreeRunningUpdate
from data_schemas.free_running import FREE_RUNNING
from tests.support.training_pages import write_free_running


def read(feed: FreeRunningFeed) -> FreeRunningUpdate:
    update = feed.read()
    assert update is not None
    return update


def told(update: FreeRunningUpdate) -> list[tuple[int, Sequence[str]]]:
    return [(step, [each.turns[0].said for each in lines]) for step, lines in update.steps]


def test_the_newest_step_comes_first_and_again_whenever_the_file_changes(tmp_path: Path) -> None:
    feed = FreeRunningFeed(tmp_path)
    assert feed.read() is None
    write_free_running(tmp_path, {100: ["", "five"], 200: ["six"]})
    assert told(read(feed)) == [(200, ["six"]), (100, ["", "five"])]
    assert feed.read() is None
    write_free_running(tmp_path, {100: ["", "five"]})  # gone on with from an earlier checkpoint
    assert told(read(feed)) == [(100, ["", "five"])]
    (tmp_path / FREE_RUNNING).unlink()
    assert told(read(feed)) == []
    assert feed.read() is None


def test_only_the_newest_steps_are_told(tmp_path: Path) -> None:
    write_free_running(tmp_path, {step: ["five"] for step in range(MOST_STEPS + 3)})
    update = read(FreeRunningFeed(tmp_path))
    assert [step for step, _ in update.steps] == list(range(MOST_STEPS + 2, 2, -1))
    assert update.n_left_out == 3


def test_damaged_lines_are_counted(tmp_path: Path) -> None:
    write_free_running(tmp_path, {100: ["five"]})
    with (tmp_path / FREE_RUNNING).open("ab") as file:
        file.write(b'{\n[]\n{"step": 1}\n' + b"[" * 100_000 + b"\n\xff\n")
    update = read(FreeRunningFeed(tmp_path))
    assert (told(update), update.n_damaged) == ([(100, ["five"])], 5)


def test_of_a_huge_file_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_free_running(tmp_path, {step: ["five"] for step in range(10)})
    n_bytes = len((tmp_path / FREE_RUNNING).read_bytes())
    monkeypatch.setattr(dashboard.free_running, "_MOST_BYTES", n_bytes // 2)
    update = read(FreeRunningFeed(tmp_path))
    assert [step for step, _ in update.steps] == [9, 8, 7, 6]
    assert update.n_damaged == 0
