"""An evaluation as a Prefect flow: its kind is a parameter, its report and its pictures are the run's artifacts.

One task, named after the kind, whose progress is an artifact too. Prefect's own caching is off: an evaluation keeps
each item as it is finished, so that a run that crashed, or was cancelled, goes on behind them when it is started again
with the same parameters.
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
from kame_model.evaluate.report import PLOTS, REPORT

PERCENT_EVERY = 1.0
"""The progress artifact moves by so much: a hundred updates at most."""


@contextmanager
def show_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """What is counted as an artifact of its task (`kame_model.evaluate.served.Counting`)."""
    made: Any = create_progress_artifact(0.0, key=f"progress-{what}", description=f"{what}: {total}")
    n_done, shown = 0, 0.0

    def advance(n: int) -> None:
        nonlocal n_done, shown
        n_done += n
        percent = 100 * n_done / max(1, total)
        if percent >= shown + PERCENT_EVERY or n_done >= total:
            shown = percent
            update_progress_artifact(made, min(100.0, percent), f"{what}: {n_done} of {total}")

    yield advance


@flow(name="evaluate", flow_run_name=make_namer("evaluate"), persist_result=False)
def evaluate(config: EvaluateConfig) -> list[dict[str, Any]]:
    """Evaluates a front-end; the rows of its figures. Running again goes on where it stopped.

    Args:
        config: What is evaluated, and how. Paths are as the worker sees them; keys come from its environment.
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
