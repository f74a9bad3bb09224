"""Logs of a training run: `metrics.jsonl`, loss spikes and the plot of losses."""

import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist

from data_schemas.config.training import KINDS, Kind
from data_schemas.errors import StoreError
from data_schemas.store import Store
from kame_model.data.loader import AugmentationCounts, MicroBatch
from kame_model.model.loss import METRICS as LOSS_METRICS
from kame_model.model.loss import compute_means
from kame_model.train.curves import Curves, flatten_numbers
from kame_model.train.parallel import Processes

N_TALLIES = 2 * len(LOSS_METRICS)
N_COUNTS = len(AugmentationCounts._fields)
_MEMORY = 50
PREFIXES: Final[dict[Kind, str]] = {"dialogues": "dialogue_", "speech": "speech_", "copying": "copy_"}
"""Prefixes of the figures of steps of another kind than the run's main one."""

METRICS = "metrics.jsonl"
PICTURE = "losses.png"
_PARTS = ("text", "semantic", "acoustic")
_COLUMNS = {
    "right": ("right oracle", "tab:green"),
    "wrong": ("wrong oracle", "tab:red"),
    "none": ("no oracle", "tab:gray"),
}


class MetricsLog:
    """A run's `metrics.jsonl`: one object per line, each with `kind` and `step`; the numbers are also drawn as curves.

    Args:
        folder: folder of the run.
        step: number of steps done; lines of later steps, which a killed run wrote, are removed.
        curves: where the numbers are also drawn.

    Raises:
        StoreError: the file cannot be written.
    """

    def __init__(self, folder: Path, step: int, curves: Sequence[Curves] = ()) -> None:
        self._path = folder / METRICS
        self._remove_after(step)
        self._curves = curves

    def write(self, kind: str, step: int, figures: Mapping[str, Any]) -> None:
        """Writes one line; its numbers, including nested ones, are drawn as `kind/name`.

        Raises:
            StoreError: the file cannot be written.
        """
        line = json.dumps({"kind": kind, "step": step, **figures}, ensure_ascii=False)
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            for each in self._curves:
                each.write(step, flatten_numbers(figures, kind))
        except OSError as error:
            raise StoreError(
                f"Cannot write {self._path}: {error.strerror or error}.",
                "Free disk space or check the permissions, then run the same command again to resume.",
            ) from error

    def close(self) -> None:
        """Closes the curves, which write what they buffer."""
        for each in self._curves:
            each.close()

    def _remove_after(self, step: int) -> None:
        """Removes the lines of later steps."""
        if self._path.exists():
            kept = [json.dumps(line, ensure_ascii=False) for line in read_metrics(self._path) if line["step"] <= step]
            Store(str(self._path.parent)).write_bytes(METRICS, "".join(f"{line}\n" for line in kept).encode())


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Reads all complete lines of an existing `metrics.jsonl`; an incomplete last line, of a killed run, is ignored."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines]


@dataclass(slots=True)
class Window:
    """Sums over the steps of one kind since the last line of metrics.

    Attributes:
        n_steps: number of steps.
        loss, gradient_norm: sums of their values.
        counts: sums of `AugmentationCounts`.
        tallies: sums and counts of `LossParts.tallies`, flattened.
    """

    n_steps: int = 0
    loss: float = 0.0
    gradient_norm: float = 0.0
    counts: list[float] = field(default_factory=lambda: [0.0] * N_COUNTS)
    tallies: list[float] = field(default_factory=lambda: [0.0] * N_TALLIES)

    def add(self, loss: float, gradient_norm: float, counts: list[float], tallies: list[float]) -> None:
        """Adds the values of a step to the sums."""
        self.n_steps += 1
        self.loss += loss
        self.gradient_norm += gradient_norm
        self.counts = [one + other for one, other in zip(self.counts, counts, strict=True)]
        self.tallies = [one + other for one, other in zip(self.tallies, tallies, strict=True)]

    def compute_figures(self) -> dict[str, float]:
        """Returns means over the steps, and the shares of augmented examples; empty if there was no step."""
        if not self.n_steps:
            return {}
        n_examples, *changed = self.counts
        shares = zip(AugmentationCounts._fields[1:], changed, strict=True) if n_examples else ()
        return {
            "loss": self.loss / self.n_steps,
            "gradient_norm": self.gradient_norm / self.n_steps,
            **to_means(self.tallies),
            **{name: n / n_examples for name, n in shares},
        }


class Windows:
    """A window for each kind of steps.

    Args:
        main: the kind whose figures have no prefix.
    """

    def __init__(self, main: Kind) -> None:
        self._main = main
        self._by_kind = {kind: Window() for kind in KINDS}

    def get_window(self, kind: Kind) -> Window:
        """Returns the window of a kind of steps."""
        return self._by_kind[kind]

    def clear(self) -> None:
        """Resets the sums of all windows to zero."""
        self._by_kind = {kind: Window() for kind in KINDS}

    def compute_figures(self) -> dict[str, float]:
        """Returns the figures of all kinds by name, with the prefix of the kind unless it is the main one."""
        prefixes = PREFIXES | {self._main: ""}
        return {
            f"{prefixes[kind]}{name}": each
            for kind, one in self._by_kind.items()
            for name, each in one.compute_figures().items()
        }

    def state_dict(self) -> dict[str, Any]:
        """Returns the state as JSON values."""
        return {kind: asdict(one) for kind, one in self._by_kind.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state from `state_dict`."""
        self._by_kind = {kind: Window(**state[kind]) for kind in KINDS}


def to_means(tallies: list[float]) -> dict[str, float]:
    """Returns the means of metrics by name from flattened `LossParts.tallies`; metrics without values are left out."""
    return compute_means(torch.tensor(tallies, dtype=torch.float64).view(-1, 2))


def sum_counts(batches: Sequence[MicroBatch]) -> list[float]:
    """Sums the `AugmentationCounts` of micro-batches, field by field."""
    return [float(sum(each)) for each in zip(*(batch.counts for batch in batches), strict=True)]


def gather_dialogues(batches: Sequence[MicroBatch], processes: Processes) -> list[str]:
    """Returns the ids of the dialogues of micro-batches of all processes; all processes must call it."""
    names = [name for each in batches for name in each.dialogue_ids]
    if processes.control is None:
        return names
    of_all: list[list[str]] = [[] for _ in range(processes.share.world)]
    dist.all_gather_object(of_all, names, group=processes.control)
    return [name for each in of_all for name in each]


@dataclass(slots=True)
class SpikeWatch:
    """Detects spikes of the loss: values that are above its running mean by several running standard deviations.

    A spike is only reported; it is part of mean and deviation like any other value.

    Attributes:
        deviations: number of standard deviations that make a spike.
        mean, variance: running values over about the last 50 losses.
        n_seen: number of losses so far; the first 50 are never a spike.
    """

    deviations: float
    mean: float = 0.0
    variance: float = 0.0
    n_seen: int = 0

    def is_spike(self, loss: float) -> bool:
        """Returns whether this loss is a spike, and adds it to the running values."""
        leap = self.n_seen >= _MEMORY and loss - self.mean > self.deviations * math.sqrt(self.variance)
        self.n_seen += 1
        weight = max(1 / self.n_seen, 1 / _MEMORY)
        away = loss - self.mean
        self.mean += weight * away
        self.variance = (1 - weight) * (self.variance + weight * away**2)
        return leap


def plot_losses(run: str) -> bytes:
    """Writes `losses.png` to a run's folder and returns it: text, semantic and acoustic loss in nats, over steps.

    Validation is drawn with the right oracle, another dialogue's and none, where available.

    Raises:
        FileNotFoundError: the run has no `metrics.jsonl`.
        StoreError: the picture cannot be written.
    """
    picture = _draw_losses(read_metrics(Path(run) / METRICS))
    Store(run).write_bytes(PICTURE, picture)
    return picture


def _draw_losses(lines: Sequence[dict[str, Any]]) -> bytes:
    """Draws the lines of a run's metrics as PNG, with one panel for each part of the loss that was measured."""
    from matplotlib.figure import Figure  # no pyplot: it keeps figures and wants a display

    trained = [line for line in lines if line["kind"] == "train"]
    judged = [line for line in lines if line["kind"] == "evaluation"]
    parts = [name for name in _PARTS if any(name in line for line in trained)] or [_PARTS[0]]
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
