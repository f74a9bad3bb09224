"""Measures the speech stage in one process and in one per core, the growth of its memory, and the aligner's speed.

    python -m benchmarks.speech [--only speed alignment memory] [--dialogues N] [--memory N] [--json]

Generated questions become dialogues, and these become speech as in a run: by the product's stages with their default
engines and gate, and its `Workers`. Speed: the speech stage in one process and in one per core, in turn, so that other
load on the machine affects both; every process is warm before. Memory: of each worker process after its first 100 and
after its last utterances. Alignment: the embedded aligner on one core, by processor time.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from backends.aligner.pocketsphinx import PocketsphinxAligner
from backends.engine import Samples
from backends.tts.kokoro import Kokoro
from benchmarks.questions import generate_texts, write_questions
from data_schemas.config import PartConfig, RefreshConfig
from data_schemas.records import Clips, Dialogue
from data_schemas.store import Store
from data_schemas.units import SAMPLE_RATE_HZ, samples_to_seconds
from pipelines.run.execute import Runner, run_chat_stage, run_on_part
from pipelines.run.parts import Part, PartRecord
from pipelines.run.plan import make_plan
from pipelines.run.stages import CHAT_STAGES, STAGES
from pipelines.run.workers import Workers
from spoken.spoken_text import split_words

SPEECH = "speech"
N_ROUNDS = 2
N_SETTLED = 100
"""Number of utterances after which a process has loaded all that it needs."""

LEAST_UTTERANCES = 2
"""Minimum number of utterances of a dialogue: a question and an answer."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds of accepted speech per second of wall-clock time; the best round of each."""

    one_process: float
    all_cores: float
    n_cores: int
    ratio: float

    def __str__(self) -> str:
        return (
            f"{self.one_process:.2f} s of sound a second in one process, {self.all_cores:.2f} on {self.n_cores} cores: "
            f"ratio {self.ratio:.2f}"
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """A process, the number of its utterances so far, and its resident memory in MiB."""

    pid: int
    n_utterances: int
    rss_mib: int


@dataclass(frozen=True, slots=True)
class Memory:
    """Readings of each worker process after its first 100 and after its last utterances, and the greatest ratio."""

    settled: list[Reading]
    last: list[Reading]
    ratio: float

    def __str__(self) -> str:
        curves = (
            f"{one.rss_mib} MiB after {one.n_utterances} utterances, {other.rss_mib} after {other.n_utterances}"
            for one, other in zip(self.settled, self.last, strict=True)
        )
        return f"{'; '.join(curves)}: ratio {self.ratio:.2f}"


@dataclass(frozen=True, slots=True)
class Alignment:
    """Speed of alignment on one core, as a multiple of real time."""

    times_real_time: float
    audio_s: float

    def __str__(self) -> str:
        return f"{self.times_real_time:.0f} x real time on one core ({self.audio_s:.0f} s of sound)"


def prepare_scripts(folder: Path, n_dialogues: int, n_workers: int) -> tuple[RefreshConfig, list[Part]]:
    """Runs all stages before speech in this process for this number of dialogues, one per part.

    Returns the configuration, in which `n_workers` is set for the stages that the caller runs, and the parts.
    """
    source = write_questions(folder / "own.jsonl", n_dialogues, 1)
    config = RefreshConfig(
        out=str(folder / "out"),
        sources=[source],
        workers=n_workers,
        parts=PartConfig(dialogues_per_part=1, parts_per_shard=64),
    )
    parts = make_plan(config).parts
    for stage in STAGES[: STAGES.index(SPEECH)]:
        if stage in CHAT_STAGES:
            run_chat_stage(config, stage, parts, None, lambda *_: None, lambda _: None)
        else:
            for part in parts:
                run_on_part(config, stage, part)
    return config, parts


def measure_speed(n_dialogues: int) -> Speed:
    """Returns the speed of the speech stage in one process and in one per core, with `n_dialogues` per process."""
    n_cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        config, parts = prepare_scripts(Path(folder), n_dialogues * n_cores, n_cores)
        with Workers(config.model_copy(update={"workers": 1})) as one, Workers(config) as many:
            _measure_rate(one, parts[:1])  # loads the models
            _measure_rate(many, parts[: 2 * n_cores])
            best = {1: 0.0, n_cores: 0.0}
            for _ in range(N_ROUNDS):
                best[1] = max(best[1], _measure_rate(one, parts[:n_dialogues]))
                best[n_cores] = max(best[n_cores], _measure_rate(many, parts))
    return Speed(best[1], best[n_cores], n_cores, best[n_cores] / best[1])


def _measure_rate(workers: Workers, parts: Sequence[Part]) -> float:
    """Runs the speech stage on some parts, deletes its output, and returns the seconds of speech made per second."""
    runner = Runner(Store(workers.config.out))
    started_s = time.monotonic()
    workers.run(SPEECH, parts, lambda *_: None)
    taken_s = time.monotonic() - started_s
    clips = [clip for part in parts for row in runner.read(part, SPEECH, Clips) for clip in row.clips]
    for part in parts:
        for path in (part.get_record_path(SPEECH), part.get_path(SPEECH)):
            Path(runner.store.at(path)).unlink()
    return sum(samples_to_seconds(clip.n_samples) for clip in clips) / taken_s


def measure_memory(n_utterances: int) -> Memory:
    """Returns the memory of the workers, one per core, while each synthesises about `n_utterances` (more than 100).

    Of a worker that made fewer than 100, both readings are its last one.
    """
    n_cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        config, parts = prepare_scripts(Path(folder), -(-n_utterances * n_cores // LEAST_UTTERANCES), n_cores)
        chosen, left = [], n_utterances * n_cores
        for part in parts:
            if left > 0:
                chosen.append(part)
                left -= _count_utterances(config, part)
        with Workers(config, run_watched) as workers:
            workers.run(SPEECH, chosen, lambda *_: None)
        curves = [_read_readings(file) for file in sorted(Path(config.out).glob("rss-*.jsonl"))]
    last = [curve[-1] for curve in curves]
    settled = [next((each for each in curve if each.n_utterances >= N_SETTLED), curve[-1]) for curve in curves]
    return Memory(settled, last, max(b.rss_mib / a.rss_mib for a, b in zip(settled, last, strict=True)))


def run_watched(config: RefreshConfig, stage: str, part: Part) -> PartRecord:
    """Calls `run_on_part`, then appends the memory of this process to a file of its own, and returns the record."""
    record = run_on_part(config, stage, part)
    process = psutil.Process()
    file = Path(config.out) / f"rss-{process.pid}.jsonl"
    before = _read_readings(file)[-1].n_utterances if file.exists() else 0
    now = Reading(process.pid, before + _count_utterances(config, part), process.memory_info().rss >> 20)
    with file.open("a", encoding="utf-8") as written:
        written.write(f"{json.dumps(asdict(now))}\n")
    return record


def _read_readings(file: Path) -> list[Reading]:
    """Returns the memory readings that `run_watched` has written to a file, in order."""
    return [Reading(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def _count_utterances(config: RefreshConfig, part: Part) -> int:
    """Counts the utterances of a part that the speech stage is to make."""
    dialogues = Runner(Store(config.out)).read(part, "wording", Dialogue)
    return sum(len(turn.utterances) for dialogue in dialogues for turn in dialogue.turns)


def measure_alignment(n_texts: int) -> Alignment:
    """Returns the speed of aligning `n_texts` synthesised texts on one core, by processor time."""
    tts, aligner = Kokoro(), PocketsphinxAligner()
    spoken: list[tuple[str, Samples]] = [
        (text, tts.synthesise(text, tts.voices()[0].name, 1.0).samples) for text in generate_texts(n_texts, 2)
    ]
    aligner.align(spoken[0][1], SAMPLE_RATE_HZ, split_words(spoken[0][0]))  # loads the model
    started_s = time.process_time()
    for text, samples in spoken:
        aligner.align(samples, SAMPLE_RATE_HZ, split_words(text))
    taken_s = time.process_time() - started_s
    audio_s = sum(samples_to_seconds(len(samples)) for _, samples in spoken)
    return Alignment(audio_s / taken_s, audio_s)


def main() -> None:
    """Runs the measurements, and prints each figure when it is known."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speech", description="Speed and memory of speech.")
    names = ("speed", "alignment", "memory")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="what to measure")
    parser.add_argument("--dialogues", type=int, default=8, help="dialogues per process in a round of the speed test")
    parser.add_argument("--memory", type=int, default=500, help=f"utterances per process, more than {N_SETTLED}")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.memory <= N_SETTLED:
        parser.error(f"--memory: more than {N_SETTLED}")
    found: dict[str, object] = {}
    for name, measured in (
        ("speed", lambda: measure_speed(options.dialogues)),
        ("alignment", lambda: measure_alignment(12)),
        ("memory", lambda: measure_memory(options.memory)),
    ):
        if name in options.only:
            figure = measured()
            found[name] = asdict(figure)
            if not options.json:
                print(f"{name:<11} {figure}", flush=True)
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
