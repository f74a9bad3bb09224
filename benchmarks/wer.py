"""Measures the word error rate of a dataset's speech by a recogniser.

    python -m benchmarks.wer DIR [--limit N] [--json]

A word error rate includes the errors of the recogniser and of the voice: it is an upper bound for the share of garbled
speech. Other spellings of the same sounds are not counted (`pipelines/quality/word_errors.py`). Intervals are those of
`kame evaluate`, over dialogues; `numbers` and `names` are the shares of these that were recognised.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from backends.asr.moonshine import Moonshine
from backends.asr.protocol import Recogniser
from benchmarks.command import make_parser, print_figures
from data_schemas.reader import DatasetReader
from data_schemas.records import AudioDialogue
from data_schemas.units import SAMPLE_RATE_HZ, samples_to_seconds, seconds_to_samples
from kame_model.evaluate.report.intervals import compute_figures
from pipelines.audio import decode_flac
from pipelines.mixing.timing import CHANNEL
from pipelines.quality.word_errors import compare_transcript
from pipelines.speech.gate import pad_with_silence

N_WORST = 10

Record = dict[str, Any]
"""An utterance: its dialogue (`unit`), source, speaker, what was `said` and `heard`, `audio_s`, and `measures`."""


def transcribe_utterances(reader: DatasetReader, recogniser: Recogniser, limit: int | None) -> Iterator[Record]:
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
                cut = pad_with_silence(sound[span, CHANNEL[turn.speaker]])
                found = compare_transcript(utterance.spoken_text, recogniser.transcribe(cut, SAMPLE_RATE_HZ))
                yield {
                    "unit": row.dialogue_id,
                    "source": row.source,
                    "speaker": turn.speaker,
                    "said": found.said,
                    "heard": found.heard,
                    "audio_s": samples_to_seconds(len(cut)),
                    "measures": {
                        "wer": [found.n_word_errors, found.n_words],
                        "numbers": [found.n_numbers_heard, found.n_numbers],
                        "names": [found.n_names_heard, found.n_names],
                    },
                }


def _select_rows(reader: DatasetReader, limit: int | None) -> Iterator[AudioDialogue]:
    """Yields all dialogues, or `limit` of them that are evenly spread over the dataset."""
    n_rows = sum(shard.n_rows for shard in reader.list_shards())
    wanted = set(np.linspace(0, n_rows - 1, min(limit or n_rows, n_rows)).round().astype(int).tolist())
    return (row for index, row in enumerate(reader.iterate_dialogues()) if index in wanted)


def main() -> None:
    """Prints the rates, the worst utterances and the speed of the recogniser."""
    parser = make_parser(__doc__)
    parser.add_argument("folder", help="folder of a dataset")
    parser.add_argument("--limit", type=int, help="number of dialogues, evenly spread over the dataset")
    options = parser.parse_args()
    recogniser = Moonshine()
    recogniser.transcribe(np.zeros(SAMPLE_RATE_HZ, dtype=np.float32), SAMPLE_RATE_HZ)  # loads the model, untimed
    started_s = time.monotonic()
    heard = list(transcribe_utterances(DatasetReader(options.folder), recogniser, options.limit))
    if not heard:
        sys.exit(f"{options.folder} holds no dialogues.")
    audio_s = sum(each["audio_s"] for each in heard)
    factor = (time.monotonic() - started_s) / audio_s
    groups: dict[str, list[Record]] = defaultdict(list)
    for kind in ("all", "speaker", "source"):
        for each in heard:
            groups["all" if kind == "all" else f"{kind} {each[kind]}"].append(each)
    rates = {
        name: {"words": sum(each["measures"]["wer"][1] for each in group)} | compute_figures(group)
        for name, group in groups.items()
    }
    worst = sorted(heard, key=lambda each: np.divide(*each["measures"]["wer"]), reverse=True)[:N_WORST]
    figures = {"wer": rates, "worst": worst, "real_time_factor": factor, "minutes of speech": audio_s / 60}
    print_figures(figures, options.json)


if __name__ == "__main__":
    main()
