"""Measures delay, accuracy and processor time of the embedded streaming recogniser.

    python -m benchmarks.listen [--callers N] [--slower F] [--json]

Kokoro speaks generated sentences; each caller plays them to a recogniser in real time, frame by frame, with the
server's turn detector. The delay of a word is from its end, by Kokoro's timings, to the first partial text that
contains it. On a shared machine, `--slower 8` plays at an eighth of the speed and divides all times by eight, as if the
machine were eight times faster.
"""

import argparse
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from difflib import SequenceMatcher

import numpy as np

from backends.listener.moonshine import MoonshineListener, MoonshineListenerOptions
from backends.listener.protocol import Heard
from backends.listener.vad import TurnDetector
from backends.tts.kokoro import Kokoro
from backends.tts.protocol import Speech
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


@dataclass
class Turn:
    """A sentence of a caller."""

    said: str
    heard: str = ""
    n_words: int = 0
    n_errors: int = 0
    lags_s: list[float] = field(default_factory=list)
    final_s: float = 0.0
    """Seconds from the turn's end, as detected, to the final text."""


class Player:
    """Plays sentences to a recogniser."""

    def __init__(self, recogniser: MoonshineListener, slower: float) -> None:
        self._ear = recogniser.listen(self._record_text)
        self._slower = slower
        self._told: list[tuple[float, Heard]] = []
        self._is_final = threading.Event()

    def play(self, said: str, speech: Speech) -> Turn:
        """Plays a sentence and waits for its final text; returns what was recognised, with its errors and delays."""
        self._told.clear()
        self._is_final.clear()
        detector = TurnDetector(0.5, _TURN_END_S)
        started_s = time.monotonic()
        silences = (np.zeros(round(each * SAMPLE_RATE_HZ), dtype=np.float32) for each in (_LEAD_S, _TAIL_S))
        lead, tail = silences
        sound = np.concatenate([lead, speech.samples, tail])
        for number, start in enumerate(range(0, len(sound), FRAME_N_SAMPLES), 1):
            time.sleep(max(0.0, started_s + number * FRAME_S * self._slower - time.monotonic()))
            self._ear.feed(sound[start : start + FRAME_N_SAMPLES])
            if "stopped" in detector.feed(sound[start : start + FRAME_N_SAMPLES]) and start > len(sound) - len(tail):
                break
        ended_s = time.monotonic()
        self._ear.end_turn()
        self._is_final.wait()
        found = compare_transcript(said, self._told[-1][1].text)
        turn = Turn(said, self._told[-1][1].text, found.n_words, found.n_word_errors)
        turn.final_s = (self._told[-1][0] - ended_s) / self._slower
        turn.lags_s = self._compute_lags_s(said, speech, started_s)
        return turn

    def _record_text(self, heard: Heard) -> None:
        """Records a text of the recogniser with the time at which it came."""
        self._told.append((time.monotonic(), heard))
        if heard.is_final:
            self._is_final.set()

    def _compute_lags_s(self, said: str, speech: Speech, started_s: float) -> list[float]:
        """Returns the delays of recognised words in seconds, from a word's end to the first text that contains it.

        Words that no text contains are left out.
        """
        first_s: dict[int, float] = {}
        for told_s, heard in self._told:
            found = compare_transcript(said, heard.text)
            said_tokens = found.said.split()
            if len(said_tokens) != len(speech.words):
                continue  # numbers of several words have one time for all: such texts are not timed
            for block in SequenceMatcher(None, said_tokens, found.heard.split(), autojunk=False).get_matching_blocks():
                for index in range(block.a, block.a + block.size):
                    first_s.setdefault(index, (told_s - started_s) / self._slower - _LEAD_S)
        return [first_s[index] - speech.words[index].end_s for index in sorted(first_s)]


def measure_frame_cost_us() -> float:
    """Returns the processor time of the turn detector for a frame of 80 ms, in microseconds, as the mean of 1,000."""
    detector = TurnDetector(0.5, _TURN_END_S)
    frame = np.random.default_rng(0).normal(0, 0.05, FRAME_N_SAMPLES).astype(np.float32)
    started_s = time.process_time()
    for _ in range(_N_TIMED):
        detector.feed(frame)
    return (time.process_time() - started_s) / _N_TIMED * 1e6


def summarise(turns: Sequence[Turn], speech_s: float, processor_s: float) -> dict[str, float]:
    """Returns word error rate, delays and processor time of all turns: the table in docs/backends.md.

    The processor time of the turn detector is measured here.

    Args:
        speech_s: duration of all sentences that were played, in seconds.
        processor_s: processor time of this process meanwhile, in seconds.
    """
    lags_s = [lag_s for turn in turns for lag_s in turn.lags_s]
    finals_s = [turn.final_s for turn in turns]
    return {
        "n_turns": len(turns),
        "wer": sum(turn.n_errors for turn in turns) / sum(turn.n_words for turn in turns),
        "n_words_timed": len(lags_s),
        "lag_p50_s": float(np.quantile(lags_s, 0.5)),
        "lag_p95_s": float(np.quantile(lags_s, 0.95)),
        "final_p50_s": float(np.quantile(finals_s, 0.5)),
        "final_max_s": max(finals_s),
        "processor_share": processor_s / speech_s,
        "vad_frame_us": measure_frame_cost_us(),
    }


def main() -> None:
    """Runs the benchmark and prints its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--callers", type=int, default=1, help="number of concurrent callers")
    parser.add_argument(
        "--slower", type=float, default=1.0, help="factor by which audio is played slower than real time"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with every turn")
    options = parser.parse_args()
    kokoro = Kokoro()
    voices = kokoro.voices()
    speeches = [
        kokoro.synthesise(text, voices[number % len(voices)].name, 1.0) for number, text in enumerate(SENTENCES)
    ]
    recogniser = MoonshineListener(
        MoonshineListenerOptions(
            interval_s=min(10.0, 0.4 * options.slower), final_timeout_s=60.0, piece_timeout_s=600.0
        )
    )
    turns: list[Turn] = []

    def call(first: int) -> None:
        player = Player(recogniser, options.slower)
        for number in range(len(SENTENCES)):
            chosen = (first + number) % len(SENTENCES)
            turns.append(player.play(SENTENCES[chosen], speeches[chosen]))

    started_s = time.process_time()
    callers = [threading.Thread(target=call, args=(first,)) for first in range(options.callers)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    processor_s = time.process_time() - started_s
    speech_s = options.callers * sum(samples_to_seconds(len(each.samples)) for each in speeches)
    recogniser.close()
    figures = summarise(turns, speech_s, processor_s)
    print(json.dumps(figures | ({"turns": [asdict(turn) for turn in turns]} if options.json else {}), indent=1))


if __name__ == "__main__":
    main()
