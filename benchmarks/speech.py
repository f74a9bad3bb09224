"""How fast speech is made, heard and aligned, and whether memory stays flat.

    python -m benchmarks.speech [--seconds N] [--utterances N] [--json]

Speed: the embedded voices say our own sentences and the gate listens to each, in one process and in as many as there
are cores, turn about in one run, so that both see the same machine. Memory: one process says and hears utterances of
one to three sentences in mixed order. Alignment: the embedded aligner on one core, on the same sound.
"""

import argparse
import json
import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache

import psutil  # type: ignore[import-untyped]

from backends.aligner.pocketsphinx import PocketsphinxAligner
from backends.asr.moonshine import Moonshine
from backends.protocols import Samples
from backends.tts.kokoro import Kokoro
from data_schemas.config import GateConfig
from data_schemas.records import Placement, Utterance
from data_schemas.units import SAMPLE_RATE_HZ, samples_to_seconds
from pipelines.script.numerals import cardinal
from pipelines.script.spoken import spoken_words
from pipelines.speech.gate import Gate

WHO = ("A farmer", "My neighbour", "The teacher", "Natalia", "Her uncle", "The old captain")
DID = ("sold", "counted", "painted", "carried", "found", "packed")
WHAT = ("green apples", "wooden chairs", "small boats", "copper coins", "school books", "eggs")
WHERE = ("in the market", "near the river", "before the winter", "on a Monday", "behind the house")

N_ROUNDS = 3
EVERY_N = 50
"""The speeds are measured this often, turn about; memory after this many utterances."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds of speech made and heard in a second of wall-clock time; the best round of each."""

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
class Memory:
    """Resident memory of a process in MiB, after each 50 utterances, and its growth from the second reading on."""

    rss_mib: list[int]
    growth_mib: int
    n_utterances: int

    def __str__(self) -> str:
        return f"{self.growth_mib:+d} MiB over {self.n_utterances} utterances: {self.rss_mib}"


@dataclass(frozen=True, slots=True)
class Alignment:
    """How many times faster than real time words are found, on one core."""

    times_real_time: float
    audio_s: float

    def __str__(self) -> str:
        return f"{self.times_real_time:.0f} x real time on one core ({self.audio_s:.0f} s of sound)"


def texts(n_texts: int, seed: int) -> Iterator[str]:
    """Utterances of one to three sentences of our own; the same for the same seed."""
    draw = random.Random(seed)
    for _ in range(n_texts):
        yield " ".join(_sentence(draw) for _ in range(draw.randint(1, 3)))


def _sentence(draw: random.Random) -> str:
    number = cardinal(draw.randint(2, 900))
    return f"{draw.choice(WHO)} {draw.choice(DID)} {number} {draw.choice(WHAT)} {draw.choice(WHERE)}."


@cache
def _engines() -> tuple[Kokoro, Gate]:
    return Kokoro(), Gate(GateConfig(), Moonshine())


def said_and_heard(text: str) -> float:
    """Says a text and lets the gate listen, in this process; the seconds of speech."""
    tts, gate = _engines()
    samples = tts.synthesise(text, tts.voices()[0].name, 1.0).samples
    gate.judge(_utterance(text), samples, 1.0, 1)
    return samples_to_seconds(len(samples))


def _utterance(text: str) -> Utterance:
    return Utterance(
        kind="speech",
        spoken_text=text,
        written_spans=(),
        placement=Placement(rule="after", seconds=None, turn_index=None, word_index=None),
        hearing=None,
        voice=None,
        speed=None,
        start_s=None,
        end_s=None,
        words=(),
    )


def measure_speed(seconds: float) -> Speed:
    """Rounds of about `seconds` each, one process and all cores in turn; every process is warm before."""
    n_cores = os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as one, ProcessPoolExecutor(n_cores, mp_context=context) as many:
        first = _rate(one, 1, 0)  # loads the models
        _rate(many, 4 * n_cores, 0)
        n_texts = max(4, round(seconds * first / 6))  # a text lasts about six seconds
        best = {1: 0.0, n_cores: 0.0}
        for number in range(N_ROUNDS):
            best[1] = max(best[1], _rate(one, n_texts, number))
            best[n_cores] = max(best[n_cores], _rate(many, n_texts * n_cores, number))
    return Speed(best[1], best[n_cores], n_cores, best[n_cores] / best[1])


def _rate(pool: ProcessPoolExecutor, n_texts: int, seed: int) -> float:
    work = sorted(texts(n_texts, seed), key=len, reverse=True)  # the longest first: no core waits for a late one
    started_s = time.monotonic()
    audio_s = sum(pool.map(said_and_heard, work))
    return audio_s / (time.monotonic() - started_s)


def measure_memory(n_utterances: int) -> Memory:
    """Says and hears utterances in a process of their own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        rss_mib = pool.submit(_rss_curve, n_utterances).result()
    return Memory(rss_mib, rss_mib[-1] - rss_mib[min(1, len(rss_mib) - 1)], n_utterances)


def _rss_curve(n_utterances: int) -> list[int]:
    process = psutil.Process()
    curve = []
    for count, text in enumerate(texts(n_utterances, 1), start=1):
        said_and_heard(text)
        if count % EVERY_N == 0 or count == n_utterances:
            curve.append(process.memory_info().rss >> 20)
    return curve


def measure_alignment(n_texts: int) -> Alignment:
    """Aligns speech of our own on one core, by processor time."""
    tts, aligner = Kokoro(), PocketsphinxAligner()
    spoken: list[tuple[str, Samples]] = [
        (text, tts.synthesise(text, tts.voices()[0].name, 1.0).samples) for text in texts(n_texts, 2)
    ]
    aligner.align(spoken[0][1], SAMPLE_RATE_HZ, spoken_words(spoken[0][0]))  # loads the model
    started_s = time.process_time()
    for text, samples in spoken:
        aligner.align(samples, SAMPLE_RATE_HZ, spoken_words(text))
    taken_s = time.process_time() - started_s
    audio_s = sum(samples_to_seconds(len(samples)) for _, samples in spoken)
    return Alignment(audio_s / taken_s, audio_s)


def main() -> None:
    """Prints the three figures, each as soon as it is there."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speech", description="Speed and memory of speech.")
    parser.add_argument("--seconds", type=float, default=20, help="length of a round of the speed test, about")
    parser.add_argument("--utterances", type=int, default=500, help="utterances of the memory test")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    options = parser.parse_args()
    found: dict[str, object] = {}
    for name, measured in (
        ("speech", lambda: measure_speed(options.seconds)),
        ("alignment", lambda: measure_alignment(12)),
        ("memory", lambda: measure_memory(options.utterances)),
    ):
        figure = measured()
        found[name] = asdict(figure)
        if not options.json:
            print(f"{name:<11} {figure}", flush=True)
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
