"""Measures the word error rate of a dataset's speech by a recogniser.

    python -m benchmarks.wer DIR [--limit N] [--json]

A word error rate includes the errors of the recogniser and of the voice: it is an upper bound for the share of garbled
speech. Other spellings of the same sounds are not counted (`pipelines/quality/word_errors.py`).
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from backends.asr.protocol import Recogniser
from data_schemas.reader import DatasetReader
from data_schemas.records import AudioDialogue
from data_schemas.units import SAMPLE_RATE_HZ, samples_to_seconds, seconds_to_samples
from pipelines.audio import decode_flac
from pipelines.quality.word_errors import compare_transcript
from pipelines.speech.gate import pad_with_silence

CHANNELS = {"A": 0, "B": 1}

N_RESAMPLES = 2_000
N_WORST = 10


@dataclass(frozen=True, slots=True)
class Heard:
    """An utterance: its text, its transcript, and both as they were compared."""

    dialogue_id: str
    source: str
    speaker: str
    said: str
    heard: str
    n_words: int
    n_errors: int
    n_numbers: int
    n_numbers_heard: int
    n_names: int
    n_names_heard: int
    audio_s: float


@dataclass(frozen=True, slots=True)
class Rate:
    """A word error rate with its 95 % bootstrap interval over dialogues.

    Recalls are the shares of numbers and names that were recognised; null if there are none.
    """

    wer: float
    low: float
    high: float
    n_words: int
    n_utterances: int
    number_recall: float | None
    name_recall: float | None


def transcribe_utterances(reader: DatasetReader, recogniser: Recogniser, limit: int | None) -> Iterator[Heard]:
    """Yields the utterances of a dataset, or of `limit` evenly spread dialogues, with a recogniser's transcripts.

    Backchannels are skipped, as by the gate.
    """
    for row in _select_rows(reader, limit):
        sound = decode_flac(row.flac)
        for turn in row.turns:
            for utterance in turn.utterances:
                if utterance.kind == "backchannel":
                    continue
                assert utterance.start_s is not None
                assert utterance.end_s is not None
                span = slice(seconds_to_samples(utterance.start_s), seconds_to_samples(utterance.end_s))
                cut = pad_with_silence(sound[span, CHANNELS[turn.speaker]])
                found = compare_transcript(utterance.spoken_text, recogniser.transcribe(cut, SAMPLE_RATE_HZ))
                yield Heard(
                    dialogue_id=row.dialogue_id,
                    source=row.source,
                    speaker=turn.speaker,
                    said=found.said,
                    heard=found.heard,
                    n_words=found.n_words,
                    n_errors=found.n_word_errors,
                    n_numbers=found.n_numbers,
                    n_numbers_heard=found.n_numbers_heard,
                    n_names=found.n_names,
                    n_names_heard=found.n_names_heard,
                    audio_s=samples_to_seconds(len(cut)),
                )


def compute_rate(heard: Sequence[Heard]) -> Rate:
    """Computes the word error rate over one or more utterances, with its bootstrap interval over dialogues (seed 0)."""
    by_dialogue: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for each in heard:
        by_dialogue[each.dialogue_id][0] += each.n_errors
        by_dialogue[each.dialogue_id][1] += each.n_words
    counts = np.array(list(by_dialogue.values()))  # [n_dialogues, 2]: errors, words
    drawn = np.random.default_rng(0).integers(len(counts), size=(N_RESAMPLES, len(counts)))
    sums = counts[drawn].sum(axis=1)
    low, high = np.quantile(sums[:, 0] / sums[:, 1], [0.025, 0.975])
    n_errors, n_words = counts.sum(axis=0)
    return Rate(
        wer=float(n_errors / n_words),
        low=float(low),
        high=float(high),
        n_words=int(n_words),
        n_utterances=len(heard),
        number_recall=_compute_share(
            sum(each.n_numbers_heard for each in heard), sum(each.n_numbers for each in heard)
        ),
        name_recall=_compute_share(sum(each.n_names_heard for each in heard), sum(each.n_names for each in heard)),
    )


def _compute_share(part: int, whole: int) -> float | None:
    """Returns the ratio of two counts; None if the whole is 0."""
    return part / whole if whole else None


def compute_rates(heard: Sequence[Heard]) -> dict[str, Rate]:
    """Computes the rates of all utterances, of each speaker and of each source, by name of the group."""
    groups = {"all": list(heard)}
    for each in heard:
        groups.setdefault(f"speaker {each.speaker}", []).append(each)
    for each in heard:
        groups.setdefault(each.source, []).append(each)
    return {name: compute_rate(group) for name, group in groups.items()}


def _select_rows(reader: DatasetReader, limit: int | None) -> Iterator[AudioDialogue]:
    """Yields all dialogues, or `limit` of them that are evenly spread over the dataset."""
    n_rows = sum(shard.n_rows for shard in reader.shards())
    wanted = set(np.linspace(0, n_rows - 1, min(limit or n_rows, n_rows)).round().astype(int).tolist())
    return (row for index, row in enumerate(reader.dialogues()) if index in wanted)


def _format_percent(share: float | None) -> str:
    """Formats a share in percent; `-` for None."""
    return "-" if share is None else f"{share:.1%}"


def main() -> None:
    """Prints the rates, the worst utterances and the speed of the recogniser."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wer", description="Word error rate of a dataset.")
    parser.add_argument("folder", help="folder of a dataset")
    parser.add_argument("--limit", type=int, help="number of dialogues, evenly spread over the dataset")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    from backends.asr.moonshine import Moonshine

    recogniser = Moonshine()
    recogniser.transcribe(np.zeros(SAMPLE_RATE_HZ, dtype=np.float32), SAMPLE_RATE_HZ)  # loads the model, untimed
    started_s = time.monotonic()
    heard = list(transcribe_utterances(DatasetReader(options.folder), recogniser, options.limit))
    if not heard:
        sys.exit(f"{options.folder} holds no dialogues.")
    factor = (time.monotonic() - started_s) / sum(each.audio_s for each in heard)
    worst = sorted(heard, key=lambda each: each.n_errors / each.n_words, reverse=True)[:N_WORST]
    found = compute_rates(heard)
    if options.json:
        groups = {name: asdict(each) for name, each in found.items()}
        print(json.dumps({"wer": groups, "worst": [asdict(each) for each in worst], "real_time_factor": factor}))
        return
    for name, each in found.items():
        print(
            f"{name:<12} {each.wer:6.2%}  [{each.low:.2%}, {each.high:.2%}]  "
            f"{each.n_words} words, {each.n_utterances} utterances; "
            f"numbers {_format_percent(each.number_recall)}, names {_format_percent(each.name_recall)}"
        )
    print(f"real-time factor {factor:.3f} ({sum(each.audio_s for each in heard) / 60:.1f} minutes of speech)\n")
    for utterance in worst:
        print(f"{utterance.n_errors}/{utterance.n_words}  {utterance.dialogue_id} {utterance.speaker}")
        print(f"  said  {utterance.said}\n  heard {utterance.heard}")


if __name__ == "__main__":
    main()
