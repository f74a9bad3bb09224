"""Codebooks for Codec 2 from datasets' own voices, in a folder: learnt in a minute, and only once."""

import json
from collections.abc import Sequence
from typing import Any

from safetensors.numpy import save

from backends.codec.codec2_learnt import BOOKS, learn_codebooks
from data_schemas import ids
from data_schemas.config.codec import CodecLearnConfig
from data_schemas.errors import ConfigError, StoreError
from data_schemas.manifest import DATA, contents
from data_schemas.reader import DatasetReader
from data_schemas.store import Store
from data_schemas.units import samples_to_seconds
from kame_model.codec.speech import draw_voices

RECORD = "codec.json"

_RECIPE = 1
"""Version of the learning; raise it when the same configuration would give other codebooks."""


def learn_codec(readers: Sequence[DatasetReader], config: CodecLearnConfig, out: str) -> dict[str, Any]:
    """Learns codebooks into a folder and returns their record; of a folder that has just these, only the record.

    The folder then holds `codec.json` and, written last, `codebooks.safetensors`. What was killed is learnt again.

    Raises:
        ConfigError: the folder belongs to another learning.
        DatasetError: there is too little speech.
        StoreError: the folder cannot be written, or its record is damaged.
    """
    store, identity = Store(out), _identity(readers, config)
    record = _read_record(store) if store.exists(RECORD) else {}
    if store.exists(BOOKS) or record:
        if record.get("identity") != identity:
            raise ConfigError(f"{out} holds a codec of other speech or settings.", "Name another folder with --out.")
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
    try:
        return dict(json.loads(store.read_bytes(RECORD)))
    except ValueError as error:
        raise StoreError(f"{store.at(RECORD)} is damaged: {error}.", "Remove the folder and learn again.") from error


def _identity(readers: Sequence[DatasetReader], config: CodecLearnConfig) -> str:
    """Of settings and sound: a dataset that has got other oracles, or tells of other rejects, is still the same."""
    sound = [contents(each.manifest.of_kind(DATA)) for each in readers]
    return ids.digest("codec learning", _RECIPE, config.model_dump(mode="json"), sound)
