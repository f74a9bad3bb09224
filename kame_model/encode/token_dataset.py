"""Random access to a folder of token rows, for training, evaluation and exports."""

import bisect
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data_schemas.errors import StoreError
from data_schemas.store import Store
from kame_model.encode.manifest import TokenFile, read_manifest
from kame_model.encode.rows import SPEAKERS, CodesFile, RowsFile, TokenRow

MAX_OPEN = 256
"""Maximum number of open shards, two files each; the usual limit is 1,024 open files. A shard has 64-256 dialogues."""


class TokenDataset:
    """All rows of a folder, by number. Only the folder's name is pickled; data-loader workers map the files again.

    Args:
        folder: a folder of token rows written by `kame encode`.

    Raises:
        DatasetError: it holds no token rows, or rows of another version.
        StoreError: a file is missing or has another size; checksums are not verified.

    Attributes:
        fingerprint: hash of the content of all rows.
        counts: sums over the rows, and counts of what was excluded from them.
        codec_digest, tokenizer_digest: codec and tokenizer of the rows; a model must use the same.
        layout: layout of the codes.
        text_card: size of the vocabulary; also the oracle's start id.
        lengths: int32[N], number of frames of each row.
        n_events_of: int32[N] for each speaker, a (the assistant) and b: number of oracle events for what it says.
        splits: the split of each row: train, validation or test.
        sources: the source of each row's item.
        forms: the form of each row.
        is_speech: bool[N], whether a row is one utterance of the assistant (`kame speech`): no oracle, B is silent.
        dialogue_ids: the dialogue of each row.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._store = Store(str(Path(folder).expanduser()))
        self.manifest = read_manifest(self._store)
        self.fingerprint, self.counts = self.manifest.fingerprint, self.manifest.counts
        by = self.manifest.made_with
        self.codec_digest, self.tokenizer_digest = by.codec_digest, by.tokenizer_digest
        self.layout, self.text_card = by.layout, by.text_card
        self._shard = lru_cache(maxsize=MAX_OPEN)(self._open)
        self._starts = [0]
        self.splits: list[str] = []
        self.sources: list[str] = []
        self.forms: list[str] = []
        self.dialogue_ids: list[str] = []
        lengths = [np.empty(0, np.int32)]
        is_speech = [np.empty(0, np.bool_)]
        n_events = {speaker: [np.empty(0, np.int32)] for speaker in SPEAKERS}
        for number, entry in enumerate(self.manifest.shards):
            for file in (entry.codes, entry.rows):
                self._check(file)
            shard = self._shard(number)
            self._starts.append(self._starts[-1] + len(shard))
            self.splits += [entry.split] * len(shard)
            self.sources += [entry.source] * len(shard)
            self.forms += [str(each) for each in shard.read_column("form")]
            is_speech.append(shard.find_speech())
            self.dialogue_ids += [str(each) for each in shard.read_column("dialogue_id")]
            lengths.append(np.asarray(shard.read_column("n_frames"), np.int32))
            for speaker in SPEAKERS:
                n_events[speaker].append(shard.count_values(f"{speaker}_oracle_frame"))
        self.lengths: NDArray[np.int32] = np.concatenate(lengths)
        self.is_speech: NDArray[np.bool_] = np.concatenate(is_speech)
        self.n_events_of: dict[str, NDArray[np.int32]] = {who: np.concatenate(each) for who, each in n_events.items()}

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, row: int) -> TokenRow:
        """Returns one row; its arrays are views into memory-mapped files.

        Raises:
            IndexError: there is no such row; negative numbers do not count from the end.
        """
        if not 0 <= row < len(self):
            raise IndexError(f"{self.folder} has rows 0 to {len(self) - 1}, not {row}")
        shard = bisect.bisect_right(self._starts, row) - 1
        return self._shard(shard).read_row(row - self._starts[shard])

    def read_shards(self) -> Iterator[tuple[str, RowsFile]]:
        """Yields, for each shard, the name of its file of rows without the extension, and its rows."""
        for number, entry in enumerate(self.manifest.shards):
            yield Path(entry.rows.path).stem, self._open(number)

    def __reduce__(self) -> tuple[type["TokenDataset"], tuple[str]]:
        return type(self), (self.folder,)

    def _open(self, number: int) -> RowsFile:
        """Opens the two files of a shard, which is given by its index in the manifest."""
        entry = self.manifest.shards[number]
        return RowsFile(
            self._store.resolve_path(entry.rows.path), CodesFile(self._store.resolve_path(entry.codes.path))
        )

    def _check(self, file: TokenFile) -> None:
        """Raises a StoreError if a file is missing or has another size; its checksum is not verified."""
        if not self._store.exists(file.path) or self._store.get_size(file.path) != file.n_bytes:
            raise StoreError(
                f"{self._store.resolve_path(file.path)} is missing or truncated; it should have {file.n_bytes} bytes.",
                "Run `kame encode` again; it makes missing files.",
            )
