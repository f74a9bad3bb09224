"""Encodes a dataset into a folder of token rows, data shard by data shard; running it again resumes.

    OUT/tokens.json                                   manifest, written last
    OUT/made_with.json                                codec and tokenizer, written first; all rows must share them
    OUT/tokenizer.model                               the vocabulary of the rows
    OUT/codes/<split>-<source>-<fingerprint>.arrow    audio codes of a data shard's dialogues; .json beside it: checksum
    OUT/rows/<split>-<source>-<fingerprint>.arrow     the rest of their rows; .json beside it: checksum and counts

A codes file is named by the shard's checksum and the codec's digest; a rows file by that, the oracle file's checksum,
the tokenizer's digest and the flagged dialogues. A file that has a record with the same checksum is reused. New oracles
or flags therefore take seconds and keep the codes, and a folder for other oracles of the same dataset can copy its
codes from the first folder (`EncodeConfig.codes_from`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from backends import registry
from backends.codec.protocol import Codec, Codes
from backends.options import OptionValue
from data_schemas.config.encode import EncodeConfig
from data_schemas.errors import DatasetError, StoreError
from data_schemas.fingerprint import compute_fingerprint
from data_schemas.flags import read_flagged
from data_schemas.licences import collect_dataset_licences
from data_schemas.manifest import ORACLE, ShardEntry
from data_schemas.reader import DatasetReader
from data_schemas.records import AudioDialogue, OracleRow
from data_schemas.store import Store
from kame_model.encode.audio import DamagedShard, Encoders, check_shard, read_windows
from kame_model.encode.dialogue import make_token_row
from kame_model.encode.folder import (
    MADE_WITH,
    TOKENIZER,
    Record,
    claim_folder,
    find_record,
    remove_superseded,
    write_record,
)
from kame_model.encode.manifest import (
    CODES_VERSION,
    MANIFEST,
    ROWS_VERSION,
    MadeWith,
    RowCounts,
    TokenManifest,
    TokenShard,
    make_manifest,
)
from kame_model.encode.rows import CodesFile, TokenRow, write_codes, write_rows
from kame_model.text.tokenizer import Tokenizer

OnDialogues = Callable[[int], None]
"""Progress callback; gets the number of dialogues encoded or reused since the last call."""


def encode_dataset(
    config: EncodeConfig, on_dialogues: OnDialogues = lambda n: None, wait_s: float = 0.0
) -> TokenManifest:
    """Encodes everything that is not encoded yet, in this process or its worker processes, and writes the manifest.

    Flagged dialogues have no rows. Files of codes and rows that the new manifest does not list are removed.

    Args:
        config: the dataset, its codec and tokenizer, and the folder of token rows.
        on_dialogues: is called with the number of dialogues that are encoded or reused.
        wait_s: maximum time to wait for another run that writes to `out`, in seconds.

    Raises:
        ConfigError: the codec is unknown, or `out` holds something else or was made with another codec or tokenizer.
        DatasetError: there is no dataset, or it has no oracles of that version.
        BackendError: the codec, the tokenizer or a bucket cannot be used, or a worker process was killed.
        DamagedShard: some shards, each named, cannot be encoded. The files of all others are complete, and the next run
            reuses them; the manifest is not written, and nothing is removed.
        StoreError: another run is writing to `out`, or it cannot be written.
    """
    reader = DatasetReader(config.dataset, config.oracle_version)
    oracles, flagged_ids = group_oracle_files(reader), frozenset(read_flagged(reader.store))
    codec: Codec = registry.build("codec", config.codec, config.codec_options)
    tokenizer = Tokenizer.from_file(config.tokenizer)
    by = MadeWith.from_codec(codec, tokenizer)
    done, damaged = [], dict[str, DamagedShard]()
    with claim_folder(config.out, MADE_WITH, by, wait_s) as store, Encoders(config, codec) as encoders:
        if not store.exists(TOKENIZER):
            store.write_bytes(TOKENIZER, tokenizer.path.read_bytes())
        shard_encoder = _ShardEncoder(
            config, reader, oracles, flagged_ids, codec.digest, tokenizer, encoders, store, on_dialogues
        )
        for entry in reader.list_shards():
            try:
                done.append(shard_encoder.encode(entry))
            except DamagedShard as error:
                damaged[entry.path] = error
        if damaged:
            faults = "; ".join(f"{path}: {error.what}" for path, error in damaged.items())
            raise DamagedShard(
                f"{len(damaged)} of {len(reader.list_shards())} shards cannot be encoded; the others are. {faults}",
                next(iter(damaged.values())).remedy,
            )
        options = resolve_codec_options(config.codec_options)
        manifest = make_manifest(
            done, by, reader.manifest.fingerprint, reader.oracle_version, options, _read_licences(reader)
        )
        store.write_bytes(MANIFEST, (manifest.model_dump_json(indent=1) + "\n").encode())
        remove_superseded(store, manifest)  # keeps only files of the manifest
    return manifest


@dataclass(frozen=True, slots=True)
class _ShardEncoder:
    """Encodes data shards one by one, in any order."""

    config: EncodeConfig
    reader: DatasetReader
    oracles: Mapping[str, list[ShardEntry]]
    flagged: frozenset[str]
    codec_digest: str
    tokenizer: Tokenizer
    encoders: Encoders
    store: Store
    on_dialogues: OnDialogues

    def encode(self, entry: ShardEntry) -> TokenShard:
        """Makes the files of codes and rows of one data shard, and returns its entry for the manifest.

        Complete files are reused.

        Raises:
            DamagedShard: the shard or its oracles cannot be read.
            BackendError: the codec fails, or a worker process was killed.
            StoreError: the folder cannot be written.
        """
        codes_print = compute_fingerprint("codes", CODES_VERSION, {"codec": self.codec_digest}, [entry.sha256])
        codes_path = f"codes/{entry.split}-{entry.source}-{codes_print}.arrow"
        found = find_record(self.store, codes_path) or self._copy_codes(codes_path)
        codes = found or self._write_codes(entry, codes_path)
        if found:
            self.on_dialogues(found.file.n_rows)
        hidden = self._find_flagged(codes_path)
        inputs = [codes_print, *(each.sha256 for each in self.oracles.get(entry.path, []))]
        matters = {"tokenizer": self.tokenizer.digest, "flagged": hidden}
        rows_path = (
            f"rows/{entry.split}-{entry.source}-{compute_fingerprint('rows', ROWS_VERSION, matters, inputs)}.arrow"
        )
        rows = find_record(self.store, rows_path) or self._write_rows(entry, rows_path, codes_path, hidden)
        return TokenShard(
            data_path=entry.path,
            source=entry.source,
            split=str(entry.split),
            codes=codes.file,
            rows=rows.file,
            counts=rows.counts,
        )

    def _write_codes(self, entry: ShardEntry, path: str) -> Record:
        """Encodes the audio of a shard and writes its codes, of flagged dialogues too."""
        check_shard(self.reader.store, entry)
        codes: list[tuple[Codes, Codes]] = []
        sounds = read_windows(self.reader.store, entry, self.config.window_s)
        for encoded in self.encoders.encode(sounds):
            codes += encoded
            self.on_dialogues(len(encoded))
        dialogue_ids = self.reader.store.read_table(entry.path, ["dialogue_id"])["dialogue_id"].to_pylist()
        written = write_codes(self.store, path, dialogue_ids, codes)
        return write_record(self.store, written, len(codes), RowCounts())

    def _copy_codes(self, path: str) -> Record | None:
        """Copies a codes file from a folder of `codes_from` and returns its record; None if no folder has it.

        The path identifies audio and codec.
        """
        for folder in self.config.codes_from:
            other = Store(folder)
            if record := find_record(other, path):
                written = self.store.write_bytes(path, other.read_bytes(path))
                return write_record(self.store, written, record.file.n_rows, RowCounts())
        return None

    def _write_rows(self, entry: ShardEntry, path: str, codes_path: str, hidden: list[str]) -> Record:
        """Writes the rows of a shard without those of flagged dialogues (`hidden`, their ids)."""
        for each in (entry, *self.oracles.get(entry.path, [])):
            check_shard(self.reader.store, each)
        codes = CodesFile(self.store.resolve_path(codes_path))
        counts = RowCounts(n_flagged=len(hidden))
        rows: list[TokenRow] = []
        codes_rows: list[int] = []
        for number, (dialogue, oracle) in enumerate(self._read_dialogues(entry)):
            if dialogue.dialogue_id in hidden:
                continue
            row, counted = make_token_row(dialogue, oracle, codes.read_codes(number), self.tokenizer)
            rows.append(row)
            codes_rows.append(number)
            counts += counted
        return write_record(self.store, write_rows(self.store, path, rows, codes_rows), len(rows), counts)

    def _read_dialogues(self, entry: ShardEntry) -> Iterator[tuple[AudioDialogue, OracleRow | None]]:
        """Yields the dialogues of a shard with their oracles or None; raises a DamagedShard if they cannot be read."""
        try:
            yield from self.reader.iterate_rows(entry)
        except StoreError as error:
            raise DamagedShard(error.what, error.remedy) from error

    def _find_flagged(self, codes_path: str) -> list[str]:
        """Returns the ids of the flagged dialogues of a shard, sorted."""
        if not self.flagged:
            return []
        there = CodesFile(self.store.resolve_path(codes_path)).read_column("dialogue_id")
        return sorted(self.flagged & {str(each) for each in there})


def _read_licences(reader: DatasetReader) -> dict[str, str | None] | None:
    """Reads the licences of the rows' sources; None if a file of the dataset cannot be read."""
    try:
        return collect_dataset_licences(reader)
    except StoreError:
        return None


def resolve_codec_options(options: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
    """Returns a codec's options to store for later use: paths are made absolute, and the device is removed."""
    return {
        name: str(Path(str(value)).expanduser().absolute()) if name in ("path", "kwargs") else value
        for name, value in options.items()
        if name != "device"
    }


def group_oracle_files(reader: DatasetReader) -> dict[str, list[ShardEntry]]:
    """Returns the oracle files of the reader's oracle version, by the path of the data file that they belong to.

    Raises:
        DatasetError: the dataset has no oracles of that version.
    """
    every = reader.manifest.select_kind(ORACLE)
    found: dict[str, list[ShardEntry]] = {}
    for entry in every:
        if entry.oracle_version == reader.oracle_version:
            found.setdefault(str(entry.data_path), []).append(entry)
    if not found:
        versions = ", ".join(sorted({str(each.oracle_version) for each in every})) or "none"
        raise DatasetError(
            f"{reader.store.root} has no oracles of version {reader.oracle_version!r}.", f"Choose one of: {versions}."
        )
    return found
