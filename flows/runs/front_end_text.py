"""The vocabulary of a run from datasets to a checkpoint: trained once, on what they say, and of no others.

OUT/tokenizer.model    the vocabulary
OUT/tokenizer.json     whose texts it was trained on; written first, and missing where an earlier version trained it
"""

import json
from itertools import chain
from pathlib import Path

from data_schemas import ids
from data_schemas.config.front_end import FrontEndConfig
from data_schemas.errors import ConfigError
from data_schemas.manifest import DATA, contents
from data_schemas.store import Store
from flows.runs.front_end_data import reader_of

VOCABULARY, TEXTS = "tokenizer.model", "tokenizer.json"


def trained_vocabulary(config: FrontEndConfig) -> str:
    """The file of the run's own vocabulary, trained on what the datasets' training split says where it is not there."""
    from kame_model.text.training import train_tokenizer, training_texts

    path = Path(config.out) / VOCABULARY
    if not path.exists():
        Store(config.out).write_bytes(TEXTS, _texts(config))
        texts = chain.from_iterable(training_texts(reader_of(share)) for share in config.shares)
        train_tokenizer(texts, config.vocabulary, path)
    return str(path)


def check_vocabulary(config: FrontEndConfig) -> None:
    """Looks at the vocabulary that stands in the run's folder, before anything is made with it.

    Raises:
        ConfigError: it has another size than is asked for, or is of other dialogues or oracles.
        BackendError: it is damaged.
    """
    from kame_model.text.tokenizer import Tokenizer

    path, store = Path(config.out) / VOCABULARY, Store(config.out)
    if config.tokenizer is not None or not path.exists():
        return
    n_pieces = Tokenizer(path).text_card
    if n_pieces != config.vocabulary:
        raise ConfigError(
            f"{path} has {n_pieces} pieces, and {config.vocabulary} are asked for.",
            f"Say --vocabulary {n_pieces}, or choose another --out.",
        )
    if store.exists(TEXTS) and store.read_bytes(TEXTS) != _texts(config):
        raise ConfigError(
            f"{path} was trained on other dialogues or oracles than these.",
            f"Choose another --out, or use it all the same: --tokenizer {path}.",
        )


def _texts(config: FrontEndConfig) -> bytes:
    """Whose texts: a digest of each dataset's dialogues, and the version of its oracles.

    More oracles of that version make no other vocabulary necessary, as they make no other codec.
    """
    told = set()
    for reader in map(reader_of, config.shares):
        dialogues = ids.digest("texts", contents(reader.manifest.of_kind(DATA)))
        told.add(f"{dialogues}@{reader.oracle_version}")
    return (json.dumps(sorted(told), indent=1) + "\n").encode()
