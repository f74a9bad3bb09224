"""Folders of training runs for the dashboard, as `kame train` writes them, without any training."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from data_schemas.free_running import FREE_RUNNING, FreeDialogue, FreeTurn
from kame_model.train.free_samples import FreeRunningLog
from kame_model.train.logs import METRICS, MetricsLog

HOSTILE = "<img src=x onerror=alert(1)>&?#%2e 'run'"
"""A folder's name that no page may take for markup, nor for another address."""


def write_run(folder: Path, n_lines: int = 5, *, is_done: bool = True, **settings: Any) -> Path:
    """Writes the folder of a training run with lines of training every ten steps and one of validation at the end.

    Args:
        n_lines: number of lines of training; if 0, there is no validation either.
        is_done: whether the run has ended.
        settings: settings that replace those in its config.json.
    """
    folder.mkdir(parents=True)
    config = {"stage": "dialogues", "max_steps": 100, "seed": 0, "model": {"preset": "nano"}, **settings}
    (folder / "config.json").write_text(json.dumps({"config": config, "datasets": ["267c804991a38b79"]}))
    write_lines(folder, range(10, 10 * n_lines + 10, 10))
    if n_lines:
        right = {"loss": 2.5, "text": 0.75, "answer": 0.5, "semantic": 1.25}
        wrong = {"loss": 4.0, "text": 2.0, "answer": 7.0}
        MetricsLog(folder, 10 * n_lines).write(
            "evaluation", 10 * n_lines, {"right": right, "wrong": wrong, "none": None}
        )
    if is_done:
        (folder / "DONE").touch()
    return folder


def write_lines(folder: Path, steps: Sequence[int]) -> None:
    """Appends a line of training for each of these steps, as a run that goes on; lines of later steps are removed."""
    log = MetricsLog(folder, steps[0] - 1 if steps else 0)
    for step in steps:
        figures = {"loss": 100 / step, "text": 50 / step, "learning_rate": 1e-4, "frames_per_s": 1400.0}
        log.write("train", step, {**figures, "hours": step / 1000})
    log.close()
    (folder / METRICS).touch()


def append(run: Path, *lines: dict[str, Any], half: str = "") -> None:
    """Appends lines to a run's metrics and then `half`, the beginning of a further line, all in one write."""
    with (run / METRICS).open("a") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines) + half)


def write_free_running(folder: Path, said: Mapping[int, Sequence[str]]) -> None:
    """Writes what the model said to the question of each dialogue, by step; "five" is right.

    The file replaces an earlier one in a single step, so that a reader never finds half of it.
    """
    with tempfile.TemporaryDirectory(dir=folder) as beside:
        log = FreeRunningLog(Path(beside), 0)
        for step, texts in said.items():
            log.write(step, [make_free_dialogue(f"mine-{number}-v0", each) for number, each in enumerate(texts)])
        (Path(beside) / FREE_RUNNING).replace(folder / FREE_RUNNING)  # at once, whoever looks meanwhile


def make_free_dialogue(dialogue_id: str, said: str) -> FreeDialogue:
    """A dialogue in which the model is asked once."""
    delay_s = 0.4 if said else None
    turn = FreeTurn(oracle="it is five", said=said, recorded="well five", is_right=said == "five", delay_s=delay_s)
    return FreeDialogue(dialogue_id=dialogue_id, question="how many clips", turns=[turn])
