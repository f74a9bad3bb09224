"""Compares word starts in finished dialogues with the synthesiser's own word timings.

    python -m benchmarks.timing [--n 30] [--truth espeak kokoro piper] [--json]     (piper: kame backends install piper)

Dialogues of the project's sample items, and of generated questions if these are too few, are made with each form in
turn, and each in all surroundings: script, speech, alignment and mixing as in a run. The reference is a synthesiser
that gives the time of every word: eSpeak NG (its word events), Kokoro (its token durations, where words are separate
tokens) or Piper (its phoneme durations, where eSpeak joins no words). The true position of a clip in the dialogue is
measured in the audio, so that errors of the aligner, of the layout, of a cut and of a filter's delay all show.
"""

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from backends import registry
from benchmarks.command import make_parser, print_figures
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
from data_schemas.records import AudioDialogue, Dialogue, DialogueClips, DialogueWords, Item, Turn, Utterance
from data_schemas.records.speech import UtteranceClip
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
NOISES = {f"noise {snr} dB": {"noise_share": 1.0, "snr_min_db": snr, "snr_max_db": snr} for snr in (30.0, 15.0, 8.0)}
ROOM = {"room_share": 1.0, "rt60_min_s": 0.4, "rt60_max_s": 0.4}
ADDED: dict[str, dict[str, float]] = {"clean": {}, **NOISES, "room 0.4 s": ROOM, "telephone": {"telephone_share": 1.0}}
SURROUNDINGS = {name: CLEAN | added for name, added in ADDED.items()}
SEARCH_S = 0.12
"""Range around the position in the row in which a clip is searched, in seconds."""

OPEN_GATE = GateConfig(
    asr="none", min_letter_s=0.0, max_letter_s=2.0, max_pause_s=10.0, min_level_dbfs=-90.0, max_clipped_run=100
)
"""Quality gate without limits, because voices are not judged here, but the aligner is."""

SEED = 7


@dataclass(slots=True)
class Tally:
    """Errors of word starts in milliseconds, and the number of words that could have one."""

    errors_ms: list[float] = field(default_factory=list)
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


def build_stages(truth: str) -> tuple[SpeechStage, AlignmentStage]:
    """Builds the stages of speech, with the synthesiser `truth`, and of alignment, with the default aligner."""
    tts = registry.build("tts", truth, {})
    voices = [voice.name for voice in tts.list_voices()]
    config = SpeechConfig(tts=truth, voices_b=voices[1:] or voices)  # an engine of one voice says both speakers
    limits = AlignmentConfig(min_mean_score={})  # given for our voices; others score otherwise
    aligner = registry.build("aligner", limits.aligner, {})
    return SpeechStage(config, OPEN_GATE, tts, None, SEED), AlignmentStage(limits, aligner)


def speak(
    speech: SpeechStage, alignment: AlignmentStage, dialogues: Sequence[Dialogue]
) -> list[tuple[Dialogue, DialogueClips, DialogueWords]]:
    """Returns dialogues with their clips and word times; those that a stage rejects are left out."""
    by_id = {each.dialogue_id: each for each in dialogues}
    clips = {each.dialogue_id: each for each in speech.run([(each,) for each in dialogues]).outputs}
    words = alignment.run([(by_id[name], each) for name, each in clips.items()]).outputs
    return [(by_id[each.dialogue_id], clips[each.dialogue_id], each) for each in words]


def collect_items(n: int) -> list[Item]:
    """Returns `n` items: sample items of GSM8K and MMLU-Pro in turn, then generated questions if these are too few."""
    with tempfile.TemporaryDirectory() as folder:
        sources = [SourceConfig(name=name, path=str(ITEMS / f"{name}.jsonl")) for name in ("gsm8k", "mmlu_pro")]
        sources.append(write_questions(Path(folder) / "own.jsonl", n, SEED))
        *samples, generated = (read_items(source, None, SplitConfig()).items for source in sources)
    return [*(item for pair in zip(*samples, strict=False) for item in pair), *generated][:n]


def make_dialogues(form: str, chosen: Sequence[Item]) -> list[Dialogue]:
    """Makes dialogues of one form from these items; items that it does not fit are left out."""
    shares = FormShares(**{name: float(name == form) for name in FormShares.model_fields})
    made = ScriptStage(ScriptConfig(), FormsConfig(shares=shares), 1.0, SEED).run([(item,) for item in chosen]).outputs
    return [each for each in made if each.form == form]


def count_words(dialogue: Dialogue) -> int:
    """Returns the number of words of all utterances of a dialogue, as they were to be spoken."""
    return sum(len(split_words(each.spoken_text)) for turn in dialogue.turns for each in turn.utterances)


def add_start_errors(row: AudioDialogue, clips: DialogueClips, tally: Tally) -> None:
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


def find_true_start_s(channel: Sound, clip: UtteranceClip, turn: Turn, utterance: Utterance) -> float:
    """Returns the second at which a clip starts in its channel, found by cross-correlation around the given start."""
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


def measure(truth: str, n: int) -> list[dict[str, Any]]:
    """Measures the errors of word starts, with a synthesiser `truth` as the reference, on `n` items.

    Returns a row for each form that fits an item and surroundings, those of all forms last.
    """
    (speech, alignment), chosen = build_stages(truth), collect_items(n)
    tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)
    for form in FormShares.model_fields:
        dialogues = make_dialogues(form, chosen)
        spoken = speak(speech, alignment, dialogues)
        kept = {each.dialogue_id for each, _, _ in spoken}
        n_refused = sum(count_words(each) for each in dialogues if each.dialogue_id not in kept)
        for name, surroundings in SURROUNDINGS.items():
            tallies[form, name].n_words += n_refused
            stage = MixingStage(MixingConfig(), SurroundingsConfig(**surroundings), SEED)
            for each in spoken:  # one by one: an item is a dialogue of one id in every form
                for row in stage.run([each]).outputs:
                    add_start_errors(row, each[1], tallies[form, name])
    for (_, name), tally in list(tallies.items()):
        tallies["all", name].add(tally)
    kinds = [(key, tally) for key, tally in tallies.items() if tally.errors_ms]
    return [{"form": form, "surroundings": name} | tally.make_row() for (form, name), tally in kinds]


def main() -> None:
    """Prints a table for each synthesiser."""
    parser = make_parser(__doc__)
    parser.add_argument("--n", type=int, default=30, help="number of items, each made in every form")
    parser.add_argument("--truth", nargs="+", default=["espeak", "kokoro"], help="synthesisers that give word timings")
    args = parser.parse_args()
    print_figures({truth: measure(truth, args.n) for truth in args.truth}, args.json)


if __name__ == "__main__":
    main()
