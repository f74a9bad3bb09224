"""Prefect flow of an evaluation; its kind is a parameter, and its report and plots are artifacts of the run.

It has one task, named after the kind, with a progress artifact. Prefect's caching is off, because an evaluation stores
each finished item: a run that crashed or was cancelled resumes when it is started again with the same parameters.
"""

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import (
    create_image_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    update_progress_artifact,
)

from data_schemas.config.evaluate import EvaluateConfig
from flows.prefect_tasks import run_as_task
from flows.run_names import make_namer
from flows.runs.evaluate import make_evaluation_tasks
from flows.runs.tasks import run_tasks
from kame_model.evaluate.report.folder import PLOTS, REPORT

PERCENT_EVERY = 1.0
"""Step of the progress artifact in percent: at most a hundred updates."""


@contextmanager
def show_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Shows progress as an artifact of the Prefect task (see `kame_model.evaluate.calls.run.Counting`).

    Yields a function that adds a number of finished items.
    """
    made: Any = create_progress_artifact(0.0, key=f"progress-{what}", description=f"{what}: {total}")
    n_done, shown = 0, 0.0

    def advance(n: int) -> None:
        """Counts `n` finished items, and updates the artifact in steps of `PERCENT_EVERY` and at the last item."""
        nonlocal n_done, shown
        n_done += n
        percent = 100 * n_done / max(1, total)
        if percent >= shown + PERCENT_EVERY or n_done >= total:
            shown = percent
            update_progress_artifact(made, min(100.0, percent), f"{what}: {n_done} of {total}")

    yield advance


@flow(name="evaluate", flow_run_name=make_namer("evaluate"), persist_result=False)
def evaluate(config: EvaluateConfig) -> list[dict[str, Any]]:
    """Evaluates a front-end and returns the rows of its figures. Running it again resumes.

    Args:
        config: Settings of the evaluation. Paths are as the worker sees them; keys are read from its environment.
    """
    asks_chat = config.kind != "recall"  # the others call a server, and a judge
    rows = run_tasks(make_evaluation_tasks(config, show_progress), partial(run_as_task, asks_chat=asks_chat))
    out = Path(config.out)
    report = (out / REPORT).read_text(encoding="utf-8")
    create_markdown_artifact(report, key="report", description=f"{config.kind} of {config.checkpoint}, {config.out}")
    for plot in sorted((out / PLOTS).glob("*.png")):
        picture = base64.b64encode(plot.read_bytes()).decode()
        key = plot.stem.replace("_", "-").lower()
        create_image_artifact(f"data:image/png;base64,{picture}", key=key, description=str(plot))
    return rows
