"""Listens to a dataset with a recogniser and counts the words it hears otherwise than they were to be said.

    python -m benchmarks.wer DIR [--limit N] [--json]

A word error rate is the recogniser's mistakes and the voice's together: an upper bound for how much of the speech is
garbled. What is only another way of writing the same words is not counted (`same_writing`, `meet`).
"""

import argparse
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import jiwer
import numpy as np

from backends.protocols import Recogniser
from data_schemas.arrow import from_table
from data_schemas.records import AudioDialogue
from data_schemas.units import SAMPLE_RATE_HZ, samples_to_seconds, seconds_to_samples
from pipelines.audio import Sound, from_flac
from pipelines.reader import DatasetReader
from pipelines.script.speakable import Unspeakable, speak, spoken_words

CHANNELS = {"A": 0, "B": 1}
SILENCE_S = 0.25
"""Silence put before and after each utterance, as recognisers are used to."""

N_RESAMPLES = 2_000
N_WORST = 10

_AMERICAN = {
    "centimetre": "centimeter",
    "centre": "center",
    "colour": "color",
    "favourite": "favorite",
    "grey": "gray",
    "kilometre": "kilometer",
    "litre": "liter",
    "metre": "meter",
    "millimetre": "millimeter",
    "neighbour": "neighbor",
    "neighbourhood": "neighborhood",
    "offence": "offense",
    "ok": "okay",
    "theatre": "theater",
    "travelling": "traveling",
}
"""One spelling for words that have two; plurals follow."""

_AND_IN_NUMBER = re.compile(r"\b(hundred|thousand|million|billion) and (?=[a-z]+)")


@dataclass(frozen=True, slots=True)
class Heard:
    """One utterance: what was to be said, what was heard, both as they were compared."""

    dialogue_id: str
    source: str
    speaker: str
    said: str
    heard: str
    n_words: int
    n_errors: int
    audio_s: float


@dataclass(frozen=True, slots=True)
class Rate:
    """A word error rate with the interval in which 95 % of resamplings of the dialogues lie."""

    wer: float
    low: float
    high: float
    n_words: int
    n_utterances: int


def same_writing(text: str) -> list[str]:
    """A text's words as they are said, in small letters and one spelling; digits and signs are read out.

    A token that has no sure reading is kept by itself, so that it counts as an error and not as silence.
    """
    try:
        said = speak(text)
    except Unspeakable:
        said = " ".join(_token(each) for each in text.split())
    small = " ".join(word.lower().replace("'", "") for word in spoken_words(said.replace("-", " ")))
    return [_one_spelling(word) for word in _AND_IN_NUMBER.sub(r"\1 ", small).split()]


def meet(left: Sequence[str], right: Sequence[str]) -> tuple[list[str], list[str]]:
    """Both texts with neighbours joined where the other one writes them as one word ("per cent", "book shelf")."""
    return _joined(left, set(right) - set(left)), _joined(right, set(left) - set(right))


def listen(reader: DatasetReader, recogniser: Recogniser, limit: int | None) -> Iterator[Heard]:
    """Each utterance of a dataset, or of `limit` dialogues spread evenly over it, as it is heard."""
    for row in _rows(reader, limit):
        sound = from_flac(row.flac)
        for turn in row.turns:
            for utterance in turn.utterances:
                assert utterance.start_s is not None
                assert utterance.end_s is not None
                cut = _cut(sound, CHANNELS[turn.speaker], utterance.start_s, utterance.end_s)
                heard = recogniser.transcribe(cut, SAMPLE_RATE_HZ)
                said, got = meet(same_writing(utterance.spoken_text), same_writing(heard))
                counts = jiwer.process_words(" ".join(said), " ".join(got))
                yield Heard(
                    dialogue_id=row.dialogue_id,
                    source=row.source,
                    speaker=turn.speaker,
                    said=" ".join(said),
                    heard=" ".join(got),
                    n_words=len(said),
                    n_errors=counts.substitutions + counts.deletions + counts.insertions,
                    audio_s=samples_to_seconds(len(cut)),
                )


def rate(heard: Iterable[Heard]) -> Rate:
    """Errors by words over utterances, with its bootstrap interval over dialogues (seed 0)."""
    by_dialogue: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    n_utterances = 0
    for each in heard:
        n_utterances += 1
        by_dialogue[each.dialogue_id][0] += each.n_errors
        by_dialogue[each.dialogue_id][1] += each.n_words
    counts = np.array(list(by_dialogue.values()))  # [n_dialogues, 2]: errors, words
    drawn = np.random.default_rng(0).integers(len(counts), size=(N_RESAMPLES, len(counts)))
    sums = counts[drawn].sum(axis=1)
    low, high = np.quantile(sums[:, 0] / sums[:, 1], [0.025, 0.975])
    n_errors, n_words = counts.sum(axis=0)
    return Rate(float(n_errors / n_words), float(low), float(high), int(n_words), n_utterances)


def rates(heard: Sequence[Heard]) -> dict[str, Rate]:
    """The rate of all, of each speaker and of each source."""
    groups = {"all": list(heard)}
    for each in heard:
        groups.setdefault(f"speaker {each.speaker}", []).append(each)
    for each in heard:
        groups.setdefault(each.source, []).append(each)
    return {name: rate(group) for name, group in groups.items()}


def _rows(reader: DatasetReader, limit: int | None) -> Iterator[AudioDialogue]:
    entries = reader.manifest.of_kind("data")
    n_rows = sum(entry.n_rows for entry in entries)
    wanted = set(np.linspace(0, n_rows - 1, min(limit or n_rows, n_rows)).round().astype(int).tolist())
    index = 0
    for entry in entries:
        for row in from_table(reader.store.read_table(entry.path), AudioDialogue):
            if index in wanted:
                yield row
            index += 1


def _cut(sound: Sound, channel: int, start_s: float, end_s: float) -> Sound:
    """One channel's samples of a span, with silence around."""
    silence = np.zeros(seconds_to_samples(SILENCE_S), dtype=np.float32)
    span = sound[seconds_to_samples(start_s) : seconds_to_samples(end_s), channel]
    return np.concatenate([silence, span, silence])


def _token(token: str) -> str:
    try:
        return speak(token)
    except Unspeakable:
        return re.sub(r"[^A-Za-z]", "", token) or "unreadable"


def _one_spelling(word: str) -> str:
    stem = word.removesuffix("s")
    return _AMERICAN[stem] + word[len(stem) :] if stem in _AMERICAN else word


def _joined(words: Sequence[str], wanted: set[str]) -> list[str]:
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] + word in wanted:
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def main() -> None:
    """Prints the rates, the worst utterances and the speed of the recogniser."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wer", description="Word error rate of a dataset.")
    parser.add_argument("folder", help="folder of a dataset")
    parser.add_argument("--limit", type=int, help="dialogues to listen to, spread evenly")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    options = parser.parse_args()
    from backends.asr.moonshine import Moonshine

    recogniser = Moonshine()
    recogniser.transcribe(np.zeros(SAMPLE_RATE_HZ, dtype=np.float32), SAMPLE_RATE_HZ)  # loads the model, untimed
    started_s = time.monotonic()
    heard = list(listen(DatasetReader(options.folder), recogniser, options.limit))
    if not heard:
        sys.exit(f"{options.folder} holds no dialogues.")
    factor = (time.monotonic() - started_s) / sum(each.audio_s for each in heard)
    worst = sorted(heard, key=lambda each: each.n_errors / each.n_words, reverse=True)[:N_WORST]
    found = rates(heard)
    if options.json:
        groups = {name: asdict(each) for name, each in found.items()}
        print(json.dumps({"wer": groups, "worst": [asdict(each) for each in worst], "real_time_factor": factor}))
        return
    for name, each in found.items():
        print(
            f"{name:<12} {each.wer:6.2%}  [{each.low:.2%}, {each.high:.2%}]  "
            f"{each.n_words} words, {each.n_utterances} utterances"
        )
    print(f"real-time factor {factor:.3f} ({sum(each.audio_s for each in heard) / 60:.1f} minutes of speech)\n")
    for utterance in worst:
        print(f"{utterance.n_errors}/{utterance.n_words}  {utterance.dialogue_id} {utterance.speaker}")
        print(f"  said  {utterance.said}\n  heard {utterance.heard}")


if __name__ == "__main__":
    main()
