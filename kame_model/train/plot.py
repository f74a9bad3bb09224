"""A run's losses as a picture."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data_schemas.store import Store
from kame_model.train.logs import METRICS, read_metrics

PICTURE = "losses.png"
PARTS = ("text", "semantic", "acoustic")
_COLUMNS = {
    "right": ("right oracle", "tab:green"),
    "wrong": ("wrong oracle", "tab:red"),
    "none": ("no oracle", "tab:gray"),
}


def plot_losses(run: str) -> bytes:
    """Writes `losses.png` into a run's folder and returns it: text, semantic and acoustic loss in nats, over steps.

    Validation is drawn with the right oracle, another's and none, where the run looked at it.

    Raises:
        StoreError: the picture cannot be written.
    """
    picture = draw(read_metrics(Path(run) / METRICS))
    Store(run).write_bytes(PICTURE, picture)
    return picture


def draw(lines: Sequence[dict[str, Any]]) -> bytes:
    """A PNG of the lines of a run's metrics; one panel a part of the loss that was measured."""
    from matplotlib.figure import Figure  # no pyplot: it keeps figures and wants a display

    trained = [line for line in lines if line["kind"] == "train"]
    judged = [line for line in lines if line["kind"] == "evaluation"]
    parts = [name for name in PARTS if any(name in line for line in trained)] or [PARTS[0]]
    figure = Figure(figsize=(4.5 * len(parts), 3.2), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(parts), squeeze=False)[0], parts, strict=True):
        own = [(line["step"], line[name]) for line in trained if name in line]
        if own:
            axes.plot(*zip(*own, strict=True), color="tab:blue", linewidth=1, label="training")
        for column, (said, colour) in _COLUMNS.items():
            seen = [(line["step"], line[column][name]) for line in judged if name in line.get(column, {})]
            if seen:
                axes.plot(*zip(*seen, strict=True), color=colour, marker=".", label=f"validation, {said}")
        axes.set_title(name)
        axes.set_xlabel("step")
        axes.set_ylabel("nats")
        axes.legend(fontsize="small")
    sink = io.BytesIO()
    figure.savefig(sink, format="png", dpi=110)
    return sink.getvalue()
