"""Checks that held-out items are not in the training data (data leakage)."""

from collections.abc import Sequence

from data_schemas.buckets import is_in_bucket
from data_schemas.errors import ConfigError
from data_schemas.hub import is_on_hub
from data_schemas.reader import DatasetReader
from data_schemas.store import Store
from kame_model.encode.manifest import MANIFEST as TOKENS
from kame_model.encode.token_dataset import TokenDataset

_N_NAMED = 3
"""Maximum number of items named in the message."""


def check_held_out(trained: Sequence[DatasetReader], held_out: DatasetReader) -> None:
    """Checks that no training dataset has an item or a question of the held-out one.

    The test splits of the training datasets are not checked; the held-out dataset counts with all its splits.

    Raises:
        ConfigError: a dataset has some; the message names them.
        StoreError: a file is missing or damaged.
    """
    there = {each for pair in read_item_ids(held_out) for each in pair}
    for reader in trained:
        both = sorted({item for item, question in read_item_ids(reader, but="test") if {item, question} & there})
        if both:
            raise ConfigError(
                f"{len(both)} items of {reader.store.root}, or their questions, are also in the held-out dataset "
                f"{held_out.store.root}: {_format_some(both)}.",
                "Hold out a dataset of other items: make each from different rows of the source.",
            )


def check_speech_held_out(speech: str, held_out: DatasetReader) -> None:
    """Checks that no speech row says an item of the held-out dataset; questions are not compared, rows have none.

    Raises:
        ConfigError: a row does; the message names some items.
        DatasetError, StoreError: a folder cannot be read.
    """
    both = sorted(read_excluded_ids([speech]) & {item for item, _ in read_item_ids(held_out)})
    if both:
        raise ConfigError(
            f"The speech in {speech} says {len(both)} items of held-out {held_out.store.root}: {_format_some(both)}.",
            f"Make it again in another folder: `kame speech … --without {held_out.store.root}`.",
        )


def _format_some(items: Sequence[str]) -> str:
    """Returns the first items as a list for a message, with an ellipsis if there are more."""
    return f"{', '.join(items[:_N_NAMED])}{', …' if len(items) > _N_NAMED else ''}"


def read_excluded_ids(folders: Sequence[str]) -> frozenset[str]:
    """Returns the ids of items and questions of datasets, and the item ids of token rows, which have no question ids.

    Raises:
        DatasetError: a folder is neither a dataset nor token rows.
        StoreError: a file is missing or damaged.
    """
    found: set[str] = set()
    for folder in folders:
        if not is_on_hub(folder) and not is_in_bucket(folder) and Store(folder).exists(TOKENS):
            for _, rows in TokenDataset(folder).read_shards():
                found.update(str(each) for each in rows.read_column("item_id"))
        else:
            found.update(each for pair in read_item_ids(DatasetReader(folder)) for each in pair)
    return frozenset(found)


def read_item_ids(reader: DatasetReader, but: str = "") -> set[tuple[str, str]]:
    """Returns pairs of item id and question id of a dataset, except those of the split `but`.

    The question's id (`group_id`) does not depend on case and punctuation, and is shared by all items that ask it.

    Raises:
        StoreError: a file is missing or damaged.
    """
    found: set[tuple[str, str]] = set()
    for entry in reader.list_shards():
        if entry.split != but:
            columns = reader.store.read_table(entry.path, ["item_id", "group_id"])
            found.update(zip(*(each.to_pylist() for each in columns.columns), strict=True))
    return found
