"""Encodes the audio of a data shard: read dialogue by dialogue, and encoded in this process or in worker processes."""

import io
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass

import soundfile

from backends import registry
from backends.codec.protocol import Codec, Codes
from backends.engine import Samples
from backends.options import OptionValue
from backends.processes import WorkerPool, block_interrupts, leave_with_parent
from data_schemas.config.encode import EncodeConfig
from data_schemas.errors import BackendError, StoreError
from data_schemas.manifest import ShardEntry
from data_schemas.records import SCHEMA_VERSION
from data_schemas.store import Store
from data_schemas.units import SAMPLE_RATE_HZ, count_covering_frames

Encoded = list[tuple[Codes, Codes]]
"""The codes of A and B, [n_codebooks, n_frames] each, of each dialogue of a window."""

_ROWS_AT_ONCE = 16
"""Rows read at a time; about the size of a shard's row group."""

_codec: Codec | None = None
"""The codec of a worker process."""


class DamagedShard(StoreError):
    """A shard of the dataset cannot be encoded; the others can."""


@dataclass(frozen=True, slots=True)
class StoredAudio:
    """The audio of a dialogue as it is stored in its shard."""

    dialogue_id: str
    n_samples: int
    flac: bytes


def check_shard(store: Store, entry: ShardEntry) -> None:
    """Checks that a file of the dataset is unchanged and has a supported schema version.

    Raises:
        DamagedShard: the file is missing, damaged, or has a newer schema.
    """
    try:
        table = store.read_table(entry.path, ["dialogue_id"], sha256=entry.sha256)
    except StoreError as error:
        raise DamagedShard(error.what, _RESTORE) from error
    version = int((table.schema.metadata or {}).get(b"kame_schema_version", SCHEMA_VERSION))
    if version > SCHEMA_VERSION:
        raise DamagedShard(
            f"{store.resolve_path(entry.path)} has schema {version}; "
            f"this version of kame reads up to {SCHEMA_VERSION}.",
            "Update kame-pipeline.",
        )


def read_windows(store: Store, entry: ShardEntry, window_s: float) -> Iterator[list[StoredAudio]]:
    """Yields a shard's audio in order, in windows of up to `window_s` seconds in total, at least one dialogue each.

    Raises:
        StoreError: the shard cannot be read.
    """
    window: list[StoredAudio] = []
    for table in store.read_batches(entry.path, _ROWS_AT_ONCE):
        for row in table.select(["dialogue_id", "n_samples", "audio"]).to_pylist():
            sound = StoredAudio(row["dialogue_id"], row["n_samples"], (row["audio"] or {}).get("bytes") or b"")
            n_samples = sum(each.n_samples for each in window) + sound.n_samples
            if window and n_samples > window_s * SAMPLE_RATE_HZ:
                yield window
                window = []
            window.append(sound)
    if window:
        yield window


def encode_window(codec: Codec, window: Sequence[StoredAudio]) -> Encoded:
    """Encodes both channels of each dialogue with one call of the codec, which can batch channels of equal length.

    Raises:
        DamagedShard: the stored audio is not as the format requires.
        BackendError: the codec returned codes of a wrong shape or range.
    """
    voices = [voice for sound in window for voice in _read_voices(sound)]
    encoded = encode_voices(codec, voices, [sound.dialogue_id for sound in window for _ in range(2)])
    return list(zip(encoded[::2], encoded[1::2], strict=True))


def encode_voices(codec: Codec, voices: Sequence[Samples], names: Sequence[str]) -> list[Codes]:
    """Encodes voices in one call of the codec; returns codes [n_codebooks, n_frames] of each.

    Args:
        codec: the codec.
        voices: audio, [n_samples] at 24 kHz each.
        names: id of the dialogue or sentence of each voice, for the error message.

    Raises:
        BackendError: the codec returned codes of a wrong shape or range.
    """
    encoded = codec.encode(voices)
    for name, voice, codes in zip(names, voices, encoded, strict=True):
        wanted = (codec.n_codebooks, count_covering_frames(len(voice)))
        if codes.shape != wanted or not 0 <= codes.min(initial=0) <= codes.max(initial=0) < codec.card:
            raise BackendError(
                f"The codec {codec.name} returned codes {codes.shape} up to {codes.max(initial=0)} for {name}; "
                f"expected were {wanted} below {codec.card}.",
                "Correct the codec: it violates backends/codec/protocol.py.",
            )
    return encoded


def _read_voices(sound: StoredAudio) -> tuple[Samples, Samples]:
    """Returns the two channels: A (assistant, left) and B (user, right).

    Raises:
        DamagedShard: the audio cannot be read, or has another rate, length or number of channels than stated.
    """
    try:
        samples, rate_hz = soundfile.read(io.BytesIO(sound.flac), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise DamagedShard(f"The audio of {sound.dialogue_id} cannot be read: {error}", _RESTORE) from error
    if rate_hz != SAMPLE_RATE_HZ or samples.shape != (sound.n_samples, 2):
        raise DamagedShard(
            f"The audio of {sound.dialogue_id} has {samples.shape[1]} channels of {samples.shape[0]} samples at "
            f"{rate_hz} Hz; expected were 2 of {sound.n_samples} at {SAMPLE_RATE_HZ} Hz.",
            _RESTORE,
        )
    return samples[:, 0], samples[:, 1]


class Encoders(WorkerPool):
    """Pool of worker processes that encode windows in order, each with its own codec. Use it as a context manager.

    The codes of a window depend only on the window, so they are the same for any number of processes. On a CPU every
    process, including this one, uses one thread, because the order of a sum, and so the last bit of a latent, depends
    on the number of threads.
    """

    def __init__(self, config: EncodeConfig, codec: Codec) -> None:
        on_cpu = str(getattr(codec, "device", "cpu")).startswith("cpu")  # a codec without a device runs on the CPU
        n_workers = config.workers or ((os.cpu_count() or 1) if on_cpu else 1)
        super().__init__(n_workers, _init_worker, config.codec, dict(config.codec_options))
        self._codec = codec

    def encode(self, windows: Iterable[Sequence[StoredAudio]]) -> Iterator[Encoded]:
        """Yields the codes of each window in order; about twice as many windows as processes are in memory.

        Raises:
            DamagedShard: the stored audio is not as the format requires.
            BackendError: a worker process was killed, or the codec fails.
        """
        if self.n_workers == 1:
            with use_one_thread():
                yield from (encode_window(self._codec, window) for window in windows)
            return
        waiting: deque[Future[Encoded]] = deque()
        try:
            for window in windows:
                waiting.append(self._submit(window))
                if len(waiting) > 2 * self.n_workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise BackendError(
                "A worker process that encoded audio was killed.",
                "The usual cause is lack of memory: run again with fewer --workers or a smaller --window-s.",
            ) from error
        finally:
            for future in waiting:
                future.cancel()

    def _submit(self, window: Sequence[StoredAudio]) -> "Future[Encoded]":
        """Starts to encode a window in a worker process."""
        with block_interrupts():  # Ctrl-C reaches all processes, but this one ends the workers
            return self.get_started().submit(_encode_in_worker, window)


def _init_worker(codec: str, options: Mapping[str, OptionValue]) -> None:
    """Builds the codec of a worker process, which uses one thread and exits with its parent."""
    global _codec
    leave_with_parent()
    import torch

    torch.set_num_threads(1)
    _codec = registry.build("codec", codec, options)


def _encode_in_worker(window: Sequence[StoredAudio]) -> Encoded:
    """Encodes a window with the codec of this worker process."""
    assert _codec is not None
    return encode_window(_codec, window)


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Context manager in which torch uses one thread: the last bit of a sum depends on the number of threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_RESTORE = "Restore the file, or write it again with `kame refresh`; then run the same command again."
