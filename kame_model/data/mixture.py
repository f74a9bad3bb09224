"""Opens the datasets of a training run, which must share one vocabulary and one codec."""

from collections.abc import Sequence

from data_schemas.config.training import DatasetMixConfig
from data_schemas.errors import ConfigError, StoreError
from data_schemas.store import Store
from kame_model.encode.token_dataset import TokenDataset

_MUST_AGREE = {
    "tokenizer_digest": "vocabulary",
    "codec_digest": "codec",
    "text_card": "size of the vocabulary",
    "layout": "order of the codes",
}


def open_datasets(mixed: Sequence[DatasetMixConfig]) -> list[TokenDataset]:
    """Opens the datasets of a mixture, in order, and verifies the checksums of their files.

    Raises:
        DatasetError: if a folder holds no token rows.
        StoreError: if a file is missing or damaged.
        ConfigError: if two datasets were encoded with different vocabularies or codecs.
    """
    opened = [TokenDataset(each.path) for each in mixed]
    for each in opened:
        _check_files(each)
    for other in opened[1:]:
        for attribute, name in _MUST_AGREE.items():
            wanted, found = getattr(opened[0], attribute), getattr(other, attribute)
            if wanted != found:
                raise ConfigError(
                    f"{opened[0].folder} and {other.folder} differ in their {name}: {wanted} and {found}.",
                    "Encode both with the same tokenizer and codec.",
                )
    return opened


def _check_files(dataset: TokenDataset) -> None:
    """Verifies all checksums of a dataset; it reads two or three megabytes per hour of dialogues.

    Raises:
        StoreError: a file is missing or has changed.
    """
    store = Store(dataset.folder)
    for shard in dataset.manifest.shards:
        for file in (shard.codes, shard.rows):
            if store.describe(file.path).sha256 != file.sha256:
                raise StoreError(
                    f"{store.resolve_path(file.path)} has changed since it was written: its checksum differs.",
                    "Remove the file and run `kame encode` again; only that file is made again.",
                )
