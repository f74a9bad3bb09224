"""Prefect flow of a training: datasets to a registered checkpoint, with progress and losses as artifacts.

The tasks are those of `flows/runs/train.py`, in sequence in this process. Prefect's caching is off, because each task
knows what it has done: a run that crashed or was cancelled resumes from its last checkpoint when it is started again
with the same parameters. A cancellation sends SIGTERM: training finishes its step, saves and raises `Stopped`, for
which it has 30 s; Prefect shows the run as cancelled (docs/prefect.md).
"""

import base64
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import flow, get_run_logger
from prefect.artifacts import (
    create_image_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    update_progress_artifact,
)

from data_schemas.config.front_end import EVALUATION, FrontEndConfig
from flows.prefect_tasks import run_as_task
from flows.run_names import make_namer
from flows.runs.tasks import Task
from flows.runs.train import get_stage_folder, run_front_end
from kame_model.evaluate.report.folder import REPORT
from kame_model.train.logs import METRICS, plot_losses

PERCENT_EVERY = 1.0
"""Step of the progress artifact in percent: at most a hundred updates a run."""


def run_and_show(config: FrontEndConfig, each: Task[Any]) -> None:
    """Runs a task as a Prefect task; after a training, also a failed one, plots its losses as an artifact."""

    def run() -> None:
        """Runs the task, and shows the losses of a training, also of one that fails."""
        try:
            each.run()
        finally:
            if each.name == "train":
                _show_losses(config, each.of)

    run_as_task(each, run)


class ShownTrainingProgress:
    """Progress of training as an artifact of its task, and its validation losses in the log."""

    def __init__(self) -> None:
        self._artifact: UUID | None = None
        self._max_steps = 1
        self._shown = 0.0

    def begin(self, step: int, max_steps: int) -> None:
        """Creates the progress artifact of a stage."""
        self._max_steps, self._shown = max_steps, 100 * step / max_steps
        made: Any = create_progress_artifact(self._shown, key="training", description=f"{max_steps} steps")
        self._artifact = made

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """Updates the progress artifact in steps of `PERCENT_EVERY`, and at the last step."""
        percent = 100 * step / self._max_steps
        if self._artifact is not None and (percent >= self._shown + PERCENT_EVERY or step == self._max_steps):
            self._shown = percent
            loss = f"; loss {figures['loss']:.3f}" if "loss" in figures else ""
            update_progress_artifact(self._artifact, percent, f"step {step} of {self._max_steps}{loss}")

    def on_evaluation(self, step: int, evaluation: Mapping[str, Mapping[str, float]]) -> None:
        """Logs the validation loss with each kind of oracle."""
        losses = ", ".join(f"{column} {figures['loss']:.3f}" for column, figures in evaluation.items())
        get_run_logger().info("step %d, validation loss by oracle: %s", step, losses)


@flow(name="train", flow_run_name=make_namer("train"), persist_result=False)
def train(config: FrontEndConfig) -> str:
    """Trains a front-end on datasets, registers its checkpoint and returns its folder. Running it again resumes.

    Args:
        config: Settings: datasets, preset, duration and folders. Paths are as the worker sees them.
    """
    made = run_front_end(config, ShownTrainingProgress(), run_task=partial(run_and_show, config))
    if made.figures:
        report = (config.of_seed / EVALUATION / REPORT).read_text(encoding="utf-8")
        create_markdown_artifact(report, key="evaluation", description=Path(made.checkpoint).name)
    card = Path(made.checkpoint) / "README.md"
    text = card.read_text(encoding="utf-8").split("\n---\n", 1)[-1]
    create_markdown_artifact(text, key="checkpoint-card", description=made.checkpoint)
    return made.checkpoint


def _show_losses(config: FrontEndConfig, stage: str) -> None:
    """Plots a stage's losses so far to a file in its folder and an image artifact; nothing if there are no metrics."""
    folder = get_stage_folder(config, stage)
    if not (folder / METRICS).exists():
        return
    picture = base64.b64encode(plot_losses(str(folder))).decode()
    create_image_artifact(
        f"data:image/png;base64,{picture}", key=f"losses-{stage}", description=f"Losses of {folder}, in nats"
    )
