"""Measures the speech stage in one process and in one per core, the growth of its memory, and the aligner's speed.

    python -m benchmarks.speech [--only speed alignment memory] [--dialogues N] [--memory N] [--json]

Generated questions become dialogues, and these become speech as in a run: by the product's stages with their default
engines and gate, and its `Workers`. Speed, in seconds of accepted speech a second: the speech stage in one process and
in one per core, in turn, so that other load on the machine affects both; every process is warm before, and the best
round of each counts. Memory: of each worker process after its first 100 and after its last utterances. Alignment: the
embedded aligner on one core, by processor time.
"""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from backends.aligner.pocketsphinx import PocketsphinxAligner
from backends.tts.kokoro import Kokoro
from benchmarks.command import make_parser, measure_mib, print_figures
from benchmarks.questions import generate_texts, write_questions
from data_schemas.config import PartConfig, RefreshConfig
from data_schemas.records import Dialogue, DialogueClips
from data_schemas.store import Store
from data_schemas.units import SAMPLE_RATE_HZ, samples_to_seconds
from kame_model.evaluate.report.folder import append_line, read_lines
from pipelines.run.execute import Runner, run_chat_stage, run_on_part
from pipelines.run.parts import Part, PartRecord
from pipelines.run.plan import make_plan
from pipelines.run.stages import CHAT_STAGES, STAGES
from pipelines.run.workers import Workers
from spoken.spoken_text import split_words

SPEECH = "speech"
N_ROUNDS = 2
N_ALIGNED = 12
N_SETTLED = 100
"""Number of utterances after which a process has loaded all that it needs."""


def prepare_scripts(folder: Path, n_dialogues: int, n_workers: int) -> tuple[RefreshConfig, list[Part]]:
    """Runs all stages before speech in this process for this number of dialogues, one per part.

    Returns the configuration, in which `n_workers` is set for the stages that the caller runs, and the parts.
    """
    config = RefreshConfig(
        out=str(folder / "out"),
        sources=[write_questions(folder / "own.jsonl", n_dialogues, 1)],
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


def measure_speed(n_dialogues: int) -> dict[str, float]:
    """Returns the speed of the speech stage in one process and in one per core, with `n_dialogues` per process."""
    n_cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        config, parts = prepare_scripts(Path(folder), n_dialogues * n_cores, n_cores)
        with Workers(config.model_copy(update={"workers": 1})) as one, Workers(config) as many:
            _measure_rate(one, parts[:1])  # loads the models
            _measure_rate(many, parts[: 2 * n_cores])
            rounds = [(_measure_rate(one, parts[:n_dialogues]), _measure_rate(many, parts)) for _ in range(N_ROUNDS)]
    one_process, all_cores = map(max, zip(*rounds, strict=True))
    return {
        "one_process": one_process,
        "all_cores": all_cores,
        "n_cores": n_cores,
        "ratio": all_cores / one_process,
    }


def _measure_rate(workers: Workers, parts: Sequence[Part]) -> float:
    """Runs the speech stage on some parts, deletes its output, and returns the seconds of speech made per second."""
    runner = Runner(Store(workers.config.out))
    started_s = time.monotonic()
    workers.run(SPEECH, parts, lambda *_: None)
    taken_s = time.monotonic() - started_s
    clips = [clip for part in parts for row in runner.read(part, SPEECH, DialogueClips) for clip in row.clips]
    for part in parts:
        for path in (part.get_record_path(SPEECH), part.get_path(SPEECH)):
            Path(runner.store.resolve_path(path)).unlink()
    return sum(samples_to_seconds(clip.n_samples) for clip in clips) / taken_s


def measure_memory(n_utterances: int) -> dict[str, Any]:
    """Returns the memory of the workers, one per core, while each synthesises about `n_utterances` (more than 100).

    A dialogue has at least two of them. Of a worker that made fewer than 100, both readings are its last one.
    """
    n_cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        config, parts = prepare_scripts(Path(folder), -(-n_utterances * n_cores // 2), n_cores)
        chosen, left = [], n_utterances * n_cores
        for part in parts:
            if left > 0:
                chosen.append(part)
                left -= _count_utterances(config, part)
        with Workers(config, run_watched) as workers:
            workers.run(SPEECH, chosen, lambda *_: None)
        curves = [read_lines(file, "") for file in sorted(Path(config.out).glob("rss-*.jsonl"))]
    last = [curve[-1] for curve in curves]
    settled = [next((each for each in curve if each["n_utterances"] >= N_SETTLED), curve[-1]) for curve in curves]
    ratio = max(after["rss_mib"] / before["rss_mib"] for before, after in zip(settled, last, strict=True))
    return {"settled": settled, "last": last, "ratio": ratio}


def run_watched(config: RefreshConfig, stage: str, part: Part) -> PartRecord:
    """Calls `run_on_part`, then appends the memory of this process to a file of its own, and returns the record."""
    record = run_on_part(config, stage, part)
    process = psutil.Process()
    file = Path(config.out) / f"rss-{process.pid}.jsonl"
    n_before = sum(each["n_utterances"] for each in read_lines(file, "")[-1:])
    reading = {"n_utterances": n_before + _count_utterances(config, part), "rss_mib": round(measure_mib(process))}
    append_line(file, reading, is_synced=False)
    return record


def _count_utterances(config: RefreshConfig, part: Part) -> int:
    """Counts the utterances of a part that the speech stage is to make."""
    dialogues = Runner(Store(config.out)).read(part, "wording", Dialogue)
    return sum(len(turn.utterances) for dialogue in dialogues for turn in dialogue.turns)


def measure_alignment() -> dict[str, float]:
    """Returns the speed of aligning synthesised texts on one core, by processor time, as a multiple of real time."""
    tts, aligner = Kokoro(), PocketsphinxAligner()
    voice = tts.list_voices()[0].name
    spoken = [(text, tts.synthesise(text, voice, 1.0).samples) for text in generate_texts(N_ALIGNED, 2)]
    aligner.align(spoken[0][1], SAMPLE_RATE_HZ, split_words(spoken[0][0]))  # loads the model
    started_s = time.process_time()
    for text, samples in spoken:
        aligner.align(samples, SAMPLE_RATE_HZ, split_words(text))
    taken_s = time.process_time() - started_s
    audio_s = sum(samples_to_seconds(len(samples)) for _, samples in spoken)
    return {"times_real_time": audio_s / taken_s, "audio_s": audio_s}


def main() -> None:
    """Runs the measurements and prints their figures."""
    parser = make_parser(__doc__)
    names = ("speed", "alignment", "memory")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="what to measure")
    parser.add_argument("--dialogues", type=int, default=8, help="dialogues per process in a round of the speed test")
    parser.add_argument("--memory", type=int, default=500, help=f"utterances per process, more than {N_SETTLED}")
    options = parser.parse_args()
    if options.memory <= N_SETTLED:
        parser.error(f"--memory: more than {N_SETTLED}")
    measures: dict[str, Callable[[], dict[str, Any]]] = {
        "speed": lambda: measure_speed(options.dialogues),
        "alignment": measure_alignment,
        "memory": lambda: measure_memory(options.memory),
    }
    print_figures({name: measure() for name, measure in measures.items() if name in options.only}, options.json)


if __name__ == "__main__":
    main()
