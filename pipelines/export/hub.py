"""Prepares a dataset for the Hugging Face Hub: its files, and a card with all licences."""

import re
from collections.abc import Mapping
from pathlib import Path

from data_schemas.errors import DatasetError
from data_schemas.flags import read_flagged
from data_schemas.hub import HUB_DATASETS
from data_schemas.licences import add_licences_to_card, check_licences, collect_dataset_licences
from data_schemas.manifest import DATA, MANIFEST
from data_schemas.publishing import HubFile, RepositoryContents
from data_schemas.reader import DatasetReader
from pipelines.run.publish import CARD

_OUTPUTS = re.compile(
    r"(data|oracles/[^/]+|rejects)/[^/]+-[0-9a-f]{16}\.parquet|prompts/[^/]+/[^/]+\.yaml|report/oracle-[^/]+"
)
_USE = f"""\
## From the Hub

```sh
kame inspect {HUB_DATASETS}{{0}}
kame train {HUB_DATASETS}{{0}}
```

```python
datasets.load_dataset("{{0}}")
```
"""


def collect_dataset_files(folder: str, repository: str, given_licences: Mapping[str, str]) -> RepositoryContents:
    """Returns the files of a dataset that can be uploaded to the Hub, and its card; nothing is uploaded.

    Intermediate files, run records, flags and consents are excluded.

    Args:
        folder: folder of the dataset.
        repository: owner/name on the Hub, for the card.
        given_licences: licences of parts whose licence the dataset does not state (`check_licences` names them).

    Raises:
        ConfigError: a licence forbids publishing, or is unknown.
        DatasetError: there is no dataset, or it still contains flagged dialogues.
        StoreError: a file is missing or damaged.
    """
    reader = DatasetReader(folder)
    store = reader.store
    licences = check_licences(collect_dataset_licences(reader), given_licences, folder)
    _refuse_flagged(reader, folder)
    shards = [HubFile(each.path, Path(store.resolve_path(each.path)), each.sha256) for each in reader.manifest.shards]
    beside = [HubFile(path, store.read_bytes(path)) for path in store.list_files("prompts") if _OUTPUTS.fullmatch(path)]
    reports = [HubFile(path, store.read_bytes(path)) for path in store.list_files("report") if _OUTPUTS.fullmatch(path)]
    card = add_licences_to_card(store.read_bytes(CARD).decode(), licences, _USE.format(repository))
    return RepositoryContents(
        kind="dataset",
        manifest=MANIFEST,
        files=[*shards, *beside],
        last=[*reports, HubFile(CARD, card.encode()), HubFile(MANIFEST, store.read_bytes(MANIFEST))],
        owns_path=lambda path: path in (CARD, MANIFEST) or _OUTPUTS.fullmatch(path) is not None,
    )


def _refuse_flagged(reader: DatasetReader, folder: str) -> None:
    """Raises `DatasetError` if a data shard still contains a dialogue that is flagged for removal."""
    flags = read_flagged(reader.store)
    for entry in reader.manifest.select_kind(DATA) if flags else ():
        there = reader.store.read_table(entry.path, ["dialogue_id"])["dialogue_id"].to_pylist()
        if found := sorted(flags.keys() & set(there)):
            raise DatasetError(
                f"{folder} still has dialogues that are flagged, such as {found[0]}.",
                "Run `kame refresh` with the dataset's sources again; it removes them.",
            )
