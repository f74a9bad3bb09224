"""The datasets of a run from datasets to a checkpoint: whether they are there, and what is held out of them."""

from collections.abc import Sequence
from itertools import chain

from data_schemas.config.front_end import DatasetShare, FrontEndConfig
from data_schemas.errors import ConfigError
from data_schemas.reader import DatasetReader
from kame_model.encode.run import oracle_files

N_NAMED = 3
"""So many items are named of those that stand in both."""


def reader_of(share: DatasetShare) -> DatasetReader:
    """The reader of a dataset with the oracles that are named."""
    return DatasetReader(share.folder, share.oracle_version)


def spoken_datasets(shares: Sequence[DatasetShare]) -> list[DatasetReader]:
    """A reader a folder, for what has nothing to do with oracles."""
    return [DatasetReader(folder) for folder in dict.fromkeys(each.folder for each in shares)]


def check_datasets(config: FrontEndConfig) -> None:
    """Looks at what is named before hours of work.

    Raises:
        DatasetError: one is not there, or has no oracles of the version named.
        ConfigError: the held-out dataset has items, or questions, that are trained on.
    """
    held_out = config.held_out_share
    for share in [*config.shares, *([] if held_out is None else [held_out])]:
        oracle_files(reader_of(share))
    if held_out is None:
        return
    (held,) = spoken_datasets([held_out])
    there = {*chain.from_iterable(_items(held))}
    for reader in spoken_datasets(config.shares):
        both = sorted({item for item, question in _items(reader, but="test") if {item, question} & there})
        if both:
            raise ConfigError(
                f"{len(both)} items of {reader.store.root} stand in the held-out {held.store.root} too, themselves or "
                f"their questions: {', '.join(both[:N_NAMED])}{', …' if len(both) > N_NAMED else ''}.",
                "Hold out a dataset of other items: give each its own rows of the source.",
            )


def _items(reader: DatasetReader, but: str = "") -> set[tuple[str, str]]:
    """The ids of a dataset's items with those of their questions, but for one split.

    A question's id (`group_id`) is the same for all that ask it, whatever its case and punctuation.
    """
    found: set[tuple[str, str]] = set()
    for entry in reader.shards():
        if entry.split != but:
            columns = reader.store.read_table(entry.path, ["item_id", "group_id"])
            found.update(zip(*(each.to_pylist() for each in columns.columns), strict=True))
    return found
