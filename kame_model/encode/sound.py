"""A data shard's sound, dialogue by dialogue, and whether a shard is what the manifest says."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import soundfile

from backends.codec.protocol import Codec, Codes
from backends.engine import Samples
from data_schemas.errors import BackendError, StoreError
from data_schemas.manifest import ShardEntry
from data_schemas.records import SCHEMA_VERSION
from data_schemas.store import Store
from data_schemas.units import SAMPLE_RATE_HZ, n_frames_covering

_ROWS_AT_ONCE = 16
"""Rows read at a time; a row group of a shard has about as many."""


class DamagedShard(StoreError):
    """A shard of the dataset cannot be encoded; the others can."""


@dataclass(frozen=True, slots=True)
class Sound:
    """A dialogue's sound as its shard has it."""

    dialogue_id: str
    n_samples: int
    flac: bytes


def check_shard(store: Store, entry: ShardEntry) -> None:
    """Whether a file of the dataset is what was written, and of a schema that we know.

    Raises:
        DamagedShard: it is missing, damaged, or of a newer schema.
    """
    try:
        table = store.read_table(entry.path, ["dialogue_id"], sha256=entry.sha256)
    except StoreError as error:
        raise DamagedShard(error.what, _RESTORE) from error
    version = int((table.schema.metadata or {}).get(b"kame_schema_version", SCHEMA_VERSION))
    if version > SCHEMA_VERSION:
        raise DamagedShard(
            f"{store.at(entry.path)} has schema {version}; this program knows up to {SCHEMA_VERSION}.",
            "Update kame-pipeline.",
        )


def windows(store: Store, entry: ShardEntry, window_s: float) -> Iterator[list[Sound]]:
    """A shard's sounds in its own order, so many at a time as last `window_s` seconds together, but one at least."""
    window: list[Sound] = []
    for table in store.read_batches(entry.path, _ROWS_AT_ONCE):
        for row in table.select(["dialogue_id", "n_samples", "audio"]).to_pylist():
            sound = Sound(row["dialogue_id"], row["n_samples"], (row["audio"] or {}).get("bytes") or b"")
            n_samples = sum(each.n_samples for each in window) + sound.n_samples
            if window and n_samples > window_s * SAMPLE_RATE_HZ:
                yield window
                window = []
            window.append(sound)
    if window:
        yield window


def encode_window(codec: Codec, window: Sequence[Sound]) -> list[tuple[Codes, Codes]]:
    """The codes of A and B of each dialogue; the codec is given them all at once, to put those of one length together.

    Raises:
        DamagedShard: what is stored as sound is none of ours.
        BackendError: the codec gave other codes than it promises.
    """
    voices = [voice for sound in window for voice in _voices(sound)]
    encoded = codec.encode(voices)
    for at, (voice, codes) in enumerate(zip(voices, encoded, strict=True)):
        wanted = (codec.n_codebooks, n_frames_covering(len(voice)))
        if codes.shape != wanted or not 0 <= codes.min(initial=0) <= codes.max(initial=0) < codec.card:
            raise BackendError(
                f"The codec {codec.name} gave codes {codes.shape} up to {codes.max(initial=0)} for "
                f"{window[at // 2].dialogue_id}; {wanted} below {codec.card} are due.",
                "It does not keep to backends/codec/protocol.py.",
            )
    return list(zip(encoded[::2], encoded[1::2], strict=True))


def _voices(sound: Sound) -> tuple[Samples, Samples]:
    """The two channels: A, the assistant, left; B, the user, right."""
    try:
        samples, rate_hz = soundfile.read(io.BytesIO(sound.flac), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise DamagedShard(f"The sound of {sound.dialogue_id} cannot be read: {error}", _RESTORE) from error
    if rate_hz != SAMPLE_RATE_HZ or samples.shape != (sound.n_samples, 2):
        raise DamagedShard(
            f"The sound of {sound.dialogue_id} has {samples.shape[1]} channels of {samples.shape[0]} samples at "
            f"{rate_hz} Hz; 2 of {sound.n_samples} at {SAMPLE_RATE_HZ} are due.",
            _RESTORE,
        )
    return samples[:, 0], samples[:, 1]


_RESTORE = "Restore the file, or let `kame refresh` write it again; then run the same command again."
