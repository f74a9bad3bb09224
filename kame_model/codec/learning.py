"""Learns codebooks for Codec 2 from the voices of datasets. It takes a minute, and is done once for a folder."""

import json
from collections.abc import Sequence
from typing import Any

from safetensors.numpy import save

from backends.codec.codec2_learnt import BOOKS, learn_codebooks
from data_schemas import ids
from data_schemas.config.codec import CodecLearnConfig
from data_schemas.errors import ConfigError, StoreError
from data_schemas.manifest import DATA, list_contents
from data_schemas.reader import DatasetReader
from data_schemas.store import Store
from data_schemas.units import samples_to_seconds
from kame_model.codec.speech import draw_voices

RECORD = "codec.json"

_RECIPE = 1
"""Version of the algorithm; raise it when the same configuration would give other codebooks."""


def learn_codec(readers: Sequence[DatasetReader], config: CodecLearnConfig, out: str) -> dict[str, Any]:
    """Learns codebooks, writes them into a folder, and returns their record.

    If the folder already has these codebooks, only their record is read, even if dialogues were flagged since: flags
    must not stop a training that uses them from being resumed. Otherwise `codec.json` is written and, last,
    `codebooks.safetensors`; an interrupted run starts again.

    Raises:
        ConfigError: the folder holds codebooks of other speech or settings, or codebooks without a record.
        DatasetError: there is too little speech, or the audio of a dialogue is missing or of a wrong form.
        StoreError: the folder cannot be written, or its record is damaged.
    """
    store, identity = Store(out), _compute_identity(readers, config)
    record = _read_record(store) if store.exists(RECORD) else {}
    if store.exists(BOOKS) or record:
        if record.get("identity") != identity:
            raise ConfigError(f"{out} holds a codec of other speech or settings.", "Choose another folder with --out.")
        if store.exists(BOOKS):
            return record
    sounds = list(draw_voices(readers, config))
    books = learn_codebooks(sounds, config.n_stages, config.card, config.seed)
    record = {
        "identity": identity,
        "config": config.model_dump(mode="json"),
        "datasets": [each.manifest.fingerprint for each in readers],
        "speech_s": round(sum(samples_to_seconds(len(each)) for each in sounds), 1),
        "card": books.lines.shape[1],
    }
    store.write_bytes(RECORD, (json.dumps(record, indent=1) + "\n").encode())
    store.write_bytes(BOOKS, save(books._asdict()))
    return record


def _read_record(store: Store) -> dict[str, Any]:
    """Reads `codec.json`; raises a StoreError if it is damaged."""
    try:
        return dict(json.loads(store.read_bytes(RECORD)))
    except ValueError as error:
        raise StoreError(
            f"{store.resolve_path(RECORD)} is damaged: {error}.", "Remove the folder and learn again."
        ) from error


def _compute_identity(readers: Sequence[DatasetReader], config: CodecLearnConfig) -> str:
    """Returns a digest of the settings and of the datasets' audio; oracles, rejects and flags do not change it."""
    sound = [list_contents(each.manifest.select_kind(DATA)) for each in readers]
    return ids.digest("codec learning", _RECIPE, config.model_dump(mode="json"), sound)
