"""Reads a dataset's speech for a codec, one channel for each speaker."""

import io
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import soundfile
from numpy.typing import NDArray

from backends.aligner.pocketsphinx import PhoneTiming
from backends.engine import Samples
from data_schemas import ids
from data_schemas.config.codec import CodecLearnConfig
from data_schemas.errors import DatasetError
from data_schemas.flags import read_flagged
from data_schemas.reader import DatasetReader
from data_schemas.records import AudioDialogue
from data_schemas.units import SAMPLE_RATE_HZ

PCM_SCALE = 32_768
USER_SHARE = 0.25
"""Share of dialogues whose user's voice is used too, if both speakers are; the assistant's voice has most weight."""

Channels = NDArray[np.int16]


class PhoneClip(NamedTuple):
    """Speech of the voice, float32 [n_samples] at 24 kHz, and its phonemes."""

    samples: Samples
    phones: Sequence[PhoneTiming]


def draw_voices(readers: Sequence[DatasetReader], config: CodecLearnConfig) -> Iterator[Samples]:
    """Yields channels of training dialogues that are not flagged, each complete: float32 [n_samples] at 24 kHz.

    `config.speakers` names the channels; if both are used, the user's is used in `USER_SHARE` of the dialogues. Of
    more sound than `config.most_speech_s`, a seeded sample of at most about that duration is drawn.

    Raises:
        DatasetError: the audio of a dialogue is missing or of a wrong form (`get_channels`).
    """
    shares = {"A": {"A": 1.0}, "B": {"B": 1.0}, "AB": {"A": 1.0, "B": USER_SHARE}}[config.speakers]
    total_s = sum(shares.values()) * sum(reader.manifest.counts.audio_s for reader in readers)
    kept_share = min(1.0, config.most_speech_s / max(total_s, 1e-9))
    for row in _read_rows(readers, "train"):
        draw = random.Random(ids.derive_seed("voices", config.seed, row.dialogue_id))
        if draw.random() < kept_share:
            channels = get_channels(row).T / np.float32(PCM_SCALE)
            wanted = [speaker for speaker, share in shares.items() if draw.random() < share]
            yield from (channels["AB".index(speaker)] for speaker in wanted)


def read_held_out(readers: Sequence[DatasetReader], limit: int) -> list[AudioDialogue]:
    """Returns up to `limit` validation dialogues that are not flagged, in order, spread evenly over the datasets."""
    n_rows = sum(_count_unflagged(reader, "validation") for reader in readers)
    wanted = set(np.linspace(0, n_rows - 1, min(limit, n_rows)).round().astype(int).tolist()) if n_rows else set()
    return [row for index, row in enumerate(_read_rows(readers, "validation")) if index in wanted]


def get_channels(row: AudioDialogue) -> Channels:
    """Returns a dialogue's audio, int16 [n_samples, 2] at 24 kHz: A, then B.

    Raises:
        DatasetError: it has no audio, or the number of channels or the sample rate is wrong.
    """
    try:
        sound, rate_hz = soundfile.read(io.BytesIO(row.flac), dtype="int16", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise DatasetError(
            f"The dialogue {row.dialogue_id} has no sound: {error}", "Make its dataset again."
        ) from error
    if rate_hz != SAMPLE_RATE_HZ or sound.shape[1] != 2:
        raise DatasetError(
            f"The dialogue {row.dialogue_id} has {sound.shape[1]} channels at {rate_hz} Hz; a codec needs two "
            f"at {SAMPLE_RATE_HZ} Hz.",
            _REMAKE,
        )
    return np.asarray(sound, dtype=np.int16)


def _count_unflagged(reader: DatasetReader, split: str) -> int:
    """Returns the number of dialogues of a split that are not flagged, without reading their audio."""
    flags = read_flagged(reader.store)
    return sum(
        each not in flags
        for shard in reader.list_shards()
        if shard.split == split
        for each in reader.store.read_table(shard.path, ["dialogue_id"])["dialogue_id"].to_pylist()
    )


def _read_rows(readers: Sequence[DatasetReader], split: str) -> Iterator[AudioDialogue]:
    """Yields the dialogues of a split that are not flagged."""
    for reader in readers:
        flags = read_flagged(reader.store)
        for shard in reader.list_shards():
            if shard.split == split:
                yield from (row for row, _ in reader.iterate_rows(shard) if row.dialogue_id not in flags)


_REMAKE = "Make its dataset again with `kame refresh`."
