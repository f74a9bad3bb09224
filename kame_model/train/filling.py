"""What a run's settings leave open, filled in before anything is made, so that the run's folder tells all of it."""

from pathlib import Path

from data_schemas.config.training import TrainConfig
from data_schemas.errors import ConfigError
from kame_model.encode.folder import TOKENIZER
from kame_model.text.tokenizer import HUB_PREFIX
from kame_model.train.runs import read_facts
from kame_model.train.saving import CHECKPOINTS, saved_in


def filled(config: TrainConfig, world: int) -> TrainConfig:
    """The settings with paths in full, the vocabulary beside the rows, and the micro-batches of a step.

    Args:
        config: as it was typed.
        world: the run's processes.

    Raises:
        ConfigError: the processes cannot share a step.
    """
    datasets = [each.model_copy(update={"path": str(Path(each.path).absolute())}) for each in config.data.datasets]
    return config.model_copy(
        update={
            "init_from": config.init_from and _in_full(config.init_from),
            "tokenizer": _in_full(config.tokenizer) if config.tokenizer else _beside(datasets[0].path),
            "data": config.data.model_copy(update={"datasets": datasets}),
            "optim": config.optim.model_copy(update={"accumulation": _accumulation(config, world)}),
        }
    )


def _in_full(place: str) -> str:
    """A folder or file from the root on, so that it is found from anywhere; what is on the Hub stays as it is."""
    is_here = not place.startswith(HUB_PREFIX) and Path(place).exists()
    return str(Path(place).absolute()) if is_here else place


def _beside(rows: str) -> str | None:
    """The vocabulary that `kame encode` put beside its rows."""
    path = Path(rows) / TOKENIZER
    return str(path) if path.is_file() else None


def _accumulation(config: TrainConfig, world: int) -> int:
    """Micro-batches of a step: as told, or as the run was begun with, or one a process."""
    told = config.optim.accumulation
    if told is None and saved_in(Path(config.out) / CHECKPOINTS):
        told = read_facts(config.out).config.optim.accumulation
    n_batches = told or world
    if n_batches % world:
        raise ConfigError(
            f"{n_batches} micro-batches a step cannot be shared by {world} processes.",
            "Set optim.accumulation to a multiple of the processes; a run begun with another number goes on with a "
            "number of processes that divides it.",
        )
    return n_batches
