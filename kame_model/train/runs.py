"""A run's folder from outside: what it was told, what it speaks with, and the front-end that came of it."""

import json
from pathlib import Path
from typing import Any, Literal, Self

import torch
from pydantic import Field, ValidationError
from torch.distributed.checkpoint.state_dict import get_model_state_dict

from data_schemas.config import Config
from data_schemas.config.training import TrainConfig
from data_schemas.errors import ConfigError, DatasetError
from data_schemas.store import Store
from kame_model.encode.token_dataset import TokenDataset
from kame_model.model.front_end import FrontEnd
from kame_model.model.lora import add_lora
from kame_model.model.presets import build_front_end
from kame_model.train.computing import SOUND
from kame_model.train.processes import Processes
from kame_model.train.saving import CHECKPOINTS, Saved, best_of, load_tensors, saved_in

CONFIG = "config.json"
MAY_CHANGE = ("out", "max_steps", "hardware", "keep", "data.workers", "data.datasets", "tokenizer", "init_from")
"""Settings of which a run may be gone on with other values: where and how it is computed, how long, how often it is
looked at, and paths (the datasets' content is compared by fingerprint). Another `max_steps` bends what is left of the
cosine."""


class SpeaksWith(Config):
    """What a run's weights belong to; nothing else can go with them."""

    tokenizer_digest: str
    text_card: int = Field(description="Size of the vocabulary.")
    codec_digest: str
    card: int = Field(description="Entries of a codebook.")
    n_codebooks: int = Field(description="Codebooks of one voice.")

    @classmethod
    def of(cls, dataset: TokenDataset) -> Self:
        """What a dataset was encoded with."""
        return cls(**{name: getattr(dataset, name) for name in cls.model_fields})


class RunFacts(Config):
    """`config.json` of a run's folder."""

    config: TrainConfig
    speaks_with: SpeaksWith
    datasets: list[str] = Field(description="Fingerprints of the datasets of token rows, in the order of the mixture.")


def read_facts(folder: str | Path) -> RunFacts:
    """What a run was begun with.

    Raises:
        DatasetError: the folder is no run's, or of another version.
    """
    path = Path(folder) / CONFIG
    if not path.is_file():
        raise DatasetError(
            f"{folder} is no training run: it has no {CONFIG}.", "Name a folder that `kame train` wrote."
        )
    try:
        return RunFacts.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise DatasetError(f"{path} cannot be read: {error}.", "It may be of another version of kame.") from error


def begin(folder: Path, facts: RunFacts) -> None:
    """Writes a new run's facts, or makes sure that one with a checkpoint is gone on with as it was begun.

    Raises:
        ConfigError: a setting that changes what is computed is another than when the run began.
        StoreError: the disk is full.
    """
    if saved_in(folder / CHECKPOINTS):
        before = read_facts(folder)
        differing = _differences(before.model_dump(mode="json"), facts.model_dump(mode="json"))
        if differing:
            raise ConfigError(
                f"The run in {folder} was begun with other settings: {'; '.join(differing)}.",
                "Go on with the same ones, or begin another run: another --out, with --init-from for its weights.",
            )
    Store(str(folder)).write_bytes(CONFIG, json.dumps(facts.model_dump(mode="json"), indent=1).encode())


def load_weights(model: FrontEnd, folder: str | Path, which: Literal["last", "best"] = "last") -> Saved:
    """Fills a front-end with a run's weights: the moving average where one was kept.

    Args:
        model: of the run's shape; with adapters if the run had them, for then only what was trained is there.

    Raises:
        DatasetError: no run, or one without a checkpoint.
        StoreError: its checkpoint is damaged, or of another shape.
    """
    facts = read_facts(folder)
    saved = saved_in(Path(folder) / CHECKPOINTS)
    chosen = (best_of(saved) if which == "best" else None) or (saved[-1] if saved else None)
    if chosen is None:
        raise DatasetError(f"The run in {folder} has no whole checkpoint.", "Let it train until it has saved one.")
    alone, of_sound = Processes(torch.device("cpu")), SOUND if facts.config.stage == "copy" else ()
    trained = {
        name: each.data
        for name, each in model.named_parameters()
        if each.requires_grad and not name.startswith(of_sound)
    }
    load_tensors(chosen, {"model": get_model_state_dict(model) if facts.config.lora is None else trained}, alone)
    if facts.config.optim.ema_decay is not None:
        load_tensors(chosen, {"average": trained}, alone)
    return chosen


def load_run(folder: str | Path, which: Literal["last", "best"] = "best") -> tuple[FrontEnd, RunFacts, Saved]:
    """The front-end that a run has come to, on the CPU, with adapters where it has them, for export or evaluation.

    Raises:
        DatasetError, StoreError: see `load_weights`.
        ConfigError: a run with adapters whose `init_from` is gone.
    """
    from kame_model.train.starting import start_from

    facts = read_facts(folder)
    speaks = facts.speaks_with
    model = build_front_end(facts.config.model, speaks.text_card, speaks.card, speaks.n_codebooks)
    if facts.config.lora is not None:
        if facts.config.init_from is not None:
            start_from(model, facts.config.init_from)
        add_lora(model, facts.config.lora)
    return model, facts, load_weights(model, folder, which)


def _differences(before: dict[str, Any], now: dict[str, Any], prefix: str = "") -> list[str]:
    """Settings that differ and matter, each with both values."""
    found: list[str] = []
    for name in sorted(before.keys() | now.keys()):
        full = f"{prefix}{name}"
        one, other = before.get(name), now.get(name)
        if one == other or full.removeprefix("config.") in MAY_CHANGE:
            continue
        if isinstance(one, dict) and isinstance(other, dict):
            found += _differences(one, other, f"{full}.")
        else:
            found.append(f"{full.removeprefix('config.')} was {one} and is {other}")
    return found
