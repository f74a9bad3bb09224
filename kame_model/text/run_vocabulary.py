"""The vocabulary of a training run: trained once on the texts of its datasets, with a record of which texts these were.

OUT/tokenizer.model   OUT/tokenizer.json: a digest of each dataset's dialogues, and the version of its oracles
"""

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from data_schemas import ids
from data_schemas.errors import ConfigError
from data_schemas.manifest import DATA, list_contents
from data_schemas.reader import DatasetReader
from data_schemas.store import Store
from kame_model.text.tokenizer import Tokenizer
from kame_model.text.tokenizer_training import read_training_texts, train_tokenizer

VOCABULARY: Final = "tokenizer.model"
TEXTS: Final = "tokenizer.json"


def check_run_vocabulary(readers: Sequence[DatasetReader], n_pieces: int, out: str) -> None:
    """Checks that an existing vocabulary in a run's folder fits the run, before it is used.

    Without a vocabulary nothing is checked, and without a record of its texts only its size is.

    Args:
        readers: the training datasets, each with its version of the oracles.
        n_pieces: the requested size of the vocabulary.
        out: the run's folder.

    Raises:
        ConfigError: the vocabulary has another size, or was trained on other dialogues or oracles.
        BackendError: the vocabulary is damaged.
    """
    path, store = Path(out) / VOCABULARY, Store(out)
    if not path.exists():
        return
    n_there = Tokenizer(path).text_card
    if n_there != n_pieces:
        raise ConfigError(
            f"{path} has {n_there} pieces, but {n_pieces} are requested.",
            f"Pass --vocabulary {n_there}, or choose another folder with --out.",
        )
    if store.exists(TEXTS) and store.read_bytes(TEXTS) != _digest_texts(readers):
        raise ConfigError(
            f"{path} was trained on other dialogues or oracles than these.",
            f"Choose another folder with --out, or use it anyway with --tokenizer {path}.",
        )


def make_run_vocabulary(readers: Sequence[DatasetReader], n_pieces: int, out: str) -> str:
    """Returns the path of a run's vocabulary, which is trained first if it does not exist.

    The record of its texts is then written too. An existing one is not checked: see `check_run_vocabulary`.

    Raises:
        DatasetError, ConfigError, StoreError: as `train_tokenizer`.
    """
    path = Path(out) / VOCABULARY
    if not path.exists():
        Store(out).write_bytes(TEXTS, _digest_texts(readers))  # first: a vocabulary without it is of an older version
        texts = chain.from_iterable(map(read_training_texts, readers))
        train_tokenizer(texts, n_pieces, path, datasets=[str(each.store.root) for each in readers])
    return str(path)


def _digest_texts(readers: Sequence[DatasetReader]) -> bytes:
    """Returns JSON that identifies the texts: a digest of each dataset's dialogues, and its oracle version.

    Oracles that are added to a version do not change it, because they need no other vocabulary.
    """
    digests = set()
    for reader in readers:
        dialogues = ids.digest("texts", list_contents(reader.manifest.select_kind(DATA)))
        digests.add(f"{dialogues}@{reader.oracle_version}")
    return (json.dumps(sorted(digests), indent=1) + "\n").encode()
