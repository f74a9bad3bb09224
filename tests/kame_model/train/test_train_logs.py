"""What a run tells: figures over windows of steps, leaps of the loss, and its files of metrics."""

import random
from dataclasses import asdict
from pathlib import Path

import pytest

from data_schemas.errors import StoreError
from kame_model.train.curves import TensorBoard
from kame_model.train.logs import METRICS, N_COUNTS, MetricsLog, SpikeWatch, Window, read_metrics

pytestmark = pytest.mark.full

NO_CHANGES = [0.0] * N_COUNTS


def test_a_leap_of_the_loss_is_told_and_a_slow_fall_is_not() -> None:
    watch, draw = SpikeWatch(deviations=6.0), random.Random(0)
    assert not any(watch.is_spike(5.0 - step / 200 + draw.gauss(0, 0.05)) for step in range(300))
    assert watch.is_spike(6.0)


def test_a_window_tells_means_over_its_steps() -> None:
    window, text = Window(), [6.0, 3.0] + [0.0] * (len(Window().tallies) - 2)
    assert window.compute_figures() == {}
    window.add(2.0, 0.5, NO_CHANGES, text)
    window.add(4.0, 1.0, NO_CHANGES, text)
    assert window.compute_figures() == {"loss": 3.0, "gradient_norm": 0.75, "text": 2.0}
    window.add(3.0, 0.75, [8.0, 4.0, 0.0, 3.0, 1.0, 6.0, 2.0], text)
    shares = {"swapped": 0.5, "substituted": 0.0, "reframed": 0.375, "stalled": 0.125}
    shares |= {"delayed": 0.75, "corrected": 0.25}
    assert window.compute_figures() == {"loss": 3.0, "gradient_norm": 0.75, "text": 2.0, **shares}
    assert Window(**asdict(window)) == window


def test_metrics_after_the_step_that_is_gone_on_from_are_forgotten(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, 0)
    for step in range(1, 6):
        log.write("train", step, {"loss": 1 / step})
    with (tmp_path / METRICS).open("a") as file:
        file.write('{"kind": "train", "st')  # killed in the middle of a line
    MetricsLog(tmp_path, 3).write("train", 4, {"loss": 0.1})
    kept = [(line["step"], line["loss"]) for line in read_metrics(tmp_path / METRICS)]
    assert kept == [(1, 1), (2, 0.5), (3, 1 / 3), (4, 0.1)]


def test_tensorboard_has_the_numbers_too(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = MetricsLog(tmp_path, 0, [TensorBoard(tmp_path, 0)])
    log.write("evaluation", 7, {"right": {"loss": 2.5}, "said": "text"})
    log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(each.step, each.value) for each in events.Scalars("evaluation/right/loss")] == [(7, 2.5)]


def test_a_file_in_the_place_of_tensorboards_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "tensorboard").write_text("not a folder")
    with pytest.raises(StoreError, match=r"Cannot write .*tensorboard: File exists"):
        TensorBoard(tmp_path, 0)
