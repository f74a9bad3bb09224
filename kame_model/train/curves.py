"""Where a run's curves are drawn beside its `metrics.jsonl`: TensorBoard's files, a project of Weights & Biases."""

import os
import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

from data_schemas.config.training import TrainConfig
from data_schemas.errors import ConfigError, StoreError
from data_schemas.store import Store

TENSORBOARD: Final = "tensorboard"
WANDB_ID: Final = "wandb_id"
"""File of a run's folder: the name by which the same run is gone on with at Weights & Biases."""

_KEY, _MODE = "WANDB_API_KEY", "WANDB_MODE"
_WITHOUT_KEY = {"offline", "disabled", "dryrun"}


class Curves(Protocol):
    """Something that draws a run's numbers over its steps."""

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Numbers of a step, by `kind/name`."""

    def close(self) -> None:
        """Writes or sends what is still held."""


class TensorBoard:
    """TensorBoard's files.

    Args:
        folder: of the run.
        step: steps done; what a killed run wrote of later ones is not shown.
    """

    def __init__(self, folder: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder / TENSORBOARD), purge_step=step + 1)

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """See `Curves`.

        Raises:
            OSError: the disk is full.
        """
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Writes out what is still held."""
        self._writer.close()


class WeightsAndBiases:
    """A run of a project of Weights & Biases; with WANDB_MODE=offline, files that `wandb sync` sends later.

    A run that is gone on with is the same one there. Steps that were made twice, because a kill took them, are there
    twice: nothing that was sent is taken back.

    Args:
        folder: of the run; files of `wandb` lie in it.
        project: its name.
        config: of the run, which is sent as its settings.

    Raises:
        ConfigError: the service does not take the run.
        StoreError: the folder cannot be written to.
    """

    def __init__(self, folder: Path, project: str, config: TrainConfig) -> None:
        import wandb

        settings = wandb.Settings(disable_git=True, disable_code=True, console="off", silent=True)
        try:
            self._run = wandb.init(
                project=project,
                name="/".join(folder.absolute().parts[-2:]),
                id=_name_run(folder),
                resume="allow",
                dir=str(folder),
                config=config.model_dump(mode="json"),
                settings=settings,
            )
        except wandb.Error as error:
            raise ConfigError(
                f"Weights & Biases did not take the run: {error}.",
                f"Look at {_KEY}, keep.wandb_project and the network; {_MODE}=offline writes files for `wandb sync`.",
            ) from error
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")  # its own counter would refuse a step that is made again

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """See `Curves`; it is sent in the background."""
        self._run.log({"step": step, **numbers})

    def close(self) -> None:
        """Sends what is still held."""
        self._run.finish()


def check_curves(config: TrainConfig) -> None:
    """Whether what is to draw a run's curves is there, before anything else is begun.

    Raises:
        ConfigError: the package or the key of Weights & Biases is missing.
    """
    if config.keep.wandb_project is None:
        return
    package = find_spec("wandb")
    if package is None or package.origin is None:  # without origin it is a folder of that name
        raise ConfigError(
            "keep.wandb_project needs the package wandb, which is not installed.",
            "Type: pip install 'kame-pipeline[wandb]'. Or leave the setting empty; TensorBoard needs nothing.",
        )
    if _KEY not in os.environ and os.environ.get(_MODE) not in _WITHOUT_KEY:
        raise ConfigError(
            f"keep.wandb_project needs a key of Weights & Biases in the environment variable {_KEY}, which is not set.",
            f"Set it; or set {_MODE}=offline, which writes files that `wandb sync` can send later.",
        )


def open_curves(config: TrainConfig, folder: Path, step: int) -> list[Curves]:
    """All that a run's configuration names.

    Args:
        step: steps done.

    Raises:
        ConfigError: see `WeightsAndBiases`.
        StoreError: the folder cannot be written to.
    """
    curves: list[Curves] = []
    with ExitStack() as opened:
        if config.keep.tensorboard:
            curves.append(TensorBoard(folder, step))
            opened.callback(curves[-1].close)
        if config.keep.wandb_project is not None:
            curves.append(WeightsAndBiases(folder, config.keep.wandb_project, config))
        opened.pop_all()  # all are open; whoever asked for them closes them
    return curves


def flatten_numbers(figures: Mapping[str, Any], prefix: str) -> dict[str, float]:
    """Numbers of figures, nested ones too, by `prefix/name/name`."""
    flat: dict[str, float] = {}
    for name, value in figures.items():
        if isinstance(value, Mapping):
            flat |= flatten_numbers(value, f"{prefix}/{name}")
        elif isinstance(value, int | float):
            flat[f"{prefix}/{name}"] = float(value)
    return flat


def _name_run(folder: Path) -> str:
    """The name that a run's folder has at Weights & Biases; a new one for a new folder."""
    path = folder / WANDB_ID
    try:
        if not path.is_file():
            Store(str(folder)).write_bytes(WANDB_ID, secrets.token_hex(8).encode())
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise StoreError(f"Cannot use {path}: {error.strerror or error}.", "Look at the folder's rights.") from error
