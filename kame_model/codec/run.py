"""A training of `nano-mimi` from a dataset to a folder; killed anywhere, the same call goes on from its last state."""

import io
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from backends.codec.folder import KWARGS, write_folder
from backends.codec.nano_mimi import mimi_kwargs
from data_schemas import ids
from data_schemas.config.codec import CodecTrainConfig
from data_schemas.errors import ConfigError, StoreError
from data_schemas.fingerprint import what_matters
from data_schemas.manifest import DATA, contents
from data_schemas.reader import DatasetReader
from data_schemas.store import Store
from kame_model.codec.report import CodecReport
from kame_model.codec.speech import gather
from kame_model.codec.training import CodecTrainer, OnStep

RECORD = "codec.json"
REPORT = "report.json"
STATE = "training.state"

_RECIPE = 1
"""Version of the training; raise it when the same configuration would give other weights."""


def train_codec(
    readers: Sequence[DatasetReader], config: CodecTrainConfig, out: str, on_step: OnStep
) -> dict[str, Any]:
    """Trains a codec into a folder and returns its record; of a folder that has just this codec, only the record.

    The folder then holds `mimi.safetensors`, `mimi.json` (written last) and `codec.json`, each whole or not there;
    until then, `training.state` too, saved every `save_every_s` seconds.

    Raises:
        ConfigError: the folder belongs to another training.
        DatasetError: there is no speech to train on.
        StoreError: the folder cannot be written, or its state is damaged.
    """
    store = Store(out)
    identity = _identity(readers, config)
    record = read_record(store)
    if record is not None and store.exists(KWARGS):
        if record["identity"] != identity:
            raise ConfigError(f"{out} holds a codec of another training.", "Name another folder with --out.")
        return record
    if config.threads:
        torch.set_num_threads(config.threads)
    trainer = CodecTrainer(config, clips := gather(readers, config))
    if store.exists(STATE):
        trainer.restore(_read_state(store, identity))
    _train(trainer, store, identity, on_step)
    record = {
        "identity": identity,
        "config": config.model_dump(mode="json"),
        "datasets": [each.manifest.fingerprint for each in readers],
        "n_dialogues": clips.n_dialogues,
        "n_flagged": clips.n_flagged,
        "n_speech_clips": len(clips.speech),
        "n_silent_clips": len(clips.silence),
        "n_parameters": sum(each.numel() for each in trainer.model.parameters()),
        "n_steps": trainer.step,
        "training_s": round(trainer.elapsed_s, 1),
    }
    store.write_bytes(RECORD, _json(record))
    write_folder(trainer.model, mimi_kwargs(config.model), store)
    if store.exists(STATE):
        store.remove(STATE)
    return record


def read_record(store: Store) -> dict[str, Any] | None:
    """What a codec's folder tells of its training; None where it holds none of ours.

    Raises:
        StoreError: it is damaged.
    """
    if not store.exists(RECORD):
        return None
    try:
        return dict(json.loads(store.read_bytes(RECORD)))
    except ValueError as error:
        raise StoreError(f"{store.at(RECORD)} is damaged: {error}.", "Remove the folder and train again.") from error


def write_report(folder: str, report: CodecReport) -> str:
    """Writes `report.json` beside the weights and returns its path."""
    return str(Path(folder) / Store(folder).write_bytes(REPORT, _json(report.as_json())).path)


def _identity(readers: Sequence[DatasetReader], config: CodecTrainConfig) -> str:
    """Of settings and sound: a dataset that has got other oracles, or tells of other rejects, is still the same."""
    sound = [contents(each.manifest.of_kind(DATA)) for each in readers]
    return ids.digest("codec training", _RECIPE, what_matters(config), sound)


def _train(trainer: CodecTrainer, store: Store, identity: str, on_step: OnStep) -> None:
    saved_s = time.monotonic()
    while trainer.done < 1:
        on_step(trainer.take_step())
        if time.monotonic() - saved_s > trainer.config.save_every_s:
            _write_state(trainer, store, identity)
            saved_s = time.monotonic()


def _write_state(trainer: CodecTrainer, store: Store, identity: str) -> None:
    buffer = io.BytesIO()  # onto a full disk torch would end with an error of its own
    torch.save({"identity": identity, **trainer.state()}, buffer)
    store.write_bytes(STATE, buffer.getvalue())


def _read_state(store: Store, identity: str) -> dict[str, Any]:
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(store.read_bytes(STATE)), "cpu", weights_only=True)
    except (RuntimeError, ValueError, EOFError) as error:
        raise StoreError(f"{store.at(STATE)} is damaged: {error}.", "Remove it and train again.") from error
    if state["identity"] != identity:
        raise ConfigError(
            f"{store.root} holds another training that was not finished.",
            f"Give its datasets and settings to go on, remove {STATE}, or name another folder with --out.",
        )
    return state


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()
