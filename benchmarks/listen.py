"""Measures delay, accuracy and processor time of the embedded streaming recogniser.

    python -m benchmarks.listen [--callers N] [--slower F] [--json]

Kokoro speaks five sentences, which callers play to a recogniser in real time, frame by frame, with the server's turn
detector. The delay of a word is from its end, by Kokoro's timings, to the first partial text that contains it. With
`--slower 8`, they are played at an eighth of the speed and all times divided by eight, as on a faster machine.
"""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from backends.listener.moonshine import MoonshineListener, MoonshineListenerOptions
from backends.listener.protocol import Heard
from backends.listener.vad import TurnDetector
from backends.tts.kokoro import Kokoro
from backends.tts.protocol import Speech
from benchmarks.command import make_parser, print_figures
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S, SAMPLE_RATE_HZ, samples_to_seconds
from pipelines.quality.word_errors import compare_transcript

SENTENCES = (
    "What is the capital of France, and when was it founded?",
    "Which part of the cell makes most of its energy, and what is that process called?",
    "A farmer sold ninety green apples in the market before the winter. How many more did she need to sell?",
    "My neighbour carried twelve wooden chairs near the river. Then he painted half of them. How many are left?",
    "I have been reading about the old captain of that ship, who found copper coins behind the house, and I would "
    "like to know whether a coin like that is worth more than a new one, or whether people only say so.",
)
_LEAD_S, _TAIL_S, _TURN_END_S = 0.5, 1.5, 0.7
_N_TIMED = 1000


class Player:
    """Plays sentences to a recogniser."""

    def __init__(self, recogniser: MoonshineListener, slower: float) -> None:
        self._ear = recogniser.listen(self._record_text)
        self._slower = slower
        self._texts: list[tuple[float, Heard]] = []
        self._is_final = threading.Event()

    def play(self, said: str, speech: Speech) -> dict[str, Any]:
        """Plays a sentence; returns what was recognised, its errors, and delays of words and of the final text."""
        self._texts.clear()
        self._is_final.clear()
        detector = TurnDetector(0.5, _TURN_END_S)
        started_s = time.monotonic()
        sound = np.pad(speech.samples, (round(_LEAD_S * SAMPLE_RATE_HZ), round(_TAIL_S * SAMPLE_RATE_HZ)))
        for number, start in enumerate(range(0, len(sound), FRAME_N_SAMPLES), 1):
            time.sleep(max(0.0, started_s + number * FRAME_S * self._slower - time.monotonic()))
            frame = sound[start : start + FRAME_N_SAMPLES]
            self._ear.feed(frame)
            if "stopped" in detector.feed(frame) and start > len(sound) - round(_TAIL_S * SAMPLE_RATE_HZ):
                break
        ended_s = time.monotonic()
        self._ear.end_turn()
        self._is_final.wait()
        at_s, heard = self._texts[-1]
        found = compare_transcript(said, heard.text)
        return {
            "said": said,
            "heard": heard.text,
            "n_words": found.n_words,
            "n_errors": found.n_word_errors,
            "lags_s": list(self._compute_lags_s(said, speech, started_s)),
            "final_s": (at_s - ended_s) / self._slower,
        }

    def _record_text(self, heard: Heard) -> None:
        """Records a text of the recogniser with the time at which it came."""
        self._texts.append((time.monotonic(), heard))
        if heard.is_final:
            self._is_final.set()

    def _compute_lags_s(self, said: str, speech: Speech, started_s: float) -> Iterator[float]:
        """Yields the delays of recognised words in seconds, from a word's end to the first text that contains it."""
        first_s: dict[int, float] = {}
        for at_s, heard in self._texts:
            found = compare_transcript(said, heard.text)
            said_tokens = found.said.split()
            if len(said_tokens) != len(speech.words):
                continue  # numbers of several words have one time for all: such texts are not timed
            for block in SequenceMatcher(None, said_tokens, found.heard.split(), autojunk=False).get_matching_blocks():
                for index in range(block.a, block.a + block.size):
                    first_s.setdefault(index, (at_s - started_s) / self._slower - _LEAD_S)
        for index, known_s in sorted(first_s.items()):
            yield known_s - speech.words[index].end_s


def measure_frame_cost_us() -> float:
    """Returns the processor time of the turn detector for a frame of 80 ms, in microseconds, as the mean of 1,000."""
    detector = TurnDetector(0.5, _TURN_END_S)
    frame = np.random.default_rng(0).normal(0, 0.05, FRAME_N_SAMPLES).astype(np.float32)
    started_s = time.process_time()
    for _ in range(_N_TIMED):
        detector.feed(frame)
    return (time.process_time() - started_s) / _N_TIMED * 1e6


def main() -> None:
    """Runs the benchmark and prints its figures."""
    parser = make_parser(__doc__)
    parser.add_argument("--callers", type=int, default=1, help="number of concurrent callers")
    parser.add_argument("--slower", type=float, default=1.0, help="factor by which audio is slower than real time")
    options = parser.parse_args()
    kokoro = Kokoro()
    voices = [voice.name for voice in kokoro.list_voices()]
    speeches = [kokoro.synthesise(text, voices[number % len(voices)], 1.0) for number, text in enumerate(SENTENCES)]
    interval_s = min(10.0, 0.4 * options.slower)
    listening = MoonshineListenerOptions(interval_s=interval_s, final_timeout_s=60.0, piece_timeout_s=600.0)
    recogniser = MoonshineListener(listening)

    def call(first: int) -> list[dict[str, Any]]:
        player, n_all = Player(recogniser, options.slower), len(SENTENCES)
        return [player.play(SENTENCES[n % n_all], speeches[n % n_all]) for n in range(first, first + n_all)]

    started_s = time.process_time()
    with ThreadPoolExecutor(options.callers) as callers:
        turns = [turn for talked in callers.map(call, range(options.callers)) for turn in talked]
    processor_s = time.process_time() - started_s
    recogniser.close()
    lags_s, finals_s = [lag_s for turn in turns for lag_s in turn["lags_s"]], [turn["final_s"] for turn in turns]
    speech_s = sum(samples_to_seconds(len(each.samples)) for each in speeches)
    figures = {
        "n_words": sum(turn["n_words"] for turn in turns),
        "wer": sum(turn["n_errors"] for turn in turns) / sum(turn["n_words"] for turn in turns),
        "n_words_timed": len(lags_s),
        "lag_p50_s": float(np.quantile(lags_s, 0.5)),
        "lag_p95_s": float(np.quantile(lags_s, 0.95)),
        "final_p50_s": float(np.quantile(finals_s, 0.5)),
        "final_max_s": max(finals_s),
        "processor_share": processor_s / (options.callers * speech_s),
        "vad_frame_us": measure_frame_cost_us(),
        "turns": turns,
    }
    print_figures(figures, options.json)


if __name__ == "__main__":
    main()
