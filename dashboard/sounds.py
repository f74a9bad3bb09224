"""One dialogue of a Parquet file: its record without the sound, its sound, and the sound's peaks.

A file's rows lie in groups of a few dialogues; one group's column is read and one row of it kept.
"""

import io
import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile

from data_schemas.arrow import from_table, schema_of
from data_schemas.errors import StoreError
from data_schemas.records import AudioDialogue

PEAKS_PER_S: Final = 100
_N_SOUNDS, _N_PEAKS = 16, 512
_REMAKE = "Type `kame check` to see what is damaged."
Kept = TypeVar("Kept")


def read_dialogue(file: Path, row: int, dialogue_id: str) -> AudioDialogue:
    """A dialogue's record; its `audio` is None.

    Raises:
        StoreError: the file is missing, damaged, or holds another dialogue there.
    """
    names = [name for name in schema_of(AudioDialogue).names if name != "audio"]
    return from_table(_read_row(file, row, dialogue_id, names), AudioDialogue)[0]


def read_sound(file: Path, row: int, dialogue_id: str) -> bytes:
    """A dialogue's sound file: FLAC, or Opus in Ogg; left the assistant, right the user.

    Raises:
        StoreError: as `read_dialogue`, or the row has no sound.
    """
    audio = _read_row(file, row, dialogue_id, ["dialogue_id", "audio"])["audio"][0].as_py()
    if not audio or not audio["bytes"]:
        raise StoreError(f"Dialogue {dialogue_id} in {file} has no sound.", _REMAKE)
    return bytes(audio["bytes"])


def measure_peaks(sound: bytes) -> bytes:
    """The loudest sample of each hundredth of a second, a list a channel, as JSON: [[A …], [B …]] from 0 to 1.

    Raises:
        StoreError: it is no sound.
    """
    try:
        samples, rate = soundfile.read(io.BytesIO(sound), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise StoreError(f"The dialogue's sound cannot be decoded: {error}.", _REMAKE) from error
    width = rate // PEAKS_PER_S
    n_bars = -(-len(samples) // width)
    padded = np.zeros((n_bars * width, samples.shape[1]), np.float32)
    padded[: len(samples)] = np.abs(samples)
    peaks = padded.reshape(n_bars, width, -1).max(axis=1).round(3)
    return json.dumps([[round(float(each), 3) for each in channel] for channel in peaks.T]).encode()


class Sounds:
    """The sounds and peaks that were asked for last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sounds: OrderedDict[tuple[Path, int, str], bytes] = OrderedDict()
        self._peaks: OrderedDict[tuple[Path, int, str], bytes] = OrderedDict()

    def sound(self, file: Path, row: int, dialogue_id: str) -> bytes:
        """As `read_sound`."""
        return self._kept(self._sounds, _N_SOUNDS, (file, row, dialogue_id), lambda: read_sound(file, row, dialogue_id))

    def peaks(self, file: Path, row: int, dialogue_id: str) -> bytes:
        """As `measure_peaks`."""
        return self._kept(
            self._peaks,
            _N_PEAKS,
            (file, row, dialogue_id),
            lambda: measure_peaks(self.sound(file, row, dialogue_id)),
        )

    def _kept(
        self,
        kept: OrderedDict[tuple[Path, int, str], Kept],
        n_kept: int,
        key: tuple[Path, int, str],
        make: Callable[[], Kept],
    ) -> Kept:
        with self._lock:
            if key in kept:
                kept.move_to_end(key)
                return kept[key]
        made = make()
        with self._lock:
            kept[key] = made
            while len(kept) > n_kept:
                kept.popitem(last=False)
        return made


def _read_row(file: Path, row: int, dialogue_id: str, columns: list[str]) -> pa.Table:
    try:
        with pq.ParquetFile(file) as parquet:
            group, first = 0, 0
            while first + parquet.metadata.row_group(group).num_rows <= row:
                first += parquet.metadata.row_group(group).num_rows
                group += 1
            there = set(parquet.schema_arrow.names)
            found = parquet.read_row_group(group, columns=[name for name in columns if name in there])
            found = found.slice(row - first, 1)
    except (pa.ArrowException, OSError, IndexError) as error:
        raise StoreError(f"{file} cannot be read: {error}.", _REMAKE) from error
    if found.num_rows != 1 or found["dialogue_id"][0].as_py() != dialogue_id:
        raise StoreError(f"{file} does not hold dialogue {dialogue_id} where its index says.", _REMAKE)
    return found
