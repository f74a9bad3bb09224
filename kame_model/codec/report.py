"""Measures a codec on a dataset's speech: codebook usage, spectral distance, and word error rate (WER) after decoding.

It is measured on whole dialogues with both channels, as a front-end reads them: half of that is silence.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from backends.codec.protocol import Codec, Codes
from backends.engine import Samples
from data_schemas.errors import DatasetError
from data_schemas.records import AudioDialogue, Utterance
from data_schemas.store import Store
from data_schemas.units import FRAME_N_SAMPLES, FRAMES_PER_S, samples_to_seconds, seconds_to_samples
from kame_model.codec.losses import compute_spectral_distance
from kame_model.codec.speech import PCM_SCALE, get_channels

REPORT = "report.json"
_SILENT_RMS = 10 ** (-60 / 20)
_N_RESAMPLES = 2_000


class HeardCounts(NamedTuple):
    """Counts of reference words and word errors, and of numbers (each counts once) and missed numbers."""

    n_words: int
    n_word_errors: int
    n_numbers: int
    n_numbers_missed: int


Listen = Callable[[Samples, str], HeardCounts]
"""Takes sound at 24 kHz and the words said in it; recognises the sound and counts the errors."""


@dataclass(frozen=True, slots=True)
class CodebookUse:
    """Codebook usage over frames with sound: perplexity (effective number of entries) and share of entries used."""

    perplexity: float
    used_share: float


@dataclass(frozen=True, slots=True)
class WordErrors:
    """A word error rate with its 95% bootstrap interval over dialogues (seed 0).

    `numbers_missed` is the share of numbers that were not recognised; None if there are no numbers.
    """

    wer: float
    low: float
    high: float
    n_words: int
    numbers_missed: float | None
    n_numbers: int


@dataclass(frozen=True, slots=True)
class Spectral:
    """Mean distances over utterances: natural logarithms, and amplitude (`l1`). See `losses.py`."""

    log_mel: float
    log_magnitude: float
    convergence: float
    l1: float


@dataclass(frozen=True, slots=True)
class CodecReport:
    """All metrics of a codec. `silence_alike` is the share of silent frames that have the most common codes among them;
    None if there are no silent frames. `audio_s` counts both channels of each dialogue.
    """

    codec: str
    digest: str
    n_codebooks: int
    card: int
    bits_per_s: float
    n_dialogues: int
    audio_s: float
    split: str
    codebooks: tuple[CodebookUse, ...]
    silence_alike: float | None
    spectral: Spectral
    wer_original: dict[str, WordErrors]
    wer_round_trip: dict[str, WordErrors]

    def to_json(self) -> dict[str, Any]:
        """Returns the report as JSON values."""
        return asdict(self)


@dataclass(slots=True)
class _ChannelMeasurements:
    """The measurements of one channel of one dialogue."""

    dialogue_id: str
    speaker: str
    n_samples: int
    codes: Codes
    is_silent: NDArray[np.bool_]
    distances: list[tuple[float, float, float, float]]
    original: HeardCounts
    round_trip: HeardCounts


def measure_codec(
    codec: Codec, rows: Sequence[AudioDialogue], listen: Listen, on_dialogue: Callable[[], object] = lambda: None
) -> CodecReport:
    """Measures a codec on dialogues.

    Args:
        codec: the codec.
        rows: the dialogues, with their audio.
        listen: recognises an utterance and counts the errors; called for the original and for the decoded sound.
        on_dialogue: called after each dialogue.

    Raises:
        DatasetError: there are no dialogues, nobody speaks in them, or the audio of one is missing or of a wrong form.
    """
    if not rows:
        raise DatasetError("There is no dialogue to measure a codec on.", "Use a dataset with validation dialogues.")
    seen: list[_ChannelMeasurements] = []
    for row in rows:
        sounds = (get_channels(row).T / np.float32(PCM_SCALE)).astype(np.float32)
        for speaker, sound, codes in zip("AB", sounds, codec.encode(list(sounds)), strict=True):
            seen.append(_measure_channel(row, speaker, sound, codes, codec.decode(codes), listen))
        on_dialogue()
    by_utterance = [each for one in seen for each in one.distances]
    if not by_utterance:
        raise DatasetError("Nobody speaks in the dialogues to measure a codec on.", "Use a dataset with speech.")
    distances = np.array(by_utterance).mean(axis=0)
    return CodecReport(
        codec=codec.name,
        digest=codec.digest,
        n_codebooks=codec.n_codebooks,
        card=codec.card,
        bits_per_s=codec.n_codebooks * float(np.log2(codec.card)) * FRAMES_PER_S,
        n_dialogues=len(rows),
        audio_s=round(sum(samples_to_seconds(each.n_samples) for each in seen), 3),
        split=", ".join(sorted({row.split for row in rows})),
        codebooks=_measure_codebook_use([each.codes[:, ~each.is_silent] for each in seen], codec.card),
        silence_alike=_measure_repetition([each.codes[:, each.is_silent] for each in seen]),
        spectral=Spectral(*(float(each) for each in distances)),
        wer_original=_compute_word_error_rates(seen, lambda each: each.original),
        wer_round_trip=_compute_word_error_rates(seen, lambda each: each.round_trip),
    )


def write_report(folder: str, report: CodecReport) -> str:
    """Writes `report.json` beside a codec's files and returns its path."""
    content = (json.dumps(report.to_json(), indent=1) + "\n").encode()
    return str(Path(folder) / Store(folder).write_bytes(REPORT, content).path)


def _measure_channel(
    row: AudioDialogue, speaker: str, sound: Samples, codes: Codes, decoded: Samples, listen: Listen
) -> _ChannelMeasurements:
    """Compares the utterances of a channel with their decoded sound, and finds its silent frames.

    Shares and rates are computed later, over all channels.
    """
    distances, original, round_trip = [], [], []
    for utterance in _get_utterances(row, speaker):
        assert utterance.start_s is not None
        assert utterance.end_s is not None
        span = slice(seconds_to_samples(utterance.start_s), seconds_to_samples(utterance.end_s))
        distances.append(_compute_distance(decoded[span], sound[span]))
        original.append(listen(sound[span], utterance.spoken_text))
        round_trip.append(listen(decoded[span], utterance.spoken_text))
    frames = np.pad(sound, (0, codes.shape[1] * FRAME_N_SAMPLES - len(sound))).reshape(-1, FRAME_N_SAMPLES)
    is_silent = np.sqrt(np.square(frames).mean(axis=1)) < _SILENT_RMS
    return _ChannelMeasurements(
        row.dialogue_id,
        speaker,
        len(sound),
        codes,
        is_silent,
        distances,
        _sum_counts(original),
        _sum_counts(round_trip),
    )


def _get_utterances(row: AudioDialogue, speaker: str) -> Iterable[Utterance]:
    """Yields the utterances of a speaker that are speech, not backchannels."""
    for turn in row.turns:
        if turn.speaker == speaker:
            yield from (each for each in turn.utterances if each.kind == "speech")


def _compute_distance(made: Samples, true: Samples) -> tuple[float, float, float, float]:
    """Returns the log-mel, log-magnitude and convergence distances, and the mean absolute difference of amplitudes."""
    with torch.inference_mode():
        found = compute_spectral_distance(torch.from_numpy(made.copy())[None], torch.from_numpy(true.copy())[None])
    l1 = float(np.abs(made - true).mean())
    return float(found.log_mel), float(found.log_magnitude), float(found.convergence), l1


def _sum_counts(counts: Iterable[HeardCounts]) -> HeardCounts:
    return HeardCounts(*np.array([HeardCounts(0, 0, 0, 0), *counts]).sum(axis=0).tolist())


def _measure_codebook_use(codes: Sequence[Codes], card: int) -> tuple[CodebookUse, ...]:
    """Computes the usage of each codebook over all given frames; without frames both figures are 0."""
    found = []
    for book in np.concatenate(codes, axis=1):
        counts = np.bincount(book, minlength=card)
        share = counts[counts > 0] / max(len(book), 1)
        perplexity = float(np.exp(-(share * np.log(share)).sum())) if len(book) else 0.0
        found.append(CodebookUse(perplexity, float((counts > 0).mean())))
    return tuple(found)


def _measure_repetition(codes: Sequence[Codes]) -> float | None:
    """Returns the share of frames that have the most common codes; None if there are no frames.

    Args:
        codes: [n_codebooks, n_frames] of each channel.
    """
    columns = np.concatenate(codes, axis=1).T
    if not len(columns):
        return None
    return float(np.unique(columns, axis=0, return_counts=True)[1].max() / len(columns))


def _compute_word_error_rates(
    seen: Sequence[_ChannelMeasurements], counts_of: Callable[[_ChannelMeasurements], HeardCounts]
) -> dict[str, WordErrors]:
    """Computes word error rates of all speech ("all") and of each speaker ("A", "B").

    Args:
        seen: the measurements of the channels.
        counts_of: returns the counts to use of a channel: of its original or of its decoded sound.
    """
    groups = {"all": list(seen)} | {speaker: [each for each in seen if each.speaker == speaker] for speaker in "AB"}
    return {name: _compute_word_error_rate(group, counts_of) for name, group in groups.items()}


def _compute_word_error_rate(
    seen: Sequence[_ChannelMeasurements], counts_of: Callable[[_ChannelMeasurements], HeardCounts]
) -> WordErrors:
    """Computes the word error rate of channels, with its interval by resampling dialogues; 0 without words."""
    by_dialogue: dict[str, list[HeardCounts]] = {}
    for each in seen:
        by_dialogue.setdefault(each.dialogue_id, []).append(counts_of(each))
    summed = [_sum_counts(each) for each in by_dialogue.values()]
    counts = np.array(summed)[:, :2]  # [n_dialogues, 2]: words, errors
    drawn = np.random.default_rng(0).integers(len(counts), size=(_N_RESAMPLES, len(counts)))
    words, errors = np.moveaxis(counts[drawn].sum(axis=1), -1, 0)
    low, high = np.quantile(errors / np.maximum(words, 1), [0.025, 0.975])
    n_words, n_errors, n_numbers, n_missed = _sum_counts(summed)
    missed = n_missed / n_numbers if n_numbers else None
    return WordErrors(n_errors / max(n_words, 1), float(low), float(high), n_words, missed, n_numbers)
