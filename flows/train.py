"""The training as a Prefect flow: datasets to a registered checkpoint, with progress and losses to look at.

The flow run's tasks are the steps of `flows/runs/front_end.py`, one after the other in this process; Prefect's own
caching is off, because each step knows what it has done: a run that crashed, or was cancelled, goes on from its last
checkpoint when it is started again with the same parameters. To cancel is to stop: at the worker's SIGTERM training
finishes its step, saves and raises `Stopped`, for which it has 30 s; Prefect shows the run as cancelled
(docs/prefect.md).
"""

import base64
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

# Prefect reads these when it is imported.
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")

from data_schemas.errors import BackendError

try:
    from prefect import flow, get_run_logger, task
    from prefect.artifacts import (
        create_image_artifact,
        create_markdown_artifact,
        create_progress_artifact,
        update_progress_artifact,
    )
    from prefect.cache_policies import NO_CACHE
except ModuleNotFoundError as error:
    raise BackendError("Prefect is not installed.", "Type: pip install 'kame-pipeline[flows]'") from error

from data_schemas.config.front_end import EVALUATION, FrontEndConfig
from data_schemas.config.training import TrainConfig
from flows.cli.evaluate import hearing
from flows.runs import front_end
from kame_model.checkpoint.kame_json import KameJson
from kame_model.evaluate.figures import ConditionFigures
from kame_model.evaluate.run import REPORT
from kame_model.train.logs import METRICS, plot_losses
from kame_model.train.run import RunResult
from kame_model.train.trainer import Progress

PERCENT_EVERY = 1.0
"""The progress artifact moves by so much: a hundred updates a run, however many steps."""


@task(name="text", task_run_name="text", cache_policy=NO_CACHE, persist_result=False)
def make_text(config: FrontEndConfig) -> str:
    """The vocabulary."""
    return front_end.make_text(config)


@task(name="codec", task_run_name="codec", cache_policy=NO_CACHE, persist_result=False)
def make_codec(config: FrontEndConfig, on_step: Callable[..., None]) -> dict[str, str]:
    """The codec."""
    return front_end.make_codec(config, on_step)


@task(name="encode", task_run_name="encode {name}", cache_policy=NO_CACHE, persist_result=False)
def encode(
    config: FrontEndConfig, name: str, tokenizer: str, codec: dict[str, str], on_rows: Callable[[int], None]
) -> str:
    """One dataset's token rows."""
    return front_end.encode(config, name, tokenizer, codec, on_rows)


@task(name="train", task_run_name="train {config.stage}", cache_policy=NO_CACHE, persist_result=False)
def run_training(config: TrainConfig, progress: Progress) -> RunResult:
    """One stage of training, with a progress artifact, and the losses as a picture when it ends."""
    try:
        return front_end.run_training(config, progress)
    finally:
        _show_losses(config)


@task(name="export", task_run_name="export", cache_policy=NO_CACHE, persist_result=False)
def export(config: FrontEndConfig, tokenizer: str, codec: dict[str, str]) -> str:
    """The checkpoint's folder."""
    return front_end.export(config, tokenizer, codec)


@task(name="evaluate", task_run_name="evaluate", cache_policy=NO_CACHE, persist_result=False)
def evaluate(
    config: FrontEndConfig, checkpoint: str, rows: str, hear: Any, on_batch: Callable[[int], None]
) -> list[ConditionFigures]:
    """Held-out dialogues, run freely."""
    figures = front_end.evaluate(config, checkpoint, rows, hear, on_batch)
    report = config.of_seed / EVALUATION / REPORT
    if figures:
        create_markdown_artifact(report.read_text(encoding="utf-8"), key="evaluation", description=checkpoint)
    return figures


@task(name="register", task_run_name="register", cache_policy=NO_CACHE, persist_result=False)
def register(config: FrontEndConfig, name: str, figures: Sequence[ConditionFigures]) -> KameJson:
    """The checkpoint's entry in the index."""
    return front_end.register_checkpoint(config, name, figures)


AS_TASKS = front_end.Steps(
    make_text=make_text,
    make_codec=make_codec,
    encode=encode,
    run_training=run_training,
    export=export,
    evaluate=evaluate,
    register=register,
)


class ShownProgress:
    """Training's progress as an artifact of its task, and its looks at validation in the log."""

    def __init__(self) -> None:
        self._artifact: UUID | None = None
        self._max_steps = 1
        self._shown = 0.0

    def begin(self, step: int, max_steps: int) -> None:
        """Makes the artifact of this stage."""
        self._max_steps, self._shown = max_steps, 100 * step / max_steps
        made: Any = create_progress_artifact(self._shown, key="training", description=f"{max_steps} steps")
        self._artifact = made

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """Moves the artifact, a hundred times a run."""
        percent = 100 * step / self._max_steps
        if self._artifact is not None and (percent >= self._shown + PERCENT_EVERY or step == self._max_steps):
            self._shown = percent
            loss = f"; loss {figures['loss']:.3f}" if "loss" in figures else ""
            update_progress_artifact(self._artifact, percent, f"step {step} of {self._max_steps}{loss}")

    def evaluated(self, step: int, evaluation: Mapping[str, Mapping[str, float]]) -> None:
        """One line of the log."""
        told = ", ".join(f"{column} {figures['loss']:.3f}" for column, figures in evaluation.items())
        get_run_logger().info("step %d, validation loss by oracle: %s", step, told)


@flow(name="train", persist_result=False)
def train(config: FrontEndConfig) -> str:
    """Trains a front-end on datasets and registers its checkpoint. Running again goes on where it stopped.

    Args:
        config: On what, how long, and where to. Paths are as the worker sees them.
    """
    told = front_end.Told(training=ShownProgress())
    made = front_end.run_front_end(config, told, AS_TASKS, hearing() if config.listen else None)
    card = Path(made.checkpoint) / "README.md"
    text = card.read_text(encoding="utf-8").split("\n---\n", 1)[-1]
    create_markdown_artifact(text, key="checkpoint-card", description=made.checkpoint)
    return made.checkpoint


def _show_losses(config: TrainConfig) -> None:
    """The losses so far, however training ended; nothing where it ended before its first line."""
    if not (Path(config.out) / METRICS).exists():
        return
    picture = base64.b64encode(plot_losses(config.out)).decode()
    create_image_artifact(
        f"data:image/png;base64,{picture}", key=f"losses-{config.stage}", description=f"Losses of {config.out}, in nats"
    )
