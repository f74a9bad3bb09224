"""A data shard's sound as codes: read dialogue by dialogue, and encoded in this process or in several."""

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
from backends.processes import WorkerPool, interrupts_held, leave_with_parent
from data_schemas.config.encode import EncodeConfig
from data_schemas.errors import BackendError, StoreError
from data_schemas.manifest import ShardEntry
from data_schemas.records import SCHEMA_VERSION
from data_schemas.store import Store
from data_schemas.units import SAMPLE_RATE_HZ, n_frames_covering

Encoded = list[tuple[Codes, Codes]]
"""The codes of A and B, [n_codebooks, n_frames] each, of each dialogue of a window."""

_ROWS_AT_ONCE = 16
"""Rows read at a time; a row group of a shard has about as many."""

_codec: Codec | None = None
"""A worker process's own codec."""


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


def read_windows(store: Store, entry: ShardEntry, window_s: float) -> Iterator[list[Sound]]:
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


def encode_window(codec: Codec, window: Sequence[Sound]) -> Encoded:
    """The codes of A and B of each dialogue; the codec is given them all at once, to put those of one length together.

    Raises:
        DamagedShard: what is stored as sound is none of ours.
        BackendError: the codec gave other codes than it promises.
    """
    voices = [voice for sound in window for voice in _read_voices(sound)]
    encoded = encode_voices(codec, voices, [sound.dialogue_id for sound in window for _ in range(2)])
    return list(zip(encoded[::2], encoded[1::2], strict=True))


def encode_voices(codec: Codec, voices: Sequence[Samples], names: Sequence[str]) -> list[Codes]:
    """The codes of each voice, [n_codebooks, n_frames], all given to the codec at once.

    Args:
        names: of each voice's row, for the message.

    Raises:
        BackendError: the codec gave other codes than it promises.
    """
    encoded = codec.encode(voices)
    for name, voice, codes in zip(names, voices, encoded, strict=True):
        wanted = (codec.n_codebooks, n_frames_covering(len(voice)))
        if codes.shape != wanted or not 0 <= codes.min(initial=0) <= codes.max(initial=0) < codec.card:
            raise BackendError(
                f"The codec {codec.name} gave codes {codes.shape} up to {codes.max(initial=0)} for {name}; {wanted} "
                f"below {codec.card} are due.",
                "It does not keep to backends/codec/protocol.py.",
            )
    return encoded


def _read_voices(sound: Sound) -> tuple[Samples, Samples]:
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


class Encoders(WorkerPool):
    """Encodes windows in order, a codec and a thread each; processes are started when first needed. Use as `with`.

    A window's codes depend on the window alone, so they are the same for any number of processes. On a CPU each process
    computes with one thread, this one too: a sum's order, and with it the last bit of a latent, hangs on their number.
    """

    def __init__(self, config: EncodeConfig, codec: Codec) -> None:
        on_cpu = str(getattr(codec, "device", "cpu")).startswith("cpu")  # one without a device computes here
        n_workers = config.workers or ((os.cpu_count() or 1) if on_cpu else 1)
        super().__init__(n_workers, _begin_worker, config.codec, dict(config.codec_options))
        self._codec = codec

    def encode(self, windows: Iterable[Sequence[Sound]]) -> Iterator[Encoded]:
        """The codes of each window; twice as many windows as processes are held at most.

        Raises:
            DamagedShard: a sound is none of ours.
            BackendError: a process was killed, or the codec does not work.
        """
        if self.n_workers == 1:
            with one_thread():
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
                "A process that encoded sound died.",
                "Most often memory ran out: run again with fewer --workers or a smaller --window-s.",
            ) from error
        finally:
            for future in waiting:
                future.cancel()

    def _submit(self, window: Sequence[Sound]) -> "Future[Encoded]":
        with interrupts_held():  # Ctrl-C goes to all processes, and this one ends the others
            return self.started().submit(_encode_in_worker, window)


def _begin_worker(codec: str, options: Mapping[str, OptionValue]) -> None:
    global _codec
    leave_with_parent()
    import torch

    torch.set_num_threads(1)
    _codec = registry.build("codec", codec, options)


def _encode_in_worker(window: Sequence[Sound]) -> Encoded:
    assert _codec is not None
    return encode_window(_codec, window)


@contextmanager
def one_thread() -> Iterator[None]:
    """Within it torch computes with one thread: a sum's order, and with it its last bit, hangs on their number."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_RESTORE = "Restore the file, or let `kame refresh` write it again; then run the same command again."
