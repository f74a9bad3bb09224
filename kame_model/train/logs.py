"""What a run tells while it goes: a line of JSON a look, TensorBoard's files, and losses that leap."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from data_schemas.errors import StoreError
from data_schemas.store import Store
from kame_model.model.loss import METRICS as LOSS_METRICS
from kame_model.model.loss import means

N_TALLIES = 2 * len(LOSS_METRICS)
METRICS = "metrics.jsonl"
TENSORBOARD = "tensorboard"


class MetricsLog:
    """A run's `metrics.jsonl`: one object a line, each with `kind` and `step`; and TensorBoard's files beside it.

    Args:
        folder: of the run.
        step: steps done; lines of later ones, which a killed run left, are taken out.
        tensorboard: whether to write those files.

    Raises:
        StoreError: the disk is full.
    """

    def __init__(self, folder: Path, step: int, tensorboard: bool) -> None:
        self._path = folder / METRICS
        self._forget_after(step)
        self._board = None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / TENSORBOARD), purge_step=step + 1)

    def write(self, kind: str, step: int, figures: Mapping[str, Any]) -> None:
        """One line; numbers of it, nested ones too, go to TensorBoard as `kind/name`.

        Raises:
            StoreError: the disk is full.
        """
        line = json.dumps({"kind": kind, "step": step, **figures}, ensure_ascii=False)
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            if self._board is not None:
                for name, value in _flat(figures):
                    self._board.add_scalar(f"{kind}/{name}", value, step)
        except OSError as error:
            raise StoreError(
                f"Cannot write {self._path}: {error.strerror or error}.",
                "Make room and run the same command again; it goes on from the last checkpoint.",
            ) from error

    def close(self) -> None:
        """Writes out what TensorBoard still holds."""
        if self._board is not None:
            self._board.close()

    def _forget_after(self, step: int) -> None:
        if self._path.exists():
            kept = [json.dumps(line, ensure_ascii=False) for line in read_metrics(self._path) if line["step"] <= step]
            Store(str(self._path.parent)).write_bytes(METRICS, "".join(f"{line}\n" for line in kept).encode())


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a `metrics.jsonl`; the last of a killed run may be cut, and is left out."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines]


def _flat(figures: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    flat: list[tuple[str, float]] = []
    for name, value in figures.items():
        if isinstance(value, Mapping):
            flat += _flat(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            flat.append((prefix + name, float(value)))
    return flat


@dataclass(slots=True)
class Window:
    """Sums over the steps since the last line of metrics.

    Attributes:
        n_steps: how many.
        loss: sum of their losses.
        tallies: sums and counts of `LossParts.tallies`, flat.
    """

    n_steps: int = 0
    loss: float = 0.0
    tallies: list[float] = field(default_factory=lambda: [0.0] * N_TALLIES)

    def add(self, loss: float, tallies: list[float]) -> None:
        """One step more."""
        self.n_steps += 1
        self.loss += loss
        self.tallies = [one + other for one, other in zip(self.tallies, tallies, strict=True)]

    def figures(self) -> dict[str, float]:
        """Means over the steps."""
        return {"loss": self.loss / self.n_steps, **means_of(self.tallies)}

    def state_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def means_of(tallies: list[float]) -> dict[str, float]:
    """Means by name of tallies laid flat."""
    return means(torch.tensor(tallies, dtype=torch.float64).view(-1, 2))


@dataclass(slots=True)
class SpikeWatch:
    """Tells a loss that leaps out of its running mean, by its running deviation.

    A leap is told, not acted upon; it counts into mean and deviation like any other.

    Attributes:
        deviations: how many standard deviations are a leap.
        mean, variance: over about the last 50 losses.
        n_seen: losses so far; the first 50 are never a leap.
    """

    deviations: float
    mean: float = 0.0
    variance: float = 0.0
    n_seen: int = 0

    def is_spike(self, loss: float) -> bool:
        """Whether this loss is one; then it is remembered."""
        leap = self.n_seen >= _MEMORY and loss - self.mean > self.deviations * math.sqrt(self.variance)
        self.n_seen += 1
        weight = max(1 / self.n_seen, 1 / _MEMORY)
        away = loss - self.mean
        self.mean += weight * away
        self.variance = (1 - weight) * (self.variance + weight * away**2)
        return leap

    def state_dict(self) -> dict[str, float]:
        """As JSON has it."""
        return asdict(self)


_MEMORY = 50
