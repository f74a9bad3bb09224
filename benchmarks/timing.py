"""Compares word starts in finished dialogues with the synthesiser's own word timings.

    python -m benchmarks.timing [--n 30] [--truth espeak kokoro piper]      (piper: kame backends install piper)

Dialogues of the project's sample items, and of generated questions if these are too few, are made with each form in
turn, and each in all surroundings: script, speech, alignment and mixing as in a run. The reference is a synthesiser
that gives the time of every word: eSpeak NG (its word events), Kokoro (its token durations, where words are separate
tokens) or Piper (its phoneme durations, where eSpeak joins no words). The true position of a clip in the dialogue is
measured in the audio by cross-correlation. So errors of the aligner, of the layout, of a cut and of a filter's delay
all show in the same figure.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backends import registry
from benchmarks.questions import write_questions
from data_schemas.config import (
    AlignmentConfig,
    FormsConfig,
    FormShares,
    GateConfig,
    MixingConfig,
    ScriptConfig,
    SourceConfig,
    SpeechConfig,
    SplitConfig,
    SurroundingsConfig,
)
from data_schemas.records import AudioDialogue, Clip, Clips, Dialogue, DialogueWords, Item, Turn, Utterance
from data_schemas.units import SAMPLE_RATE_HZ, seconds_to_samples
from pipelines.alignment.stage import AlignmentStage
from pipelines.audio import Sound, decode_flac
from pipelines.mixing.stage import MixingStage
from pipelines.mixing.timing import CHANNEL
from pipelines.script.stage import ScriptStage
from pipelines.sources.items import read_items
from pipelines.speech.stage import SpeechStage
from spoken.spoken_text import split_words
from tests.support.runs import ITEMS

CLEAN = {"noise_share": 0.0, "room_share": 0.0, "telephone_share": 0.0}
SURROUNDINGS: dict[str, dict[str, float]] = {
    "clean": CLEAN,
    **{
        f"noise {snr_db} dB": {**CLEAN, "noise_share": 1.0, "snr_min_db": snr_db, "snr_max_db": snr_db}
        for snr_db in (30.0, 15.0, 8.0)
    },
    "room 0.4 s": {**CLEAN, "room_share": 1.0, "rt60_min_s": 0.4, "rt60_max_s": 0.4},
    "telephone": {**CLEAN, "telephone_share": 1.0},
}
SEARCH_S = 0.12
"""Range around the position in the row in which a clip is searched, in seconds."""

OPEN_GATE = GateConfig(
    asr="none", min_letter_s=0.0, max_letter_s=2.0, max_pause_s=10.0, min_level_dbfs=-90.0, max_clipped_run=100
)
"""Quality gate without limits, because voices are not judged here, but the aligner is."""

SEED = 7
ALL = "all forms"

Figures = dict[str, dict[str, dict[str, float]]]
"""Figures of `Tally.make_row` by form and surroundings."""


@dataclass(slots=True)
class Tally:
    """Errors of word starts in milliseconds, and the number of words that could have one."""

    errors_ms: list[float]
    n_words: int = 0
    n_timed: int = 0

    def add(self, other: "Tally") -> None:
        """Adds the errors of another tally."""
        self.errors_ms += other.errors_ms
        self.n_words += other.n_words
        self.n_timed += other.n_timed

    def make_row(self) -> dict[str, float]:
        """Returns mean and 95th percentile of the absolute errors, the mean error, and the share of timed words."""
        size = np.abs(self.errors_ms)
        return {
            "mean_ms": round(float(size.mean()), 1),
            "p95_ms": round(float(np.percentile(size, 95)), 1),
            "bias_ms": round(float(np.mean(self.errors_ms)), 1),
            "n_compared": len(self.errors_ms),
            "timed": round(self.n_timed / self.n_words, 4),
        }


class Station:
    """The stages of speech and alignment, with one synthesiser and one aligner."""

    def __init__(self, truth: str, aligner: str) -> None:
        tts = registry.build("tts", truth, {})
        voices = [voice.name for voice in tts.voices()]
        config = SpeechConfig(tts=truth, voices_b=voices[1:] or voices)  # an engine of one voice says both speakers
        self.speech = SpeechStage(config, OPEN_GATE, tts, None, SEED)
        limits = AlignmentConfig(aligner=aligner, min_mean_score={})  # told for our voices; others score otherwise
        self.alignment = AlignmentStage(limits, registry.build("aligner", aligner, {}))

    def speak(self, dialogues: Sequence[Dialogue]) -> list[tuple[Dialogue, Clips, DialogueWords]]:
        """Returns dialogues with their clips and word times; those that a stage rejects are left out."""
        by_id = {each.dialogue_id: each for each in dialogues}
        clips = self.speech.run([(each,) for each in dialogues]).outputs
        words = self.alignment.run([(by_id[each.dialogue_id], each) for each in clips]).outputs
        clips_of = {each.dialogue_id: each for each in clips}
        return [(by_id[each.dialogue_id], clips_of[each.dialogue_id], each) for each in words]


def collect_items(n: int) -> list[Item]:
    """Returns `n` items: sample items of GSM8K and MMLU-Pro in turn, then generated questions if these are too few."""
    of_source = [
        _read_source(SourceConfig(name=name, path=str(ITEMS / f"{name}.jsonl"))) for name in ("gsm8k", "mmlu_pro")
    ]
    samples = [item for pair in zip(*of_source, strict=False) for item in pair][:n]
    if len(samples) == n:
        return samples
    with tempfile.TemporaryDirectory() as folder:
        return samples + _read_source(write_questions(Path(folder) / "own.jsonl", n - len(samples), SEED))


def _read_source(source: SourceConfig) -> list[Item]:
    """Returns all items of a source."""
    return read_items(source, None, SplitConfig()).items


def make_dialogues(form: str, chosen: Sequence[Item]) -> list[Dialogue]:
    """Makes dialogues of one form from these items; items that it does not fit are left out."""
    shares = FormShares(**{name: float(name == form) for name in FormShares.model_fields})
    made = ScriptStage(ScriptConfig(), FormsConfig(shares=shares), 1.0, SEED).run([(item,) for item in chosen]).outputs
    return [each for each in made if each.form == form]


def mix_dialogues(
    spoken: Sequence[tuple[Dialogue, Clips, DialogueWords]], surroundings: dict[str, float]
) -> Iterator[Any]:
    """Mixes dialogues in these surroundings; yields pairs of a row of a data shard and the clips that are in it."""
    stage = MixingStage(MixingConfig(), SurroundingsConfig(**surroundings), SEED)
    for each in spoken:  # one by one: an item is a dialogue of one id in every form
        for row in stage.run([each]).outputs:
            yield row, each[1]


def count_words(dialogue: Dialogue) -> int:
    """Returns the number of words of all utterances of a dialogue, as they were to be spoken."""
    return sum(len(split_words(each.spoken_text)) for turn in dialogue.turns for each in turn.utterances)


def add_start_errors(row: AudioDialogue, clips: Clips, tally: Tally) -> None:
    """Adds the errors of a dialogue's word starts, relative to the synthesiser's, to a tally, without cut words."""
    sound = decode_flac(row.flac)
    by_place = {(clip.turn_index, clip.utterance_index): clip for clip in clips.clips}
    for turn in row.turns:
        for index, utterance in enumerate(turn.utterances):
            clip = by_place[turn.turn_index, index]
            n_said = len(split_words(utterance.spoken_text))
            tally.n_words += n_said
            tally.n_timed += min(n_said, len(utterance.words))
            if clip.words and utterance.words:
                start_s = find_true_start_s(sound[:, CHANNEL[turn.speaker]], clip, turn, utterance)
                tally.errors_ms += [
                    1000 * (timed.start_s - (start_s + true.start_s))
                    for timed, true in zip(utterance.words, clip.words, strict=False)  # a cut turn lacks its last words
                ]


def find_true_start_s(channel: Sound, clip: Clip, turn: Turn, utterance: Utterance) -> float:
    """Returns the time in seconds at which a clip starts in its channel.

    It is found by cross-correlation around the start of its utterance in the row.
    """
    assert utterance.start_s is not None
    assert utterance.end_s is not None
    said = decode_flac(clip.flac)
    until_s = utterance.end_s if turn.cut_s is None else turn.cut_s - 0.05  # the last 50 ms of a cut turn fade
    said = said[: max(1, seconds_to_samples(until_s - utterance.start_s))]
    margin = seconds_to_samples(SEARCH_S)
    start = seconds_to_samples(utterance.start_s)
    first = max(0, start - margin)
    heard = channel[first : start + len(said) + margin]
    size = 1 << (len(heard) + len(said)).bit_length()
    product = np.fft.irfft(np.fft.rfft(heard, size) * np.conj(np.fft.rfft(said, size)), size)
    return (first + int(np.argmax(product[: 2 * margin + 1]))) / SAMPLE_RATE_HZ


def measure(truth: str, aligner: str, n: int) -> Figures:
    """Measures the errors of an aligner's word starts, with a synthesiser `truth` as the reference, on `n` items.

    Returns figures by form and surroundings; forms that fit none of the items are left out.
    """
    station, chosen = Station(truth, aligner), collect_items(n)
    tallies: dict[tuple[str, str], Tally] = defaultdict(lambda: Tally([]))
    for form in FormShares.model_fields:
        dialogues = make_dialogues(form, chosen)
        spoken = station.speak(dialogues)
        kept = {each.dialogue_id for each, _, _ in spoken}
        n_refused = sum(count_words(each) for each in dialogues if each.dialogue_id not in kept)
        for name, surroundings in SURROUNDINGS.items():
            own = Tally([], n_words=n_refused)
            for row, clips in mix_dialogues(spoken, surroundings):
                add_start_errors(row, clips, own)
            for key in ((form, name), (ALL, name)):
                tallies[key].add(own)
    found: Figures = defaultdict(dict)
    for (form, name), tally in tallies.items():
        if tally.errors_ms:
            found[form][name] = tally.make_row()
    return found


def format_table(found: Figures) -> Iterator[str]:
    """Yields the lines of a table: mean and 95th percentile, a row for each form, a column for each surrounding."""
    yield f"{'ms: mean / 95 %':18}{''.join(f'{name:>15}' for name in SURROUNDINGS)}{'bias':>7}{'words':>7}{'timed':>8}"
    for form in sorted(found, key=lambda each: each == ALL):
        cells = [f"{each['mean_ms']:.1f} / {each['p95_ms']:.1f}" for each in found[form].values()]
        clean = found[form]["clean"]
        counts = f"{clean['bias_ms']:7.1f}{clean['n_compared']:7.0f}{clean['timed']:8.1%}"
        yield f"{form:18}{''.join(f'{cell:>15}' for cell in cells)}{counts}"


def main() -> None:
    """Prints a table for each synthesiser, and writes all of it as JSON if a file is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=30, help="number of items, each made in every form")
    parser.add_argument("--truth", nargs="+", default=["espeak", "kokoro"], help="synthesisers that give word timings")
    parser.add_argument("--aligner", default="pocketsphinx", help="aligner to measure")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    args = parser.parse_args()
    figures = {}
    for truth in args.truth:
        figures[truth] = measure(truth, args.aligner, args.n)
        print(f"\n{args.aligner} against {truth}: word starts", *format_table(figures[truth]), sep="\n", flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
