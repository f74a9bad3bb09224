"""Reads one dialogue of a Parquet file: its record, its audio, and the audio's peaks and spectrograms.

Row groups hold a few dialogues; one column of one group is read, and one row of it kept.
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
from numpy.typing import NDArray

from data_schemas.arrow import from_table, make_schema
from data_schemas.errors import StoreError
from data_schemas.records import AudioDialogue

PEAKS_PER_S: Final = 100
SPECTRUM_ROWS: Final = 160
"""Number of rows of a spectrogram, 50 Hz each: speech is below 8 kHz."""
_ROW_HZ: Final = 50
_RANGE_DB: Final = 70.0
_MAX_COLUMNS: Final = 16_000
"""Browsers draw no picture of more than 32,767 columns; longer audio gets wider columns."""
_COLUMNS_AT_ONCE: Final = 2_000
_N_SOUNDS, _N_PEAKS, _N_SPECTROGRAMS = 16, 512, 32
_CHECK = "Run `kame check DATASET` with the folder of its dataset to see what is damaged."
Key = TypeVar("Key")


def read_dialogue(file: Path, row: int, dialogue_id: str) -> AudioDialogue:
    """Reads a dialogue's record without its audio.

    Raises:
        StoreError: the file is missing or damaged, or holds another dialogue there.
    """
    names = [name for name in make_schema(AudioDialogue).names if name != "audio"]
    return from_table(_read_row(file, row, dialogue_id, names), AudioDialogue)[0]


def read_sound(file: Path, row: int, dialogue_id: str) -> bytes:
    """Reads a dialogue's audio file: FLAC, or Opus in Ogg; left the assistant, right the user.

    Raises:
        StoreError: as `read_dialogue`, or the row has no audio.
    """
    audio = _read_row(file, row, dialogue_id, ["dialogue_id", "audio"])["audio"][0].as_py()
    if not audio or not audio["bytes"]:
        raise StoreError(f"Dialogue {dialogue_id} in {file} has no audio.", _suggest_check(file))
    return bytes(audio["bytes"])


def measure_peaks(sound: bytes) -> bytes:
    """Returns the peak of each hundredth of a second, a list for each channel, as JSON: [[A …], [B …]] from 0 to 1.

    Audio of no length has one peak, 0.

    Raises:
        StoreError: it is not audio.
    """
    samples, rate = _decode(sound)
    width = rate // PEAKS_PER_S
    n_bars = max(1, -(-len(samples) // width))
    padded = np.zeros((n_bars * width, samples.shape[1]), np.float32)
    padded[: len(samples)] = np.abs(samples)
    peaks = padded.reshape(n_bars, width, -1).max(axis=1).round(3)
    return json.dumps([[round(float(each), 3) for each in channel] for channel in peaks.T]).encode()


def measure_spectrogram(sound: bytes, channel: int) -> bytes:
    """Computes the spectrogram of a channel with windows of 20 ms, and a column for each 10 ms (more above 160 s).

    Returns:
        uint8[`SPECTRUM_ROWS`, columns], the highest frequencies first: 255 is the maximum, 0 is 70 dB below it.

    Raises:
        StoreError: it is not audio, or has no such channel.
    """
    samples, rate = _decode(sound)
    if channel >= samples.shape[1]:
        raise StoreError(f"The dialogue's audio has {samples.shape[1]} channels instead of two.", _CHECK)
    width, hop = rate // _ROW_HZ, max(rate // PEAKS_PER_S, -(-len(samples) // _MAX_COLUMNS))
    n_columns = max(1, -(-len(samples) // hop))
    padded = np.zeros(n_columns * hop + width, np.float32)
    padded[width // 2 : width // 2 + len(samples)] = samples[:, channel]
    windows = np.lib.stride_tricks.sliding_window_view(padded, width)[::hop][:n_columns]
    shape = np.hanning(width).astype(np.float32)
    loudness = np.zeros((n_columns, SPECTRUM_ROWS), np.float32)
    for first in range(0, n_columns, _COLUMNS_AT_ONCE):
        spectrum = np.abs(np.fft.rfft(windows[first : first + _COLUMNS_AT_ONCE] * shape, axis=1))
        kept = spectrum[:, :SPECTRUM_ROWS]
        loudness[first : first + len(kept), : kept.shape[1]] = kept
    below_db = 20 * np.log10(np.maximum(loudness, 1e-9) / max(float(loudness.max()), 1e-9))
    levels = np.clip(255 * (1 + below_db / _RANGE_DB), 0, 255) * (loudness > 0)
    return levels.round().astype(np.uint8).T[::-1].tobytes()


def _decode(sound: bytes) -> tuple[NDArray[np.float32], int]:
    """Decodes audio; returns float samples [samples, channels] and the sample rate in Hz.

    Raises:
        StoreError: it is not audio.
    """
    try:
        samples, rate = soundfile.read(io.BytesIO(sound), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise StoreError(f"The dialogue's audio cannot be decoded: {error}.", _CHECK) from error
    return samples, rate


class AudioCache:
    """Cache of the most recently used audio files, peaks and spectrograms, for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sounds: OrderedDict[tuple[Path, int, str], bytes] = OrderedDict()
        self._peaks: OrderedDict[tuple[Path, int, str], bytes] = OrderedDict()
        self._spectrograms: OrderedDict[tuple[Path, int, str, int], bytes] = OrderedDict()

    def read_sound(self, file: Path, row: int, dialogue_id: str) -> bytes:
        """Reads audio, as `read_sound`, with a cache."""
        return self._get_cached(
            self._sounds, _N_SOUNDS, (file, row, dialogue_id), lambda: read_sound(file, row, dialogue_id)
        )

    def measure_peaks(self, file: Path, row: int, dialogue_id: str) -> bytes:
        """Returns peaks, as `measure_peaks`, with a cache."""
        return self._get_cached(
            self._peaks,
            _N_PEAKS,
            (file, row, dialogue_id),
            lambda: measure_peaks(self.read_sound(file, row, dialogue_id)),
        )

    def measure_spectrogram(self, file: Path, row: int, dialogue_id: str, channel: int) -> bytes:
        """Returns a spectrogram, as `measure_spectrogram`, with a cache."""
        return self._get_cached(
            self._spectrograms,
            _N_SPECTROGRAMS,
            (file, row, dialogue_id, channel),
            lambda: measure_spectrogram(self.read_sound(file, row, dialogue_id), channel),
        )

    def _get_cached(self, kept: OrderedDict[Key, bytes], n_kept: int, key: Key, make: Callable[[], bytes]) -> bytes:
        """Returns the cached value of a key, or makes and caches it; at most `n_kept` values stay, the latest used."""
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
    """Reads a dialogue's row as a table of one row; those of the columns that the file lacks are left out.

    Raises:
        StoreError: the file is missing or damaged, or holds another dialogue there.
    """
    try:
        with pq.ParquetFile(file) as parquet:
            group, first = 0, 0
            while first + parquet.metadata.row_group(group).num_rows <= row:
                first += parquet.metadata.row_group(group).num_rows
                group += 1
            there = set(parquet.schema_arrow.names)
            found = parquet.read_row_group(group, columns=[name for name in columns if name in there])
            found = found.slice(row - first, 1)
    except IndexError as error:
        raise StoreError(f"{file} cannot be read: it has no row {row}.", _suggest_check(file)) from error
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{file} cannot be read: {error}.", _suggest_check(file)) from error
    if found.num_rows != 1 or found["dialogue_id"][0].as_py() != dialogue_id:
        raise StoreError(f"{file} does not hold dialogue {dialogue_id} where its index says.", _suggest_check(file))
    return found


def _suggest_check(file: Path) -> str:
    """Returns the remedy for a damaged shard, which is in the folder `data` of its dataset."""
    return f"Run `kame check {file.parent.parent}` to see what is damaged."
