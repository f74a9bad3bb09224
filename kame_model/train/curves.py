"""Draws a run's curves, in addition to its `metrics.jsonl`: TensorBoard files, a project of Weights & Biases."""

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
"""File in a run's folder with the id of the run at Weights & Biases, by which it is resumed."""

_KEY, _MODE = "WANDB_API_KEY", "WANDB_MODE"
_WITHOUT_KEY = {"offline", "disabled", "dryrun"}


class Curves(Protocol):
    """Protocol of an object that draws a run's numbers over its steps."""

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Writes the numbers of a step, by `kind/name`."""

    def close(self) -> None:
        """Writes or sends what is buffered."""


class TensorBoard:
    """Writes TensorBoard files.

    Args:
        folder: folder of the run.
        step: number of steps done; what a killed run wrote for later ones is not shown.

    Raises:
        StoreError: its files cannot be written.
    """

    def __init__(self, folder: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        with Store(str(folder)).translate_errors(TENSORBOARD, "write"):
            self._writer = SummaryWriter(str(folder / TENSORBOARD), purge_step=step + 1)

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Writes the numbers of a step, by `kind/name`.

        Raises:
            OSError: the disk is full.
        """
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Writes what is buffered."""
        self._writer.close()


class WeightsAndBiases:
    """Sends a run to a project of Weights & Biases; with WANDB_MODE=offline, it writes files for `wandb sync`.

    A resumed run is the same one there. Steps that were repeated after a kill appear twice, because nothing that was
    sent can be removed.

    Args:
        folder: folder of the run; `wandb` puts its files there.
        project: name of the project.
        config: configuration of the run, which is sent as its settings.

    Raises:
        ConfigError: the service rejects the run.
        StoreError: the folder cannot be written to.
    """

    def __init__(self, folder: Path, project: str, config: TrainConfig) -> None:
        import wandb

        settings = wandb.Settings(disable_git=True, disable_code=True, console="off", silent=True)
        try:
            self._run = wandb.init(
                project=project,
                name="/".join(folder.absolute().parts[-2:]),
                id=_get_run_id(folder),
                resume="allow",
                dir=str(folder),
                config=config.model_dump(mode="json"),
                settings=settings,
            )
        except wandb.Error as error:
            raise ConfigError(
                f"Weights & Biases did not accept the run: {error}.",
                f"Check {_KEY}, keep.wandb_project and the network; {_MODE}=offline writes files for `wandb sync`.",
            ) from error
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")  # its own counter rejects a repeated step

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Sends the numbers of a step, by `kind/name`, in the background."""
        self._run.log({"step": step, **numbers})

    def close(self) -> None:
        """Sends what is buffered."""
        self._run.finish()


def check_curves(config: TrainConfig) -> None:
    """Checks that the packages and keys for a run's curves are available, before anything else is started.

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
    """Opens the curves that are enabled in a run's configuration; the caller must close them.

    Args:
        config: configuration of the run.
        folder: folder of the run.
        step: number of steps done.

    Raises:
        ConfigError: see `WeightsAndBiases`.
        StoreError: TensorBoard's files, or the file with the id at Weights & Biases, cannot be read or written.
    """
    curves: list[Curves] = []
    with ExitStack() as opened:
        if config.keep.tensorboard:
            curves.append(TensorBoard(folder, step))
            opened.callback(curves[-1].close)
        if config.keep.wandb_project is not None:
            curves.append(WeightsAndBiases(folder, config.keep.wandb_project, config))
        opened.pop_all()  # all are open; the caller closes them
    return curves


def flatten_numbers(figures: Mapping[str, Any], prefix: str) -> dict[str, float]:
    """Returns all numbers of nested figures, each named `prefix/name/name`; true is 1; other values are left out."""
    flat: dict[str, float] = {}
    for name, value in figures.items():
        if isinstance(value, Mapping):
            flat |= flatten_numbers(value, f"{prefix}/{name}")
        elif isinstance(value, int | float):
            flat[f"{prefix}/{name}"] = float(value)
    return flat


def _get_run_id(folder: Path) -> str:
    """Returns the id of a run at Weights & Biases, from its folder; for a new folder, an id is made and stored.

    Raises:
        StoreError: the file with the id cannot be read or written.
    """
    path = folder / WANDB_ID
    try:
        if not path.is_file():
            Store(str(folder)).write_bytes(WANDB_ID, secrets.token_hex(8).encode())
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise StoreError(f"Cannot use {path}: {error.strerror or error}.", "Check the folder's permissions.") from error
